"""Changes to files that leave enough of their format for a reader to go on."""

from __future__ import annotations

import io
import json
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

Mutator = Callable[[bytes, Random], bytes]

NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    25,
    63,
    127,
    255,
    1000,
    65536,
    10**6,
    2**31 - 1,
    2**31,
    2**32,
    10**12,
    2**63 - 1,
    2**63,
)
WORDS = (
    b"nan", b"inf", b"-inf", b"1e999", b"-1", b"0", b"1e308", b"99999999999999999999", b"0x10",
    b"1_0", b"",
    b"\xff", b"\x00", b"\xe2\x80\xae", b"../../x/y", b"..", b"/etc", b"Training 9999999999", b"Test 0",
    b"\x1b[2J", b"<script>", b"|", b"\n", b"\r", b"1" * 5000, b"Subject_1/a/1 0",
)  # fmt: skip
SHAPES = (
    "()", "(3,)", "(0,)", "(1000000000000,)", "(4294967296, 4294967296)", "(-1,)", "(3, 0, 0)",
    "(1000000000000, 0, 0)", "(3, 4, 4)", "(2, 4, 4)", "(1, 4, 4)", "(4, 4)", "(3, 10)",
    "(True, 4)", "('3',)",
    "(40000000, 1, 1)", "(2, 20000, 20000)", "3", "[3]", "((3,),)",
)  # fmt: skip
TYPES = (
    "'<f8'", "'>f8'", "'<f4'", "'<f2'", "'|b1'", "'<i8'", "'|i1'", "'<u8'", "'<c16'", "'|O'",
    "'|S5'", "'<U3'",
    "'<U0'", "'|S0'", "'<U100000000'", "'|V8'", "'<M8[D]'", "'<m8[s]'", "[('a', '<f8')]",
    "('<f8', (4,))",
    "('<f8', (1000000000,))", "'<f16'", "'O,O'", "None", "''", "'i4, (2,)f8'", "'>U3'", "'<M8'",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 3, 10**6, 10**9, 2**63, 10**400, 0.5, -0.5, 1e308, -1e308,
    float("nan"), float("inf"),
    "", "a", "0", "nan", "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a|b\nc",
    "\x1b[31m",
    "\u202eabc", "\ud800", "$\\frac$", "x" * 3000, "../../x", "SPDNet", "fold", "group", "liebn",
    "<U100000000", [],
    {}, [0], [[]], [None], ["a"], [1, 2, 3, 4, 5], [[1.0, 2.0], [3.0]], [float("nan")] * 4,
    [0] * 2000, {"a": 1},
    {"kind": "SPDNet"}, [10**9, 10**9],
)  # fmt: skip


def plain(data: bytes, random: Random) -> bytes:
    """Bytes changed, moved, repeated or left out, whatever they mean."""
    if not data:
        return random.choice(WORDS)
    at = random.randrange(len(data))
    size = min(len(data) - at, random.choice((1, 2, 4, 8, 16, 100)))
    match random.randrange(8):
        case 0:
            return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        case 1:
            return data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        case 2:
            return data[:at] + data[at + size :]
        case 3:
            return data[:at] + data[at : at + size] * random.choice((2, 3, 30)) + data[at + size :]
        case 4:
            return data[:at] + random.choice(WORDS) + data[at:]
        case 5:
            code = random.choice("<>") + random.choice("HIQ")
            number = random.choice(NUMBERS) & (1 << 8 * struct.calcsize(code)) - 1
            return data[:at] + struct.pack(code, number) + data[at + struct.calcsize(code) :]
        case 6:
            return data[: at + size]
        case _:
            to = random.randrange(len(data))
            return data[:to] + data[at : at + size] + data[to:]


def text(data: bytes, random: Random) -> bytes:
    """One word or line of a text, another in its place."""
    if random.random() < 0.3:
        return plain(data, random)
    parts = re.split(rb"(\s+)" if random.random() < 0.7 else rb"(\n)", data)
    at = random.randrange(len(parts))
    match random.randrange(4):
        case 0:
            parts[at] = random.choice(WORDS)
        case 1:
            parts[at] = str(random.choice(NUMBERS)).encode()
        case 2:
            del parts[at]
        case _:
            parts.insert(at, parts[random.randrange(len(parts))])
    return b"".join(parts)


def npy(data: bytes, random: Random) -> bytes:
    """The header of an array, or its numbers."""
    if random.random() < 0.3 or data[:6] != b"\x93NUMPY" or len(data) < 10:
        return plain(data, random)
    (size,) = struct.unpack("<H", data[8:10])
    header, body = data[10 : 10 + size].decode("latin1"), data[10 + size :]
    match random.randrange(5):
        case 0:
            header = re.sub(r"'shape': \([^)]*\)", lambda _: f"'shape': {random.choice(SHAPES)}", header)
        case 1:
            header = re.sub(r"'descr': [^ ]*,", lambda _: f"'descr': {random.choice(TYPES)},", header)
        case 2:
            header = plain(header.encode("latin1"), random).decode("latin1")
        case 3:
            header = random.choice(
                ("(" * 5000, "-" * 5000 + "1", "{" * 90 + "}" * 90, "[" * 150, header * 40)
            )
        case _:
            width = random.choice((4, 8))
            at = random.randrange(0, max(1, len(body)), width)
            number = random.choice((0.0, -1.0, float("nan"), float("inf"), 1e38, 1e-38, 3.0))
            body = body[:at] + struct.pack("<d" if width == 8 else "<f", number) + body[at + width :]
    version = random.choice((b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00"))
    raw = header.encode("latin1")
    length = struct.pack("<H", len(raw) & 0xFFFF) if version[0] == 1 else struct.pack("<I", len(raw))
    return data[:6] + version + length + raw + body


def npz(data: bytes, random: Random) -> bytes:
    """The members of an archive, their names, how they are packed; or the archive itself."""
    if random.random() < 0.25:
        return plain(data, random)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(info.file_size for info in archive.infolist()) > 10**6:  # a bomb already
                return plain(data, random)
            members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:
        return plain(data, random)
    if not members:
        return plain(data, random)
    packing = [zipfile.ZIP_STORED] * len(members)
    at = random.randrange(len(members))
    name, content = members[at]
    match random.randrange(8):
        case 0 | 1 | 2:
            members[at] = name, npy(content, random)
        case 3:
            names = (
                "y.npy", "labels.npy", "triu.npy", "matrices.npy", "X.npy", "frames.npy",
                "offsets.npy", "train.npy",
                "names.npy", "classes.npy", "../../x.npy", "/etc/x.npy", "a\\..\\b.npy", "a.npy",
                "readme.txt",
                ".npy", "", "a\x00b.npy", "\x1b[2J.npy", "subject.npy", "columns.npy", "x.npy.npy",
            )  # fmt: skip
            members[at] = random.choice(names), content
        case 4:
            members.append(members[at])
            packing.append(zipfile.ZIP_STORED)
        case 5:
            del members[at], packing[at]
        case 6:
            kinds = (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
            packing = [random.choice(kinds)] * len(members)
        case _:
            packing[at] = zipfile.ZIP_DEFLATED
            members[at] = name, content + bytes(random.choice((10, 1000, 10**6, 10**6, 2 * 10**7)))
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that are there twice
        with zipfile.ZipFile(stream, "w") as archive:
            for (name, content), kind in zip(members, packing, strict=True):
                archive.writestr(zipfile.ZipInfo(name), content, kind)
    return stream.getvalue()


def mat(data: bytes, random: Random) -> bytes:
    """A variable of MATLAB's format 5, packed or not, what it says of its size among it."""
    if random.random() < 0.3 or len(data) < 144:
        return plain(data, random)
    kind, size = struct.unpack("<II", data[128:136])
    rest = data[136 + size :]
    inner = data[136 : 136 + size]
    if len(data) > 10**5:  # a bomb already
        return plain(data, random)
    try:
        unpacked = zlib.decompressobj().decompress(inner, 10**6) if kind == 15 else b""
        element = unpacked or data[128 : 136 + size]
    except zlib.error:
        return plain(data, random)
    match random.randrange(5):
        case 0 | 1:
            at = random.randrange(0, min(len(element), 80), 4)
            number = random.choice((*NUMBERS, *range(1, 19))) & 0xFFFFFFFF
            element = element[:at] + struct.pack("<I", number) + element[at + 4 :]
        case 2:
            element = plain(element, random)
        case 3:
            element += bytes(random.choice((8, 800, 10**6, 10**6, 2 * 10**7)))
        case _:
            rest += data[128:]
    if random.random() < 0.5 or len(element) > 10**5:
        packed = zlib.compress(element)
        element = struct.pack("<II", 15, len(packed)) + packed
    return data[:128] + element + rest


def changed(value: Any, random: Random) -> Any:
    """A tree of JSON with another value, or none, somewhere in it."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(sorted(value))
        chance = random.random()
        if chance < 0.12:
            return {k: v for k, v in value.items() if k != key}
        if chance < 0.2:
            return value | {str(random.choice(VALUES)): random.choice(VALUES)}
        return value | {key: changed(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.6:
        at = random.randrange(len(value))
        chance = random.random()
        if chance < 0.2:
            return value[:at] + value[at + 1 :]
        if chance < 0.3:
            return value + value
        return [*value[:at], changed(value[at], random), *value[at + 1 :]]
    if isinstance(value, str) and value.startswith("{") and random.random() < 0.9:
        return json.dumps(changed(json.loads(value), random))
    return random.choice(VALUES)


def lines(data: bytes, random: Random) -> bytes:
    """One line of JSON among several."""
    rows = data.split(b"\n")
    at = random.randrange(len(rows))
    match random.randrange(10):
        case 0:
            return plain(data, random)
        case 1:
            return b"\n".join([*rows[:at], *rows])
        case 2:
            deep = random.choice((b'{"a":' * 60000, b"[" * 100000, b"1" * 6000 + b"\n"))
            return b"\n".join([*rows[:at], deep, *rows[at:]])
        case _:
            try:
                rows[at] = json.dumps(changed(json.loads(rows[at]), random)).encode()
            except (ValueError, RecursionError):
                return plain(data, random)
    return b"\n".join(rows)


def safetensors(data: bytes, random: Random) -> bytes:
    """The header of a file of tensors, and the JSON within it."""
    if random.random() < 0.2 or len(data) < 8:
        return plain(data, random)
    (size,) = struct.unpack("<Q", data[:8])
    try:
        tree = json.loads(data[8 : 8 + size])
        meta = tree.get("__metadata__")
        if isinstance(meta, dict) and random.random() < 0.75:
            tree["__metadata__"] = {k: changed(v, random) if k == "alem" else v for k, v in meta.items()}
        else:
            tree = changed(tree, random)
        header = json.dumps(tree).encode()
    except (ValueError, AttributeError, RecursionError):
        return plain(data, random)
    if random.random() < 0.1:
        header = header.replace(
            b'"F64"', random.choice((b'"I64"', b'"C64"', b'"F4"', b'"U64"', b'"F8_E4M3"'))
        )
    length = len(header) if random.random() < 0.95 else random.choice(NUMBERS)
    return struct.pack("<Q", length & 2**64 - 1) + header + data[8 + size :]
