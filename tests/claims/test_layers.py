"""What the paper says of layers that needs no layer to check."""

import numpy as np

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
