"""Training: the loop, its recipe, its checkpoints, and one step as a CUDA graph where that is possible."""

from alem.training.batches import Batches
from alem.training.checkpoint import CheckpointError, load_checkpoint, read_header, save_checkpoint
from alem.training.fit import Fitted, History, Part, Watch, fit, predict, seeded
from alem.training.recipe import Recipe
from alem.training.step import CaptureError, TrainingStep

__all__ = [
    "Batches",
    "CaptureError",
    "CheckpointError",
    "Fitted",
    "History",
    "Part",
    "Recipe",
    "TrainingStep",
    "Watch",
    "fit",
    "load_checkpoint",
    "predict",
    "read_header",
    "save_checkpoint",
    "seeded",
]
