"""What a training minimises, and how good its outputs are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

OfOutputs = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Objective:
    """Two numbers for outputs `(k, m)` and their targets `(k, ...)`.

    ``loss`` is what is minimised, a mean over the k samples; ``score`` what a history shows under the name
    of an accuracy, the larger the better.
    """

    loss: OfOutputs
    score: OfOutputs


def accuracy(outputs: Tensor, labels: Tensor) -> Tensor:
    """The share of samples whose largest output `(k, m)` stands at their label `(k,)`."""
    return (outputs.argmax(-1) == labels).double().mean()


def weighted_accuracy(outputs: Tensor, targets: Tensor) -> Tensor:
    """The accuracy where samples count by their weights, targets `(k, m)` as of :func:`weighted_labels`."""
    weights = targets.sum(-1)
    right = outputs.argmax(-1) == targets.argmax(-1)
    return (weights * right).sum() / weights.sum()


def weighted_labels(labels: Tensor, weights: Tensor, n_classes: int) -> Tensor:
    """Rows `(k, m)` with the weight of the sample at its label and 0 elsewhere; the mean weight becomes 1.

    Cross-entropy with them is that of each sample times its weight.
    """
    return functional.one_hot(labels, n_classes) * (weights / weights.mean())[:, None]


def weighted_squares(outputs: Tensor, targets: Tensor) -> Tensor:
    """The weighted mean of squared errors; targets `(k, m + 1)` end with the weight."""
    return (targets[:, -1:] * (outputs - targets[:, :-1]).square()).mean()


def explained(outputs: Tensor, targets: Tensor) -> Tensor:
    """R², the share of the variance of the targets that is explained, averaged over the m outputs.

    Targets `(k, m + 1)` end with the weight. Where they do not vary it is 1 if nothing is left, else 0.
    """
    y, w = targets[:, :-1], targets[:, -1:] / targets[:, -1].sum()
    left = (w * (outputs - y).square()).sum(0)
    spread = (w * (y - (w * y).sum(0)).square()).sum(0)
    constant = torch.where(left == 0, 1.0, 0.0).to(y.dtype)
    return torch.where(spread > 0, 1 - left / spread, constant).mean()


CLASSIFICATION = Objective(functional.cross_entropy, accuracy)
WEIGHTED_CLASSIFICATION = Objective(functional.cross_entropy, weighted_accuracy)
REGRESSION = Objective(weighted_squares, explained)
