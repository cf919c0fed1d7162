from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
import textwrap
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from alem.data import DataError, limits, load, read_afew, read_folder, read_fpha, read_npz, read_ntu60
from alem.data.limits import open_file, require_memory
from alem.data.npy import read_npy

from .conftest import one_line, spd
from .test_afew import released
from .test_fpha import released as released_fpha


def announced(shape: str, descr: str = "<f8", content: bytes = b"") -> bytes:
    """A ``.npy`` file whose header says what it likes."""
    header = (
        f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    )
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


def archive(path: Path, members: dict[str, bytes], packing: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packing) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return path


def saved(array: object) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(array))
    return stream.getvalue()


def test_the_limit_is_a_share_of_the_file_or_what_is_free() -> None:
    require_memory(Path("a"), limits.FREE, 10)
    require_memory(Path("a"), limits.RATIO * limits.FREE, limits.FREE)
    for needed, size in (
        (limits.FREE + 1, 10),
        (limits.RATIO * limits.FREE + 1, limits.FREE),
        (10**5000, 10),
    ):
        with pytest.raises(DataError, match=r"^a has .* may ask for 1 GiB, or 64 times its size"):
            require_memory(Path("a"), needed, size)


@pytest.mark.parametrize(
    "members",
    [
        {"matrices.npy": announced("(1000000000000,)"), "y.npy": saved([0])},
        {"matrices.npy": announced("(2, 4, 4)", "<f8", bytes(255)), "y.npy": saved([0, 1])},
        {"matrices.npy": announced("(1000000000000, 0, 0)"), "y.npy": announced("(1000000000000,)", "<U0")},
        {"matrices.npy": saved(spd(1)), "y.npy": announced("(1,)", "<U100000000")},
        {"matrices.npy": announced("(-1, 2, 2)"), "y.npy": saved([0])},
        {"matrices.npy": announced("(1,)", "('<f8', (1000000000,))"), "y.npy": saved([0])},
        # Few frames of very many channels: their covariance is what would not fit.
        {"frames.npy": saved(np.zeros((2, 10**5))), "offsets.npy": saved([0, 2]), "y.npy": saved([0])},
    ],
)
def test_headers_that_announce_what_is_not_there(tmp_path: Path, members: dict[str, bytes]) -> None:
    file = archive(tmp_path / "a.npz", members)
    with pytest.raises(DataError) as error:
        read_npz(file)
    one_line(error, str(file))
    assert "allocate" not in str(error.value)
    for name, content in members.items():
        (tmp_path / name).write_bytes(content)
        if b"(1000000000000" in content:
            with pytest.raises(DataError):
                read_npy(tmp_path / name)


def test_what_compresses_well_is_read_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "a.npz", matrices=np.tile(np.eye(8), (400, 1, 1)), y=np.arange(400) % 2)
    assert (tmp_path / "a.npz").stat().st_size < 400 * 8 * 64 / 50
    assert len(read_npz(tmp_path / "a.npz")) == 400
    monkeypatch.setattr(limits, "FREE", 2**17)
    with pytest.raises(DataError, match=r"a\.npz has \d+ bytes and asks for"):
        read_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", matrices=np.tile(np.eye(8), (400, 1, 1)), y=np.arange(400) % 2)
    assert len(read_npz(tmp_path / "a.npz")) == 400, "what is as large as its numbers may always be read"


def variable(n: int, told: int, content: bytes) -> bytes:
    """A packed variable of format 5: n×n doubles, of which there are ``told`` bytes."""
    flags = np.array([6, 8, 6, 0, 5, 8, n, n, 0x10001, ord("Y"), 9, told], "<u4").tobytes()
    packed = zlib.compress(np.array([14, len(flags) + told], "<u4").tobytes() + flags + content)
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    return head + np.array([15, len(packed)], "<u4").tobytes() + packed


def bombs(tmp_path: Path) -> list[Path]:
    """Small files of each format that would take gigabytes."""
    labels = {"y.npy": saved([0])}
    made = [archive(tmp_path / "lying.npz", {"matrices.npy": announced("(1073741824,)"), **labels})]
    made.append(tmp_path / "long.npz")
    with zipfile.ZipFile(made[-1], "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("matrices.npy", announced("(8388608,)", content=bytes(2**26)))
        file.infolist()[0].file_size = 2**34
    content = announced("(8388608,)", content=bytes(2**26))
    made.append(archive(tmp_path / "bzip2.npz", {"y.npy": content}, zipfile.ZIP_BZIP2))
    made.append(tmp_path / "stack")
    made[-1].mkdir()
    (made[-1] / "matrices.npy").write_bytes(saved(spd(1)))
    (made[-1] / "labels.npy").write_bytes(announced("(1073741824,)", "|S0"))
    for name, one in (("large", variable(40_000, 2**30, b"")), ("more", variable(4, 2**27, bytes(2**27)))):
        made.append(released(tmp_path / name))
        (made[-1] / "train" / "2" / "a.mat").write_bytes(one)
    return made


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_bombs_are_refused_in_little_memory(tmp_path: Path) -> None:
    files = bombs(tmp_path)
    assert max(f.stat().st_size for f in files if f.is_file()) < 2**21
    # In a process of its own, in which nothing else has set the peak.
    script = textwrap.dedent(
        """
        import re, sys
        from pathlib import Path
        import alem.data

        def peak():
            return int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024

        before = peak()
        for path in sys.argv[1:]:
            try:
                alem.data.load(path)
            except alem.data.DataError as error:
                print(error)
            else:
                sys.exit(f"{path} was read")
        assert peak() - before < 100, f"{peak() - before} MiB"
        """
    )
    done = subprocess.run([sys.executable, "-c", script, *map(str, files)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(files)


def test_a_large_first_matrix_is_not_repeated_for_small_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "FREE", 2**16)
    (tmp_path / "a").mkdir()
    np.save(tmp_path / "a" / "0.npy", np.eye(60, dtype="i1"))
    for i in range(1, 200):
        np.save(tmp_path / "a" / f"{i}.npy", np.eye(1))
    with pytest.raises(DataError, match="asks for"):
        read_folder(tmp_path)


PLACES: dict[str, tuple[Callable[[Path], Path], Callable[[Path], object]]] = {
    "npz": (lambda root: root / "a.npz", lambda root: read_npz(root / "a.npz")),
    "npy": (lambda root: root / "a.npy", lambda root: read_npy(root / "a.npy", mapped=True)),
    "mat": (lambda root: released(root / "f") / "val" / "1" / "c.mat", lambda root: read_afew(root / "f")),
    "skeleton": (lambda root: root / "S001C001P001R001A001.skeleton", read_ntu60),
    "fpha": (
        lambda root: released_fpha(root / "f") / "data_split_action_recognition.txt",
        lambda root: read_fpha(root / "f"),
    ),
}


@pytest.mark.skipif(os.name != "posix", reason="there are no such files")
@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
@pytest.mark.parametrize("reader", PLACES)
def test_what_is_no_file_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reader: str, kind: str
) -> None:
    place, read = PLACES[reader]
    file = place(tmp_path)
    file.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        monkeypatch.chdir(file.parent)  # names of sockets are short
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(file.name)
    with pytest.raises(DataError) as error:
        read(tmp_path)
    one_line(error, str(file))


def test_links_are_followed(tmp_path: Path) -> None:
    np.savez(tmp_path / "there.npz", matrices=spd(2), y=[0, 1])
    (tmp_path / "here.npz").symlink_to(tmp_path / "there.npz")
    assert load(tmp_path / "here.npz").name == "here"
    with open_file(tmp_path / "here.npz") as stream:
        assert limits.size_of(stream) == (tmp_path / "there.npz").stat().st_size
