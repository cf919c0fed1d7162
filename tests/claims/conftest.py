"""Random numbers, metrics and points that the tests of the claims share."""

import numpy as np
import pytest

from tests.claims import library, paper
from tests.claims.library import N, tensor


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(params=library.TRUE_METRICS)
def metric(request):
    return library.TRUE_METRICS[request.param]()


@pytest.fixture
def points(rng):
    return tensor(*paper.random_spd(rng, N, (3,)))
