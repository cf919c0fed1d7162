"""A layer or a metric to be checked, and what is known of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from alem import linalg
from alem.geometry import Metric, sample_wishart
from alem.testing.comparing import functionals, require_close, saying
from alem.testing.spectra import GAPS, log_spectra, with_spectra


@dataclass(frozen=True)
class LayerCase:
    """A layer and what is known of it.

    - ``make`` builds the layer; random numbers are seeded before each call;
    - ``X``: float64 inputs `(N, ...)`, N ≥ 2, SPD matrices `(N, n, n)` as a rule; symmetric ones are
      perturbed symmetrically;
    - ``spd``: whether the outputs are SPD matrices;
    - ``train``: whether the training mode is checked, too;
    - ``smooth``: whether it has a derivative where eigenvalues meet; gradients are finite there anyway;
    - ``unmoved``: parameters, or entries such as ``"theta[0]"``, on which the output does not depend.

    A parameter with ``requires_grad=False`` is frozen: it has no gradient and must stay where it is.
    """

    make: Callable[[], nn.Module]
    X: Tensor
    spd: bool = True
    train: bool = True
    smooth: bool = True
    unmoved: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.X.dtype != torch.float64:
            raise ValueError(
                f"X must be float64, for finite differences to have digits; got {self.X.dtype}"
            )
        if self.X.ndim < 2 or len(self.X) < 2:
            raise ValueError(f"X must be a batch (N, ...) with N >= 2, got shape {tuple(self.X.shape)}")

    @property
    def modes(self) -> tuple[bool, ...]:
        """The values of ``training`` to check."""
        return (True, False) if self.train else (False,)

    @property
    def symmetric(self) -> bool:
        """Whether the inputs are symmetric matrices."""
        return is_symmetric(self.X)

    def build(self, training: bool = False) -> nn.Module:
        """A new layer, in the dtype and on the device of X; in evaluation it has seen X once."""
        with torch.random.fork_rng(), saying("building the layer"):
            torch.manual_seed(0)
            layer = self.make().to(self.X)
        if training:
            return layer.train()
        if self.train:
            self.run(layer.train(), self.X)
        return layer.eval()

    def run(self, layer: nn.Module, X: Tensor) -> Tensor:
        """The layer at X; if it draws random numbers, the same ones in each call."""
        what = f"in {mode(layer.training)}, on an input of shape {tuple(X.shape)}"
        with torch.random.fork_rng(), saying(what):
            torch.manual_seed(1)
            return layer(X)

    def as_function(self, layer: nn.Module) -> Callable[..., Tensor]:
        """The layer as a function of input and trainable parameters that leaves its buffers alone."""
        parameters, buffers = trainable(layer), dict(layer.named_buffers())
        # An SPD parameter lives on symmetric matrices, as the inputs do.
        constrained = (hasattr(p, "manifold") and is_symmetric(p[None]) for p in parameters.values())
        symmetric = [self.symmetric, *constrained]

        def f(*leaves: Tensor) -> Tensor:
            X, *values = (linalg.symmetrize(a) if s else a for a, s in zip(leaves, symmetric, strict=True))
            state = {name: b.clone() for name, b in buffers.items()}
            state |= dict(zip(parameters, values, strict=True))
            with torch.random.fork_rng():
                torch.manual_seed(1)
                return functional_call(layer, state, (X,))

        return f


@dataclass(frozen=True)
class MetricCase:
    """A metric and what is known of it.

    - ``n``: the size of matrices, 2 at least; 3 is enough and keeps the checks fast;
    - ``smooth``: whether it has derivatives where eigenvalues meet; gradients are finite there anyway;
    - ``tolerance`` of equalities, relative to the largest entry;
    - ``seed`` of the points.
    """

    metric: Metric
    n: int
    smooth: bool = True
    tolerance: float = 1e-8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 2:
            raise ValueError(f"n must be 2 at least, for eigenvalues to meet; got {self.n}")

    def generic(self, which: int = 0) -> Tensor:
        """Wishart matrices `(4, n, n)`, others for each ``which``."""
        return sample_wishart(4, n=self.n, generator=self.generator(which), dtype=torch.float64)

    def points(self, which: int = 0) -> Tensor:
        """SPD matrices `(N, n, n)`: the generic ones, and those of :func:`log_spectra` in random frames."""
        t = torch.cat([log_spectra(self.n, gap).flatten(0, 1) for gap in GAPS])
        return torch.cat([self.generic(which), with_spectra(t, self.generator(which))])

    def tangents(self, P: Tensor, which: int = 0) -> Tensor:
        """Tangent vectors at P, short enough for the exponential of a metric that is not complete."""
        V = torch.randn(P.shape, generator=self.generator(100 + which), dtype=P.dtype)
        return 0.1 * linalg.symmetrize(V) * linalg.eigvalsh(P)[..., :1, None]

    def generator(self, which: int) -> torch.Generator:
        """Random numbers of the seed, others for each ``which``."""
        return torch.Generator().manual_seed(1000 * self.seed + which)

    def close(self, actual: Tensor, expected: Tensor, what: str) -> None:
        """Raise AssertionError unless the two are equal to ``tolerance``."""
        require_close(actual, expected, what, self.tolerance)


def trainable(layer: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are not frozen."""
    return {name: p for name, p in layer.named_parameters() if p.requires_grad}


def mode(training: bool) -> str:
    """The name of a mode."""
    return "training" if training else "evaluation"


def is_symmetric(X: Tensor) -> bool:
    """Whether X `(N, n, n)` is a batch of symmetric matrices, to the last bit."""
    return X.ndim > 2 and X.shape[-1] == X.shape[-2] and torch.equal(X, X.mT)


def gradients(layer: nn.Module, X: Tensor, Y: Tensor) -> dict[str, Tensor]:
    """Gradients of a functional of Y by the input X and by the parameters that it depends on."""
    leaves = {"the input": X, **trainable(layer)}
    grads = torch.autograd.grad(functionals(Y, 1), list(leaves.values()), allow_unused=True)
    return {f"the gradient of {name}": g for name, g in zip(leaves, grads, strict=True) if g is not None}
