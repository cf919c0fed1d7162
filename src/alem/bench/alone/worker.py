"""Times a peer in a process that never imports alem; run by its path, not as a module of alem.

Reads a job in JSON from each line of standard input, and writes its times as one to standard output.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any


def load_package() -> None:
    """Make this folder the package ``alone``, without the packages above it."""
    here = Path(__file__).parent
    sys.path.remove(str(here))  # its file names are not to be found by the peers
    spec = importlib.util.spec_from_file_location(
        "alone", here / "__init__.py", submodule_search_locations=[str(here)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = sys.modules["alone"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """The samples of a job, the setting they were taken with, and whether alem was kept out."""
    timing = importlib.import_module("alone.timing")
    module, function = job["build"].split(":")
    build = getattr(importlib.import_module(f"alone.{module}"), function)

    def make(setting: dict[str, Any]) -> Any:
        return build(**job["arguments"], **{k: v for k, v in setting.items() if k != "threads"})

    clock = timing.clock_for(job["arguments"].get("device", "cpu"))
    task, setting = timing.best_setting(make, job["settings"], clock)
    side = timing.Side(task.run, setting.get("threads"))
    samples = timing.alternate([side], job["seconds"], clock)[0]
    return {"samples": samples, "setting": setting, "alem": "alem" in sys.modules}


def main() -> None:
    """Answer jobs until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a peer prints is not an answer
    warnings.simplefilter("ignore")
    load_package()
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
