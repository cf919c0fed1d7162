"""Batch normalisation under the affine-invariant metric, whose mean has no closed form.

The mean of a batch is approached from the arithmetic mean by Karcher steps,
B ← B^½ exp(mean log(B^-½ X B^-½)) B^½, in which the Cholesky factor stands for B^½: any root will do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from alem import linalg
from alem.geometry import AffineInvariant, Constrained, spd_parameter
from alem.linalg.autograd import opaque
from alem.linalg.errors import can_inspect, require_finite, require_positive
from alem.linalg.precision import full_precision, product, takes_half
from alem.nn.domains import Domains
from alem.nn.inputs import require_count, require_eps, require_matrices, require_momentum, require_some
from alem.nn.sync import Synchronised

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_AIM = AffineInvariant()


class _KarcherNorm(Synchronised, Constrained):
    """What the two layers share: their parameter G, the mean of a batch, and the checks."""

    running_mean: Tensor

    def __init__(
        self,
        n: int,
        momentum: float,
        karcher_steps: int,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        layer = type(self).__name__
        require_count(layer, "n", n)
        require_momentum(layer, "momentum", momentum)
        require_count(layer, "karcher_steps", karcher_steps)
        self.n, self.momentum, self.karcher_steps = n, momentum, karcher_steps
        self.bias = spd_parameter(torch.eye(n, device=device, dtype=dtype))

    def extra_repr(self) -> str:
        return f"n={self.n}, momentum={self.momentum}, karcher_steps={self.karcher_steps}"

    def _flatten(self, X: Tensor) -> Tensor:
        require_matrices(type(self).__name__, X, self.n, self.running_mean)
        if self.training:
            require_some(type(self).__name__, X)
        # Before means are taken, which would spread it; a sum that is finite proves that there is none.
        if can_inspect(X) and not bool(X.detach().sum().isfinite()):
            require_finite(X)
        return X.reshape(-1, self.n, self.n)

    def _momentum_like(self, B: Tensor) -> Tensor:
        """The momentum as a tensor `()`, filled where it is: to send a number to a device is to wait."""
        return B.new_full((), self.momentum)

    def _batch_mean(self, X: Tensor, domains: Domains) -> Tensor:
        """B `(D, n, n)` of X `(N, n, n)`; the identity for a domain without members."""
        eye = torch.eye(self.n, dtype=X.dtype, device=X.device)
        B = domains.where_present(domains.mean(X), eye)
        for _ in range(self.karcher_steps):
            L = linalg.cholesky(B)
            logs = linalg.log(linalg.unwhiten(domains.each(_inverse(L)), X))
            B = linalg.unwhiten(L, linalg.exp(domains.mean(logs)))
        return B


class SPDNetBN(_KarcherNorm):
    """Y = G^½ B^-½ X B^-½ G^½: the batch with its affine-invariant mean B moved to G, which is learned.

    All leading dimensions of X `(..., n, n)` are the batch. ``bias`` is G, I at the start;
    ``running_mean`` moves along the geodesic to B by ``momentum`` at each training step and is B in
    evaluation. (Brooks et al. 2019, "Riemannian batch normalization for SPD neural networks".)
    """

    def __init__(
        self,
        n: int,
        momentum: float = 0.1,
        karcher_steps: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(n, momentum, karcher_steps, device, dtype)
        self.register_buffer("running_mean", torch.eye(n, device=device, dtype=dtype))

    @takes_half
    def forward(self, X: Tensor) -> Tensor:
        flat = self._flatten(X)
        if not self.training and can_inspect(X):
            linalg.cholesky(X.detach())  # nothing below decomposes X: this names what is not SPD
        training = self.training
        B = self._batch_mean(flat, Domains.one(flat, self.group))[0] if training else self.running_mean
        root = product(linalg.sqrt(self.bias), linalg.inverse_sqrt(B))
        if self.training:
            with torch.no_grad():
                self.running_mean.copy_(_AIM.geodesic(self.running_mean, B, self._momentum_like(B)))
        return linalg.unwhiten(root, flat).reshape(X.shape)


class SPDBN(_KarcherNorm):
    """Y = G^½ (T^-½ X T^-½)^p G^½, p = s/√(v + ε): mean T moved to G and dispersion v to s², both learned.

    Training step k moves T = ``train_mean`` along the geodesic to the batch mean B, and
    v = ``train_var`` to the mean of d²(T, X_i), by the training momentum

        γ(k) = 1 − ρ^{max(K−k, 0)/(K−1)} + ρ,    ρ = ``final_momentum``, K = ``warmup``,

    and normalises with the result: plain batch normalisation, γ = 1, becomes normalisation by slow
    averages, γ = ρ. ``running_mean`` and ``running_var`` do the same with the constant ``momentum``,
    and evaluation uses them. ``bias`` is G, I at the start; ``scale`` is s, 1 at the start.

    A batch of one moves the means; of the dispersion, which is about a mean that follows it, it says
    nothing, and both variances stay.

    With ``domains`` D the statistics have a leading dimension D, ``forward`` takes the domain of each
    matrix, integers `(...)` in a tensor, a list or an array, or one int for all of X `(..., n, n)`, and
    each domain is normalised by its own statistics; those of an absent domain stay, as do the variances
    of a domain with one matrix. G, s and k are shared.

    Kobler et al. 2022, "Controlling the Fréchet variance improves batch normalization on the symmetric
    positive definite manifold" and "SPD domain-specific batch normalization to crack interpretable
    unsupervised domain adaptation in EEG". There ρ is one over the number of domains in a batch, five,
    and K counts 40 epochs; here K counts training steps.
    """

    takes_domain = True

    train_mean: Tensor
    train_var: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(
        self,
        n: int,
        domains: int | None = None,
        momentum: float = 0.1,
        final_momentum: float = 0.2,
        warmup: int = 1000,
        karcher_steps: int = 1,
        eps: float = 1e-5,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(n, momentum, karcher_steps, device, dtype)
        require_momentum("SPDBN", "final_momentum", final_momentum)
        if warmup < 1:
            raise ValueError(f"warmup must be 1 step or more, got {warmup}; 1 is final_momentum throughout")
        if domains is not None:
            require_count("SPDBN", "domains", domains)
        require_eps("SPDBN", eps)
        self.domains, self.final_momentum, self.warmup, self.eps = domains, final_momentum, warmup, eps
        self.scale = nn.Parameter(torch.ones((), device=device, dtype=dtype))
        shape = () if domains is None else (domains,)
        for name in ("train", "running"):
            eye = torch.eye(n, device=device, dtype=dtype).repeat(*shape, 1, 1)
            self.register_buffer(f"{name}_mean", eye)
            self.register_buffer(f"{name}_var", torch.ones(shape, device=device, dtype=dtype))
        self.register_buffer("num_batches_tracked", torch.zeros((), dtype=torch.long, device=device))

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, domains={self.domains}, final_momentum={self.final_momentum}, "
            f"warmup={self.warmup}, eps={self.eps}"
        )

    def training_momentum(self) -> Tensor:
        """γ(k) `()` of the coming training step, k − 1 of which have been made."""
        made = _snapshot(self.num_batches_tracked)
        left = (self.warmup - 1 - made).clamp(min=0).to(self.scale.dtype)
        # With K = 1 nothing is ever left, and 0/1 stands for 0/0.
        return 1 - self.final_momentum ** (left / max(self.warmup - 1, 1)) + self.final_momentum

    @takes_half
    def forward(self, X: Tensor, domain: Tensor | ArrayLike | None = None) -> Tensor:
        flat = self._flatten(X)
        group = self.group if self.training else None
        domains = Domains.read(X, domain, self.domains, group)
        powers = self._train(flat, domains) if self.training else self._evaluate(flat, domains)
        return linalg.unwhiten(linalg.sqrt(self.bias), powers).reshape(X.shape)

    def _evaluate(self, X: Tensor, domains: Domains) -> Tensor:
        mean, var = self.running_mean.reshape(-1, self.n, self.n), self.running_var.reshape(-1)
        whitened = linalg.unwhiten(domains.each(linalg.inverse_sqrt(mean)), X)
        return linalg.power(whitened, domains.each(self._exponent(var)))

    def _train(self, X: Tensor, domains: Domains) -> Tensor:
        gamma = self.training_momentum()
        B = self._batch_mean(X, domains)
        T = self._moved(self.train_mean, B, gamma, domains)
        logs = linalg.log(linalg.unwhiten(domains.each(linalg.inverse_sqrt(T)), X))
        var = self._averaged(self.train_var, logs.square().sum((-2, -1)), gamma, domains)
        with torch.no_grad():
            momentum = self._momentum_like(B)
            R = self._moved(self.running_mean, B, momentum, domains)
            # Distances need no eigenvectors, and any root of R.
            values = linalg.eigvalsh(linalg.unwhiten(domains.each(_inverse(linalg.cholesky(R))), X))
            if can_inspect(values):
                require_positive(values)
            running_var = self._averaged(self.running_var, values.log().square().sum(-1), momentum, domains)
            # Through views `(D, ...)`: torch 2.13 compiles copy_ to a float64 tensor `()` to nothing.
            for buffer, value in (
                (self.train_mean, T),
                (self.train_var, var),
                (self.running_mean, R),
                (self.running_var, running_var),
            ):
                buffer.view_as(value).copy_(value)
            self.num_batches_tracked.add_(1)
        return linalg.exp(domains.each(self._exponent(var))[:, None, None] * logs)

    def _exponent(self, var: Tensor) -> Tensor:
        return self.scale * (var + self.eps).rsqrt()

    def _moved(self, mean: Tensor, B: Tensor, t: Tensor, domains: Domains) -> Tensor:
        old = mean.reshape(-1, self.n, self.n)
        return domains.where_present(_AIM.geodesic(old, B, t), old)

    @staticmethod
    def _averaged(var: Tensor, squares: Tensor, t: Tensor, domains: Domains) -> Tensor:
        old = var.reshape(-1)
        return domains.where_present((1 - t) * old + t * domains.mean(squares), old, members=2)


@opaque("alem::snapshot")
def _snapshot(x: Tensor) -> Tensor:
    """A copy that a compiled backward pass cannot make anew from x, which has changed by then.

    torch 2.13 saves a buffer and recomputes from it what is cheap (pytorch/pytorch#197039).
    """
    return x.clone()


_snapshot.register_fake(torch.empty_like)


@full_precision
def _inverse(L: Tensor) -> Tensor:
    """L⁻¹ of a lower-triangular L `(..., n, n)`: once for each domain, where solving is for each matrix."""
    eye = torch.eye(L.shape[-1], dtype=L.dtype, device=L.device)
    return torch.linalg.solve_triangular(L, eye, upper=False)
