from __future__ import annotations

import subprocess
import sys

import pytest

import alem

HEAVY = (
    "geoopt",
    "sklearn",
    "scipy",
    "matplotlib",
    "lightning_fabric",
    "joblib",
    "safetensors",
    "pyriemann",
)


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def test_import_brings_nothing_heavy_but_torch() -> None:
    code = f"import sys, alem; print([m for m in {HEAVY} if m in sys.modules])"
    assert run(code).strip() == "[]"


def test_import_takes_little_more_than_that_of_torch() -> None:
    code = (
        "import time; t = time.perf_counter(); import torch; a = time.perf_counter(); import alem; "
        "print(time.perf_counter() - a)"
    )
    assert min(float(run(code)) for _ in range(3)) < 0.3


def test_rooms_are_there_without_being_imported() -> None:
    rooms = ("data", "estimators", "experiments", "testing", "training")
    code = f"import alem; print([getattr(alem, room).__name__ for room in {rooms}])"
    assert run(code).strip() == str([f"alem.{room}" for room in rooms])
    assert {*rooms, *alem.__all__} <= set(dir(alem))


def test_a_missing_package_is_named() -> None:
    code = (
        "import sys, alem; sys.modules['sklearn'] = None\n"
        "try:\n    alem.estimators\nexcept ImportError as error:\n    print(error)"
    )
    assert run(code).strip() == "alem.estimators needs scikit-learn: pip install 'alem[train]'"


def test_what_is_not_there_is_said() -> None:
    with pytest.raises(AttributeError, match="module 'alem' has no attribute 'metrics'"):
        alem.metrics  # noqa: B018
