"""Who is at which run, where several commands share a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from alem.experiments.ledger import Ledger
from alem.experiments.run import Run
from alem.files import claim, clear, release
from alem.training import are_shared

UNFINISHED = "unfinished"
LOOK = 0.5  # seconds between two looks at what another command is at


class Claims:
    """The runs that this command is at; those that another is at are put off until it has done with them.

    A claim is a lock beside the checkpoint. The command holds it, not its workers: it lasts until the
    result is written, and ends with the command however that ends.
    """

    def __init__(self, ledger: Ledger, networks: Path | None) -> None:
        self._ledger, self._networks = ledger, networks
        self._folder = ledger.folder / UNFINISHED
        self._held: dict[str, int] = {}
        self._later: dict[str, Run] = {}

    def tidy(self, made: Collection[str]) -> None:
        """Bring to its end what commands that were killed have left, ``made`` being runs with a result."""
        if not is_first():
            return
        clear(self._folder)
        for lock in self._folder.glob(".*.lock"):
            self._is_free(lock.name[1:-5])  # and is gone now
        for key in made:
            if self.checkpoint(key).exists() and self._take(key):
                self.settle(key)

    def of(self, runs: Mapping[str, Run]) -> Iterator[tuple[str, Run]]:
        """Those of ``runs`` that are to be made here, each claimed when its turn comes."""
        for key, run in runs.items():
            # The processes of torchrun must all decide alike.
            if not are_shared() and not self._take(key):
                self._later[key] = run
            elif key in self._ledger.records():  # another command has made it meanwhile
                self._drop(key)
            else:
                yield key, run

    def put_off(self) -> dict[str, Run]:
        """Those that were put off and are free now, after waiting for one; none if all have been made."""
        while self._later:
            self._later = {k: run for k, run in self._later.items() if k not in self._ledger.records()}
            free = {key: run for key, run in self._later.items() if self._is_free(key)}
            if free:
                self._later = {key: run for key, run in self._later.items() if key not in free}
                return free
            time.sleep(LOOK if self._later else 0)
        return {}

    def settle(self, key: str) -> None:
        """The result of a run is written: its network goes to its place, or away."""
        checkpoint = self.checkpoint(key)
        if is_first():
            if self._networks is not None and checkpoint.exists():
                self._networks.mkdir(parents=True, exist_ok=True)
                os.replace(checkpoint, self._networks / checkpoint.name)
            checkpoint.unlink(missing_ok=True)
        self._drop(key)

    def close(self) -> None:
        """Claim nothing any more."""
        for key in list(self._held):
            self._drop(key)

    def checkpoint(self, key: str) -> Path:
        """Where a run is saved while it is under way."""
        return self._folder / f"{key}.safetensors"

    def _is_free(self, key: str) -> bool:
        free = self._take(key)
        self._drop(key)
        return free

    def _take(self, key: str) -> bool:
        handle = claim(self._lock(key))
        if handle is not None:
            self._held[key] = handle
        return handle is not None

    def _drop(self, key: str) -> None:
        if key in self._held:
            release(self._lock(key), self._held.pop(key))

    def _lock(self, key: str) -> Path:
        return self._folder / f".{key}.lock"


def is_first() -> bool:
    """Whether this process is the one that writes."""
    return not are_shared() or os.environ["RANK"] == "0"
