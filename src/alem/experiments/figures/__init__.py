"""Results as pictures. Each function takes rows of :func:`alem.experiments.summary.summarise`."""

from alem.experiments.figures.geometry import has_learned, has_spectra, learned, spectra
from alem.experiments.figures.methods import accuracies, confusion, confusion_counts, timings
from alem.experiments.figures.style import Look, Looks, available, looks
from alem.experiments.figures.svg import draw, to_file, to_inline
from alem.experiments.figures.training import curves, has_history, training

__all__ = [
    "Look",
    "Looks",
    "accuracies",
    "available",
    "confusion",
    "confusion_counts",
    "curves",
    "draw",
    "has_history",
    "has_learned",
    "has_spectra",
    "learned",
    "looks",
    "spectra",
    "timings",
    "to_file",
    "to_inline",
    "training",
]
