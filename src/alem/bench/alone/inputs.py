"""What both sides of a comparison work on: the same numbers in every process."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

SPECTRA = ("well conditioned", "rank-deficient", "clustered")


def matrices(
    spectrum: str,
    batch: int,
    n: int,
    dtype: str,
    device: str = "cpu",
    rank: int | None = None,
    seed: int = 0,
) -> Tensor:
    """Symmetric matrices `(batch, n, n)` with eigenvalues of the size of 1.

    - ``"well conditioned"``: covariances of 2n samples, a condition number of about 30;
    - ``"rank-deficient"``: covariances of ``rank`` samples (n/2), the other eigenvalues are rounding;
    - ``"clustered"``: I plus such a covariance, so that n − ``rank`` eigenvalues are equal to rounding.
    """
    generator = torch.Generator().manual_seed(seed)
    samples = 2 * n if spectrum == "well conditioned" else rank or max(1, n // 2)
    A = torch.randn(batch, n, samples, generator=generator, dtype=getattr(torch, dtype))
    X = A @ A.mT / samples
    if spectrum == "clustered":
        X += torch.eye(n, dtype=X.dtype)
    elif spectrum not in SPECTRA:
        raise ValueError(f"no spectrum is called {spectrum!r}; there are {', '.join(SPECTRA)}")
    return X.to(device)


def labels(batch: int, classes: int, device: str = "cpu") -> Tensor:
    """Classes in turn, `(batch,)`."""
    return (torch.arange(batch) % classes).to(device)


class Weights(NamedTuple):
    """The parameters of an SPDNet: orthonormal rows `(n_out, n_in)`, and those of the linear layer."""

    bimaps: list[Tensor]
    head: Tensor
    bias: Tensor


def weights(dims: Sequence[int], classes: int, dtype: str, device: str = "cpu", seed: int = 1) -> Weights:
    """Random parameters for an SPDNet of those sizes."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def cast(W: Tensor) -> Tensor:
        return W.to(device=device, dtype=getattr(torch, dtype))

    bimaps = [torch.linalg.qr(normal(a, b))[0].mT.contiguous() for a, b in itertools.pairwise(dims)]
    head = normal(classes, dims[-1] ** 2) / dims[-1]
    return Weights([cast(W) for W in bimaps], cast(head), cast(normal(classes)))


class Moved(NamedTuple):
    """A parameter of an optimiser and its gradient: O orthonormal rows, P SPD, E Euclidean."""

    kind: str
    value: Tensor
    gradient: Tensor

    def direction(self, moved: Tensor, lr: float) -> Tensor:
        """(x' − x)/lr; of orthonormal rows the part that leaves their span.

        Within it geoopt's step on its canonical Stiefel manifold is twice its gradient's: its retraction
        takes a tangent vector for a Euclidean gradient.
        """
        D = (moved.detach() - self.value) / lr
        return D - D @ self.value.mT @ self.value if self.kind == "O" else D


# A letter and a shape for each parameter.
PARAMETERS: dict[str, list[tuple[str, tuple[int, ...]]]] = {
    "BiMap 10×20": [("O", (10, 20))],
    "BiMap 30×93": [("O", (30, 93))],
    "BiMaps 70×93, 50×70, 30×50": [("O", (70, 93)), ("O", (50, 70)), ("O", (30, 50))],
    "BiMap 100×512": [("O", (100, 512))],
    "linear 900→10": [("E", (10, 900)), ("E", (10,))],
    "metric vectors 93, 70, 30": [("E", (93,)), ("E", (70,)), ("E", (30,))],
    "SPD 30": [("P", (30, 30))],
    "SPD 70": [("P", (70, 70))],
    "a network of all": [
        ("O", (70, 93)),
        ("O", (30, 70)),
        ("P", (70, 70)),
        ("P", (30, 30)),
        ("E", (30,)),
        ("E", (10, 900)),
        ("E", (10,)),
    ],
}


def parameters(case: str, dtype: str, device: str = "cpu", seed: int = 0) -> list[Moved]:
    """The parameters of a case of ``PARAMETERS``, with random gradients."""
    generator = torch.Generator().manual_seed(seed)
    result = []
    for kind, shape in PARAMETERS[case]:
        A = torch.randn(shape, generator=generator, dtype=torch.float64)
        G = torch.randn(shape, generator=generator, dtype=torch.float64)
        if kind == "O":
            A = torch.linalg.qr(A.mT)[0].mT.contiguous()
        elif kind == "P":
            A, G = A @ A.mT / shape[0] + torch.eye(shape[0], dtype=A.dtype), (G + G.mT) / 2
        cast = {"device": device, "dtype": getattr(torch, dtype)}
        result.append(Moved(kind, A.to(**cast), G.to(**cast)))
    return result


def directions(points: Sequence[Tensor], moved: Sequence[Moved], lr: float) -> dict[str, Tensor]:
    """Where a step went, by parameter."""
    pairs = enumerate(zip(points, moved, strict=True), start=1)
    return {f"direction of parameter {i}": m.direction(p, lr) for i, (p, m) in pairs}
