"""The data set that needs no file: region covariances of scikit-learn's digits."""

from __future__ import annotations

import torch
from torch import Tensor

from alem import linalg
from alem.data.dataset import Dataset, dataset
from alem.data.errors import DataError

# The first 1000 of 1797 images train, in the order of the file: by and large other writers than the rest.
TRAINING = 1000


def digits() -> Dataset:
    """Each 8×8 image as the 7×7 covariance of :func:`pixel_features` over its pixels, + 10⁻³·tr(C)·I.

    1797 matrices in ten classes; the first 1000 in scikit-learn's order are for training. Region
    covariances are by Tuzel, Porikli and Meer, "Region covariance: a fast descriptor for detection and
    classification", ECCV 2006.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise DataError("digits needs scikit-learn; install it with: pip install scikit-learn") from None
    bundle = load_digits()
    images = torch.from_numpy(bundle.images) / bundle.images.max()
    train = torch.arange(len(images)) < TRAINING
    return dataset(
        "digits", linalg.covariance(pixel_features(images), loading=1e-3), bundle.target, train=train
    )


def pixel_features(images: Tensor) -> Tensor:
    """x, y, I, |I_x|, |I_y|, |I_xx|, |I_yy| of every pixel: `(k, h, w)` to `(k, 7, h·w)`."""
    height, width = images.shape[-2:]
    y, x = torch.meshgrid(
        torch.linspace(-1, 1, height, dtype=images.dtype),
        torch.linspace(-1, 1, width, dtype=images.dtype),
        indexing="ij",
    )
    d_y, d_x = torch.gradient(images, dim=(-2, -1))
    (d_yy,) = torch.gradient(d_y, dim=-2)
    (d_xx,) = torch.gradient(d_x, dim=-1)
    maps = [x.expand_as(images), y.expand_as(images), images]
    maps += [d.abs() for d in (d_x, d_y, d_xx, d_yy)]
    return torch.stack(maps, dim=-3).flatten(-2)
