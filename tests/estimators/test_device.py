from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from alem.estimators import SPDNetClassifier, TangentSpace

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_network_trains_and_predicts_on_the_device(dtype: str, samples: Any) -> None:
    X, y = samples
    here, there = (
        SPDNetClassifier(epochs=20, dropout=0.0, dtype=dtype, device=device, random_state=0).fit(X, y)
        for device in ("cpu", "cuda")
    )
    tolerance = 1e-6 if dtype == "float64" else 0.05
    np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), atol=tolerance)
    assert there.score(X, y) > 0.9


def test_tensors_on_the_device_come_back_there(samples: Any) -> None:
    X, _ = samples
    x = torch.from_numpy(X).cuda()
    features = TangentSpace().fit(x).transform(x)
    assert features.is_cuda
    np.testing.assert_allclose(features.cpu(), TangentSpace().fit(X).transform(X), atol=1e-8)
