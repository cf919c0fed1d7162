"""SPDNetClassifier() beside what one would do without a network, on the same folds of six data sets.

    python -m benchmarks.estimators FOLDER     writes docs/results/estimators.md

FOLDER holds fpha_cov.npz, utdmhad_seq.npz, natops_seq.npz, articularywordrecognition_seq.npz,
japanesevowels_seq.npz and ssvep_cov.npz; those that are not there are left out. Each is divided as in its
table. The others have no seed; the network is fitted with three.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from pyriemann.classification import MDM
from pyriemann.tangentspace import TangentSpace
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC

from alem import linalg
from alem.estimators import SPDNetClassifier
from alem.experiments.protocols import PROTOCOLS

PAGE = Path(__file__).parents[1] / "docs" / "results" / "estimators.md"
FILES = {
    "fpha": ("FPHA", "fpha_cov.npz"),
    "utdmhad": ("UTD-MHAD", "utdmhad_seq.npz"),
    "natops": ("NATOPS", "natops_seq.npz"),
    "articulary": ("Articulary", "articularywordrecognition_seq.npz"),
    "japanesevowels": ("Vowels", "japanesevowels_seq.npz"),
    "ssvep": ("SSVEP", "ssvep_cov.npz"),
}
SEEDS = 3
OURS = "SPDNetClassifier()"


def log_vectors(X: Any) -> Any:
    """vech(ln X)."""
    return linalg.vech(linalg.log(torch.from_numpy(X))).numpy()


CONTESTANTS: dict[str, Callable[[], Any]] = {
    "pyRiemann tangent space, affine-invariant, logistic": lambda: make_pipeline(
        TangentSpace("riemann"), StandardScaler(), LogisticRegression(max_iter=5000)
    ),
    "pyRiemann tangent space, log-Euclidean, logistic": lambda: make_pipeline(
        TangentSpace("logeuclid"), StandardScaler(), LogisticRegression(max_iter=5000)
    ),
    "pyRiemann MDM": lambda: MDM("riemann"),
    "SVM on log-Euclidean vectors": lambda: make_pipeline(
        FunctionTransformer(log_vectors), StandardScaler(), SVC(C=10.0)
    ),
}


def accuracy(name: str, folder: Path, make: Callable[[], Any], seed: int) -> float:
    """Right answers over all that is tested, all splits of the protocol together, in percent."""
    protocol = PROTOCOLS[name]
    dataset = protocol.source(str(folder / FILES[name][1])).load()
    X, y = dataset.matrices.numpy(), dataset.labels.numpy()
    right = tested = 0
    for split in protocol.splits(dataset):
        train, test = (places.numpy() for places in split.places(dataset, seed))
        right += int((make().fit(X[train], y[train]).predict(X[test]) == y[test]).sum())
        tested += len(test)
    return 100 * right / tested


def verdict(ours: list[float], others: list[float]) -> str:
    """Against the best of the others; level is within one deviation, and half a percent at least."""
    best, mean = max(others), statistics.fmean(ours)
    margin = max(statistics.stdev(ours), 0.5)
    return "ahead" if mean > best + margin else "level" if mean >= best - margin else "behind"


def main() -> None:
    """Run all that is there and write the page."""
    if len(sys.argv) != 2:
        sys.exit(str(__doc__))
    folder = Path(sys.argv[1])
    names = [name for name, (_, file) in FILES.items() if (folder / file).exists()]
    if not names:
        sys.exit(f"{folder} holds none of {', '.join(file for _, file in FILES.values())}")
    torch.set_num_threads(1)
    table: dict[str, list[str]] = {OURS: []}
    verdicts = []
    for name in names:
        start = time.perf_counter()
        ours = [
            accuracy(name, folder, lambda s=seed: SPDNetClassifier(random_state=s), seed)  # type: ignore[misc]
            for seed in range(SEEDS)
        ]
        others = {label: accuracy(name, folder, make, 0) for label, make in CONTESTANTS.items()}
        table[OURS].append(f"{statistics.fmean(ours):.2f} ± {statistics.stdev(ours):.2f}")
        for label, value in others.items():
            table.setdefault(label, []).append(f"{value:.2f}")
        verdicts.append(verdict(ours, list(others.values())))
        print(
            name, {k: v[-1] for k, v in table.items()}, f"{time.perf_counter() - start:.0f} s", flush=True
        )
    table["against the best of the others"] = verdicts
    head = ["", *(FILES[name][0] for name in names)]
    lines = [head, ["---", *["---:"] * len(names)], *([label, *cells] for label, cells in table.items())]
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    PAGE.write_text(
        "# SPDNetClassifier beside pyRiemann and scikit-learn\n\n"
        f"{body}\n\n"
        "Accuracy in percent over all samples tested on, after the last epoch, mean ± standard deviation "
        f"over {SEEDS} seeds; the others have no seed. Level is within one deviation, and within half a "
        "percent at least. By `python -m benchmarks.estimators FOLDER`.\n",
        "utf-8",
    )


if __name__ == "__main__":
    main()
