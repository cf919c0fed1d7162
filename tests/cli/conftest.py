from __future__ import annotations

from pathlib import Path

import pytest

from alem import data
from tests.experiments.conftest import small


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.npz"
    data.save(small(), path)
    return path
