from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from alem.files import claim, clear, release, whole, whole_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks there")


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def write(path: Path, error: BaseException | None = None) -> None:
    """Half a file, and then the error."""
    with whole(path) as file:
        file.write(b"half")
        if error is not None:
            raise error


def test_a_file_takes_the_place_of_the_old_one_or_does_not(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "page"
    for text in (b"old", b"new"):
        with whole(path) as file:
            file.write(text)
    with pytest.raises(KeyboardInterrupt):
        write(path, KeyboardInterrupt())
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["page"]


def test_a_folder_is_there_whole_or_not(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with pytest.raises(FileNotFoundError), whole_folder(path) as part:
        (part / "a" / "b").write_text("half")
    assert names(tmp_path) == []
    with whole_folder(path) as part:
        (part / "a").write_text("whole")
    assert names(tmp_path) == ["store"]
    assert names(path) == ["a"]


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_a_disk_that_is_full_at_any_point_is_said_with_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "page"
    path.write_bytes(b"old")

    full = OSError(errno.ENOSPC, "No space left on device")

    def fails(*_: object, **__: object) -> None:
        raise full

    if call != "write":
        monkeypatch.setattr(os, call, fails)
    with pytest.raises(OSError, match="No space left") as error:
        write(path, full if call == "write" else None)
    monkeypatch.undo()
    assert error.value.filename == str(path)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["page"]


KILLED = """
import os, pathlib, signal, sys
from alem.files import claim, whole, whole_folder
path = pathlib.Path(sys.argv[1])
claim(path / "lock")
with whole(path / "page[1]") as file, whole_folder(path / "store") as part:
    file.write(b"half")
    file.flush()
    (part / "a").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_has_left_goes_and_what_is_being_written_stays(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    left = names(tmp_path)
    assert len(left) == 3, "two parts and the lock"
    with whole(tmp_path / "other") as file:
        file.write(b"")
        assert len(names(tmp_path)) == 4, "others are not looked at"
        clear(tmp_path)
        assert len(names(tmp_path)) == 2
    with whole(tmp_path / "page[1]"), whole_folder(tmp_path / "store"):
        clear(tmp_path)
    assert names(tmp_path) == ["lock", "other", "page[1]", "store"]
    handle = claim(tmp_path / "lock")
    assert handle is not None, "the lock went with its process"
    release(tmp_path / "lock", handle)


@pytest.mark.parametrize("begin", [whole, whole_folder])
def test_a_process_cleans_up_after_a_killed_one_by_itself(
    tmp_path: Path, begin: Callable[[Path], object]
) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    with begin(tmp_path / ("store" if begin is whole_folder else "page[1]")):  # type: ignore[attr-defined]
        assert len(names(tmp_path)) == 3
    assert len(list(tmp_path.glob(".*.part"))) == 1


def test_a_claim_is_one_process_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "new" / "lock"
    ours = claim(lock)
    assert ours is not None
    assert claim(lock) is None
    release(lock, ours)
    assert names(lock.parent) == []
    again = claim(lock)
    assert again is not None
    release(lock, again)
