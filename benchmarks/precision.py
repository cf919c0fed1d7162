"""What products in half precision cost: BiMap, a logarithm after it, and the accuracy on digits.

python -m benchmarks.precision        prints what docs/training.md says
"""

from __future__ import annotations

import torch
from torch import Tensor

from alem import data, geometry, linalg, models, nn
from alem.training import Part, Recipe, fit, seeded


def off(found: Tensor, exact: Tensor) -> float:
    """The error relative to the norm of all matrices."""
    return float((found - exact).norm() / exact.norm())


@torch.no_grad()
def digits_left(n: int, m: int) -> None:
    """Errors of a BiMap from n to m, whose output in float32 is taken for exact."""
    torch.manual_seed(0)
    X, layer = geometry.sample_wishart(200, n=n), nn.BiMap(n, m)
    exact = layer(X)
    x = linalg.eigvalsh(exact)
    print(f"BiMap({n}, {m}), condition up to {float((x[:, -1] / x[:, 0]).max()):.3g}")
    for kind in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", kind):
            Y = layer(X)
        print(f"  {kind}: {off(Y, exact):.1e}, its logarithm {off(linalg.log(Y), linalg.log(exact)):.1e}")


def accuracy(seed: int, products: str | None) -> float:
    """On the test images of digits, in percent, after 30 epochs."""
    digits = data.digits()
    train, test = (
        Part(digits.matrices, digits.labels, places.nonzero().flatten())
        for places in (digits.train, ~digits.train)
    )
    recipe = Recipe("amsgrad", lr=2e-2, epochs=30, dtype="float32", products=products)
    net = seeded(seed, lambda: models.SPDNet([7, 6], 10, chart_norm=True), recipe.torch_dtype)
    return 100 * fit(net, train, test, recipe, seed).history.test_accuracy[-1]


if __name__ == "__main__":
    digits_left(20, 10)
    digits_left(93, 30)
    for seed in range(3):
        print(
            f"digits, seed {seed}: {accuracy(seed, None):.1f} %, {accuracy(seed, 'bfloat16'):.1f} % lower"
        )
