"""What goes wrong with a file, and how it is said."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alem.linalg import InvalidMatrixError
from alem.linalg.errors import shown


class DataError(ValueError):
    """A file or folder is not what its reader expects; the message says which, what and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(shown(message))


# Characters of what a library says, which may repeat the file.
_REASON = 200

# What NumPy, zipfile and the parsers were seen to raise on a file that is damaged, encrypted or of
# another kind.
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    RuntimeError,
    SyntaxError,
    tokenize.TokenError,
    MemoryError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong within is a DataError of one line that names ``path``."""
    try:
        yield
    except (DataError, InvalidMatrixError):
        raise
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the path") from None
    except (IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise DataError(f"{path} cannot be opened: {error.strerror}; check the path") from None
    except _UNREADABLE as error:
        reason = shown(" ".join(str(error).split()), _REASON) or type(error).__name__
        raise DataError(
            f"{path} cannot be read ({reason}): damaged, cut short or of another format; fetch it again"
        ) from None


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """What is said within of matrices or labels begins with the file they come from."""
    try:
        yield
    except InvalidMatrixError as error:
        raise InvalidMatrixError(_from(path, error), error.index) from None
    except DataError as error:
        raise DataError(_from(path, error)) from None


def _from(path: Path, error: Exception) -> str:
    return str(error) if str(path) in str(error) else f"{path}: {error}"
