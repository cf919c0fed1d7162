from __future__ import annotations

import numpy as np
import pytest
import torch
from pyriemann.estimation import Covariances as Theirs

from alem.estimators import Covariances

SIGNALS = np.random.default_rng(0).standard_normal((6, 4, 40))


@pytest.mark.parametrize(("ours", "theirs"), [("ledoit-wolf", "lwf"), ("oas", "oas")])
def test_agrees_with_pyriemann(ours: str, theirs: str) -> None:
    np.testing.assert_allclose(
        Covariances(ours).fit_transform(SIGNALS), Theirs(theirs).fit_transform(SIGNALS), rtol=1e-10
    )


def test_tensors_come_back_as_tensors() -> None:
    C = Covariances().fit_transform(torch.from_numpy(SIGNALS).float())
    assert isinstance(C, torch.Tensor)
    assert C.dtype == torch.float32
    np.testing.assert_allclose(C.numpy(), Covariances().fit_transform(SIGNALS), rtol=1e-4)


def test_what_has_no_covariance_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no SPD matrix: .* shrinkage='oas'"):
        Covariances().fit_transform(SIGNALS[..., :4])
    assert Covariances("oas").fit_transform(SIGNALS[..., :4]).shape == (6, 4, 4)
    with pytest.raises(ValueError, match="unknown shrinkage 'lw'"):
        Covariances("lw").fit(SIGNALS)
    bad = SIGNALS.copy()
    bad[2, 1, 5] = np.nan
    with pytest.raises(ValueError, match=r"matrix 2 .* channel 1 is nan at sample 5"):
        Covariances().fit(SIGNALS).transform(bad)
    with pytest.raises(ValueError, match=r"signals \(n_samples, channels, times\)"):
        Covariances().fit(SIGNALS[0])
    with pytest.raises(ValueError, match="fitted to 4 channels, X has 3"):
        Covariances().fit(SIGNALS).transform(SIGNALS[:, :3])
