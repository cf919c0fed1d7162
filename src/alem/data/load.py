"""The one door: from a name or a path to a data set."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from alem.data.afew import read_afew
from alem.data.dataset import Dataset
from alem.data.digits import digits
from alem.data.errors import DataError
from alem.data.folder import listed, read_folder
from alem.data.fpha import POSES, read_fpha
from alem.data.hdm05 import read_hdm05
from alem.data.ntu60 import read_ntu60
from alem.data.store import read_npz


class Reader(NamedTuple):
    """A reader, how what it reads is recognised, and how that is said."""

    read: Callable[..., Dataset]
    recognises: Callable[[Path], bool]
    layout: str


def _any(folder: Path, suffix: str) -> bool:
    return any(entry.suffix == suffix for entry in listed(folder))


def _below(root: Path, suffix: str) -> bool:
    """Whether there are such files in folders of classes, or of a split and classes."""
    return any(
        file.suffix == suffix
        for pattern in ("*/*", "*/*/*")
        for file in root.glob(pattern)
        if not file.name.startswith(".")
    )


# In this order; the first that recognises a path reads it.
READERS: dict[str, Reader] = {
    "npz": Reader(read_npz, lambda path: path.is_file(), "a file .npz"),
    "fpha": Reader(
        read_fpha, lambda path: path.name == POSES or (path / POSES).is_dir(), f"{POSES}/ (fpha)"
    ),
    "ntu60": Reader(read_ntu60, lambda path: _any(path, ".skeleton"), "*.skeleton (ntu60)"),
    "afew": Reader(
        read_afew, lambda path: _below(path, ".mat"), "train/<class>/*.mat and val/<class>/*.mat (afew)"
    ),
    "folder": Reader(
        read_folder,
        lambda path: (path / "matrices.npy").exists() or _below(path, ".npy"),
        "matrices.npy with labels.npy, or <class>/*.npy (folder)",
    ),
    "hdm05": Reader(read_hdm05, lambda path: _any(path, ".npy"), "*_<class>.npy (hdm05)"),
}


def load(source: str | Path, reader: str | None = None, **options: Any) -> Dataset:
    """The data set at ``source``: ``"digits"``, an ``.npz`` file, or a folder whose layout is recognised.

    ``reader`` names the layout instead: npz, folder, hdm05, fpha, afew or ntu60. ``options`` are those of
    the reader. What is wrong with a file or folder is a DataError, what is wrong with a matrix an
    InvalidMatrixError, either with the file in its message.
    """
    if reader is not None and reader not in READERS:
        raise DataError(f"unknown reader {reader!r}; choose {', '.join(READERS)}")
    if not str(source):
        raise DataError("the path of the data is empty; give a file, a folder, or digits")
    if source == "digits" and reader is None:
        return _call(digits, "digits", options)
    path = Path(source)
    if not path.exists():
        raise DataError(f"{path} does not exist; check the path, or take the embedded data set digits")
    if reader is None:
        reader = next((name for name, known in READERS.items() if known.recognises(path)), None)
    if reader is None:
        looked_for = "; ".join(known.layout for name, known in READERS.items() if name != "npz")
        raise DataError(f"{path}: nothing in this folder is recognised; looked for {looked_for}")
    return _call(READERS[reader].read, reader, options, path)


def _call(read: Callable[..., Dataset], name: str, options: dict[str, Any], *path: Path) -> Dataset:
    known = {key: p for key, p in inspect.signature(read).parameters.items() if key != "path"}
    for key, value in options.items():
        if key not in known:
            raise DataError(f"reader {name} has no option {key}; it has {', '.join(known) or 'none'}")
        kinds = str(known[key].annotation).split(" | ")
        # Only what the command line can give; anything else is checked where it is used.
        if isinstance(value, str) and "str" not in kinds:
            raise DataError(f"option {key} of reader {name} must be a number, got {value!r}")
        if isinstance(value, float) and not ("float" in kinds and math.isfinite(value)):
            what = "a finite number" if "float" in kinds else "a whole number"
            raise DataError(f"option {key} of reader {name} must be {what}, got {value}")
    return read(*path, **options)
