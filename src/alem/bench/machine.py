"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import torch

from alem.linalg import backend

PACKAGES = ("alem", "torch", "numpy", "geoopt", "spd_learn", "pyriemann")


def machine(device: str) -> dict[str, str | int]:
    """Processor, cores, threads, device and versions; no date, so that a run can be repeated."""
    facts: dict[str, str | int] = {
        "processor": processor(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **versions(),
        "device": device,
        "eigensolver": backend(device).name,
    }
    if torch.device(device).type == "cuda":
        facts["device"] = torch.cuda.get_device_name(device)
        facts["cuda"] = str(torch.version.cuda)
    return facts


def processor() -> str:
    """The model as the system names it."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Of alem and its peers, those that are installed or on the path."""
    found = {}
    for name in PACKAGES:
        if (version := version_of(name)) is not None:
            found[name] = version
    return found


def version_of(package: str) -> str | None:
    """From its metadata; None if it is not there."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
