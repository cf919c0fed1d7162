"""Training: one step of it, as a CUDA graph where that is possible."""

from alem.training.step import CaptureError, TrainingStep

__all__ = ["CaptureError", "TrainingStep"]
