"""What the paper says of layers."""

import numpy as np

from alem import models
from tests.claims import paper


def test_bimap_is_a_congruence():
    """Section V prints W S W; with W of 3×5 that is no product, and square it is not symmetric."""
    rng = np.random.default_rng(0)
    S, W = paper.random_spd(rng, 5), paper.orthogonal(rng, 5)
    printed = W @ S @ W
    assert np.abs(printed - printed.T).max() > 0.1
    thin = W[:3]
    mapped = thin @ S @ thin.T
    np.testing.assert_allclose(mapped, mapped.T, atol=1e-14)
    assert np.linalg.eigvalsh(mapped)[0] > 0


def test_cost_of_the_adaptive_logarithm_and_of_batch_norm():
    """Section VII-B, on the deepest network of AFEW; it leaves out the batch norm after the last BiMap."""
    dims = [512, 400, 300, 200, 100]

    def numbers(**options: str) -> tuple[int, int]:
        net = models.SPDNet(dims, 7, **options)
        return sum(p.numel() for p in net.parameters()), sum(b.numel() for b in net.buffers())

    learned, stored = numbers()
    assert stored == 0
    assert numbers(log="mul") == (learned + 100, 0)
    norms = 400**2 + 300**2 + 200**2 + 100**2
    assert numbers(norm="spdnetbn") == (learned + norms, norms)
