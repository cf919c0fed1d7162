"""Real data sets with one sample spoiled: refused by name when they are read, or mended as documented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alem.data import DataError, load
from alem.linalg import InvalidMatrixError

from .conftest import SHARED

FILES = sorted(SHARED.glob("*.npz"))
PLACE = 7


def spoiled(file: Path, folder: Path, how: str) -> Path:
    """A copy of the file in which the sample at PLACE is spoiled."""
    with np.load(file, allow_pickle=False) as archive:
        arrays: dict[str, Any] = {key: archive[key].copy() for key in archive.files}
    key = next(key for key in ("triu", "matrices", "X", "frames") if key in arrays)
    samples = arrays[key]
    at: Any = PLACE
    if key == "frames":
        at = slice(*arrays["offsets"][PLACE : PLACE + 2])
    if how == "NaN":
        samples[at].flat[0] = np.nan
    elif how == "zero":
        samples[at] = 0
    else:
        samples[at] = -samples[at]
    np.savez(folder / file.name, **arrays)
    return folder / file.name


@pytest.mark.skipif(not FILES, reason="there are no real data sets in ../shared/data")
@pytest.mark.parametrize("how", ["NaN", "zero", "indefinite"])
@pytest.mark.parametrize("file", FILES, ids=lambda file: getattr(file, "stem", "none"))
def test_one_spoiled_sample(file: Path, how: str, tmp_path: Path) -> None:
    is_sequence = "offsets" in np.load(file).files
    path = spoiled(file, tmp_path, how)
    if how == "zero" or (is_sequence and how == "indefinite"):
        found = load(path)
        assert (PLACE in found.repairs.zero) is (how == "zero")
        assert np.isfinite(found.matrices.numpy()).all()
        return
    with pytest.raises((InvalidMatrixError, DataError), match=rf"\b{PLACE}\b"):
        load(path)
