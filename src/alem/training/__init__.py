"""Training: the loop, its recipe, its checkpoints, and one step as a CUDA graph where that is possible."""

from alem.training.batches import Batches
from alem.training.checkpoint import (
    CheckpointError,
    DamagedCheckpointError,
    load_checkpoint,
    read_header,
    read_tensors,
    save_checkpoint,
    save_tensors,
)
from alem.training.fit import Fitted, History, Part, Watch, are_shared, fit, predict, seeded
from alem.training.objective import (
    CLASSIFICATION,
    REGRESSION,
    WEIGHTED_CLASSIFICATION,
    Objective,
    weighted_labels,
)
from alem.training.recipe import Recipe
from alem.training.step import CaptureError, TrainingStep

__all__ = [
    "CLASSIFICATION",
    "REGRESSION",
    "WEIGHTED_CLASSIFICATION",
    "Batches",
    "CaptureError",
    "CheckpointError",
    "DamagedCheckpointError",
    "Fitted",
    "History",
    "Objective",
    "Part",
    "Recipe",
    "TrainingStep",
    "Watch",
    "are_shared",
    "fit",
    "load_checkpoint",
    "predict",
    "read_header",
    "read_tensors",
    "save_checkpoint",
    "save_tensors",
    "seeded",
    "weighted_labels",
]
