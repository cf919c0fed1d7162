"""``alem doctor``: what is installed, and whether the fast paths are in use."""

from __future__ import annotations

import argparse
import platform

import torch

import alem
from alem import linalg
from alem.bench.machine import processor, version_of
from alem.linalg import backend

HELP = "show versions, devices, and which eigensolver is in use"
NEEDED = ("torch", "numpy", "geoopt")
OPTIONAL = (
    "lightning-fabric",
    "safetensors",
    "joblib",
    "tqdm",
    "scikit-learn",
    "matplotlib",
    "pyriemann",
    "spd_learn",
)
WIDTH = 18


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""


def run(arguments: argparse.Namespace) -> int:
    """0 if every device decomposes correctly; a slow way of doing it is reported, not an error."""
    _line("alem", alem.__version__)
    _line("python", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    for package in NEEDED:
        _line(package, version_of(package) or "missing: pip install alem")
    for package in OPTIONAL:
        _line(package, version_of(package) or "not installed (optional)")
    _line("threads", str(torch.get_num_threads()))
    devices = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
    works = True
    for device in devices:
        works = _device(device) and works
    print("everything works" if works else "something is wrong, see above")
    return int(not works)


def _device(device: str) -> bool:
    """Say how matrices are decomposed there, and whether that is right."""
    print()
    _line(device, torch.cuda.get_device_name(device) if device != "cpu" else processor())
    used = backend(device)
    _line("eigensolver", f"{used.name} ({'the fast one' if used.fast else 'not the fast one'})")
    if not used.fast:
        _line("", used.reason)
    try:
        worst = max(_error(device, dtype) for dtype in (torch.float32, torch.float64))
    except Exception as error:  # whatever is wrong is what is to be shown
        _line("check", f"failed: {type(error).__name__}: {error}")
        return False
    right = worst <= 100
    _line("check", f"{'right' if right else 'WRONG'}: a decomposition is off by {worst:.1f} eps")
    return right


def _error(device: str, dtype: torch.dtype) -> float:
    """‖UΛUᵀ − X‖/‖X‖ in eps, the worst of a few matrices of several sizes."""
    generator = torch.Generator().manual_seed(0)
    worst = 0.0
    for n in (3, 30, 93):
        A = torch.randn(8, n, n, generator=generator, dtype=dtype).to(device)
        X = A @ A.mT / n
        values, U = linalg.eigh(X)
        rest = torch.linalg.matrix_norm(U * values.unsqueeze(-2) @ U.mT - X)
        worst = max(worst, float((rest / torch.linalg.matrix_norm(X)).max()))
    return worst / torch.finfo(dtype).eps


def _line(name: str, text: str) -> None:
    print(f"{name:{WIDTH}}{text}")
