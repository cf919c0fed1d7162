"""Files of each format as they should be: where the changes begin. All are made here, none is kept."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from scipy.io import savemat

from alem.estimators import SPDNetClassifier, SPDNetRegressor
from tests.data.conftest import spd, triu
from tests.data.test_ntu60 import FIRST, SECOND
from tests.experiments import fakes

X, Y = spd(4), np.array([0, 1, 0, 1])


def arrays(*values: Any) -> tuple[bytes, ...]:
    """The ``.npy`` file of each."""
    return tuple(_saved(np.save, value) for value in values)


def archives() -> list[bytes]:
    """``.npz`` files: matrices, triangles, sequences, labels that are names, packed."""
    frames = np.random.default_rng(0).standard_normal((12, 3))
    named = {"classes": np.array(["a", "b"]), "names": np.array(list("wxyz")), "train": Y > 0}
    return [
        _saved(np.savez, matrices=X, y=Y, subject=Y),
        _saved(np.savez, triu=triu(X), labels=Y, **named),
        _saved(np.savez_compressed, X=X.astype(np.float32), y=np.array(list("abab"))),
        _saved(np.savez, frames=frames, offsets=np.array([0, 3, 6, 9, 12]), y=Y, s=np.array(list("pqrs"))),
        _saved(np.savez, frames=frames.reshape(4, 3, 3), offsets=np.array([0, 4]), y=np.array([b"a"])),
    ]


def matlab() -> list[bytes]:
    """``.mat`` files of version 5, plain and packed, with company, and of version 4."""
    company = {"Y1": X[0], "who": "me", "cell": np.array([[1], "x"], object), "label": 3, "s": {"a": X[1]}}
    made = [_saved(_matlab, company, do_compression=packed) for packed in (False, True)]
    return [_saved(_matlab, {"Y1": X[0]}, do_compression=True), _saved(_matlab, {"Y1": X[0] + 0j}), *made,
            _saved(_matlab, {"Y1": X[0]}, format="4")]  # fmt: skip


def skeletons() -> list[bytes]:
    """NTU RGB+D: one body, two, none."""
    joint = "0.1 0.2 3.5 277.4 191.8 1036.2 519.1 -0.2 0.0 0.9 0.0 2"
    found = []
    for frames in ([[FIRST]] * 3, [[FIRST], [FIRST, SECOND], [], [SECOND]], [[]]):
        rows = [str(len(frames))]
        for t, bodies in enumerate(frames):
            rows.append(str(len(bodies)))
            for body in bodies:
                rows += [f"{body} 0 1 1 1 1 0 0.02 0.05 2", "25"]
                rows += [joint.replace("0.1", f"{0.1 * i * t:.2f}", 1) for i in range(25)]
        found.append("\n".join(rows).encode())
    return found


def fpha() -> list[tuple[bytes, bytes]]:
    """A split and one of its skeletons."""
    split = b"Training 1\nSubject_1/a/1 0\nTest 1\nSubject_1/b/1 1\n"
    frames = "\n".join(" ".join([f"{t:04d}", *(f"{i * t % 7:.1f}" for i in range(63))]) for t in range(4))
    return [(split, frames.encode()), (split, b""), (split, frames[: len(frames) // 4].encode())]


def skipped() -> list[bytes]:
    """The list of incomplete samples of NTU RGB+D."""
    return [b"some heading\nS001C001P001R001A002\nS001C001P001R001A003\n"]


def ledgers() -> list[bytes]:
    """Results of networks and baselines."""
    several = [
        fakes.baseline(),
        *(fakes.record(6 + seed, seed=seed) for seed in range(2)),
        *(fakes.record(7, model={"log": log}) for log in ("mul", "gap")),
        fakes.stopped(4, "epoch 5: too large", model={"log": "sinh"}),
    ]
    folds = [fakes.record(split={"kind": "fold", "folds": 2, "fold": i}) for i in range(2)]
    within = [fakes.record(split={"kind": "group", "column": "s", "value": "1", "within": [["t", "2"]]})]
    return [_rows(several), _rows(folds), _rows(within), _rows(several[:1])]


def estimators() -> list[bytes]:
    """Fitted classifiers and a regressor."""
    common: dict[str, Any] = {"epochs": 1, "random_state": 0}
    made = [
        SPDNetClassifier(**common).fit(X, Y),
        SPDNetClassifier(head="gyro", metric="lem", dims=[3], **common).fit(X, np.array(list("abab"))),
        SPDNetClassifier(norm="liebn", log="mul", dims=[3, 2], **common).fit(X, Y),
    ]
    return [_file(e.save) for e in (*made, SPDNetRegressor(**common).fit(X, Y + 0.5))]


def checkpoint_of(save: Any) -> bytes:
    """What ``save`` writes to a path."""
    return _file(save)


def commands() -> list[bytes]:
    """Arguments, one a line."""
    lines = (
        "--data FILE --log ln,gap --dims 3,2 --epochs 1 --seeds 2",
        "--data FILE --reader npz --norm liebn --metric alem --recipe paper --lr 1/30",
        "--data FILE --head gyro --metric aim --dtype float32 --products bfloat16",
        "--data FILE --option window=3 --option loading=1e-3 --optimizer rsgd --batch-size 2",
        "--data digits --seed 3 --jobs 1 --metric-lr 0.1",
    )
    return [line.replace(" ", "\n").encode() for line in lines]


def _rows(records: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _saved(save: Any, *values: Any, **named: Any) -> bytes:
    stream = io.BytesIO()
    save(stream, *values, **named)
    return stream.getvalue()


def _matlab(stream: io.BytesIO, variables: dict[str, Any], **options: Any) -> None:
    savemat(stream, variables, **options)
    # The clock is in the first bytes.
    stream.seek(0)
    if options.get("format") != "4":
        stream.write(b"MATLAB 5.0 MAT-file".ljust(116))


def _file(save: Any) -> bytes:
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        save(path)
        return path.read_bytes()
