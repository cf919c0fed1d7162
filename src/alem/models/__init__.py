"""Networks on SPD matrices, composed of the layers of :mod:`alem.nn`."""

from alem.models.rresnet import RResNet
from alem.models.spdnet import SPDNet

__all__ = ["RResNet", "SPDNet"]
