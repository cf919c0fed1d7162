"""A layer to be checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from alem import linalg
from alem.testing.comparing import functionals, saying


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
    """

    make: Callable[[], nn.Module]
    X: Tensor
    spd: bool = True
    train: bool = True
    smooth: bool = True
    unmoved: tuple[str, ...] = ()

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
        """The layer as a function of input and parameters that leaves its buffers alone."""
        parameters, buffers = dict(layer.named_parameters()), dict(layer.named_buffers())
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


def mode(training: bool) -> str:
    """The name of a mode."""
    return "training" if training else "evaluation"


def is_symmetric(X: Tensor) -> bool:
    """Whether X `(N, n, n)` is a batch of symmetric matrices, to the last bit."""
    return X.ndim > 2 and X.shape[-1] == X.shape[-2] and torch.equal(X, X.mT)


def gradients(layer: nn.Module, X: Tensor, Y: Tensor) -> dict[str, Tensor]:
    """Gradients of a functional of Y by the input X and by the parameters that it depends on."""
    leaves = {"the input": X, **dict(layer.named_parameters())}
    grads = torch.autograd.grad(functionals(Y, 1), list(leaves.values()), allow_unused=True)
    return {f"the gradient of {name}": g for name, g in zip(leaves, grads, strict=True) if g is not None}
