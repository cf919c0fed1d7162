from __future__ import annotations

import sys

import pytest
import torch

from alem.data import DataError, digits, load
from alem.data.digits import pixel_features


def test_the_embedded_data_set() -> None:
    d = digits()
    assert repr(d) == "Dataset(digits: 1797 matrices 7×7, 10 classes, 1000 for training)"
    assert d.classes == tuple("0123456789")
    assert d.train is not None
    assert bool(d.train[:1000].all())
    assert not bool(d.train[1000:].any())
    assert d.labels[:5].tolist() == [0, 1, 2, 3, 4]
    assert d.matrices.dtype == torch.float64
    assert not d.repairs
    assert load("digits").fingerprint() == d.fingerprint()


def test_features_of_an_image_that_is_known() -> None:
    # I = y²: I_y = 2y, I_yy = 2 in units of pixels, inside.
    y = torch.arange(6.0)
    image = (y**2)[:, None].expand(6, 4)[None]
    x_, y_, same, I_x, I_y, I_xx, I_yy = pixel_features(image)[0].reshape(7, 6, 4)
    torch.testing.assert_close(x_[0], torch.linspace(-1, 1, 4))
    torch.testing.assert_close(y_[:, 0], torch.linspace(-1, 1, 6))
    assert torch.equal(same, image[0])
    assert not bool(I_x.any())
    assert not bool(I_xx.any())
    torch.testing.assert_close(I_y[1:-1, 0], 2 * y[1:-1])
    torch.testing.assert_close(I_yy[2:-2, 0], torch.full((2,), 2.0))


def test_without_scikit_learn_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataError, match="pip install scikit-learn"):
        digits()
