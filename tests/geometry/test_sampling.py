"""Random SPD matrices have the moments they claim."""

from __future__ import annotations

import pytest
import torch

from alem.geometry import AffineInvariant, check_spd, sample_log_normal, sample_wishart

from .conftest import FLAT, learned_metric, spd


def test_wishart_has_its_mean_and_is_definite() -> None:
    scale = spd(n=3)
    X = sample_wishart(20000, n=3, dof=7, scale=scale, generator=torch.Generator().manual_seed(0))
    check_spd(X)
    torch.testing.assert_close(X.mean(0), scale, rtol=0.03, atol=0.03)
    variance = (scale.diagonal()[:, None] * scale.diagonal() + scale**2) / 7
    torch.testing.assert_close(X.var(0), variance, rtol=0.1, atol=0.02)


def test_wishart_defaults_and_refusals() -> None:
    assert sample_wishart(2, 3, n=4, dtype=torch.float64).shape == (2, 3, 4, 4)
    assert sample_wishart(n=2).dtype == torch.float32
    with pytest.raises(ValueError, match="singular"):
        sample_wishart(n=4, dof=3)
    with pytest.raises(ValueError, match="must be 4×4"):
        sample_wishart(n=4, scale=torch.eye(3))
    with pytest.raises(TypeError, match="not AffineInvariant"):
        sample_log_normal(AffineInvariant(), 3, mean=torch.eye(2))


@pytest.mark.parametrize("name", FLAT)
def test_log_normal_is_centred_with_the_stated_dispersion(name: str) -> None:
    m, centre = learned_metric(name, 3).requires_grad_(False), spd(n=3)
    generator = torch.Generator().manual_seed(0)
    X = sample_log_normal(m, 4000, mean=centre, sigma=0.2, generator=generator)
    assert m.dist(m.mean(X), centre) < 0.02
    torch.testing.assert_close(
        m.variance(X, centre), torch.tensor(0.2**2 * 6, dtype=X.dtype), rtol=0.05, atol=0
    )


def test_a_seed_reproduces() -> None:
    draws = [sample_wishart(3, n=2, generator=torch.Generator().manual_seed(4)) for _ in range(2)]
    assert torch.equal(*draws)
