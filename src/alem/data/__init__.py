"""Readers with one contract: matrices, labels, split and names, for the files as they are."""

from alem.data.afew import read_afew
from alem.data.dataset import Dataset, dataset
from alem.data.digits import digits
from alem.data.errors import DataError
from alem.data.folder import read_folder
from alem.data.fpha import read_fpha
from alem.data.hdm05 import read_hdm05
from alem.data.load import READERS, load
from alem.data.moabb import from_moabb
from alem.data.ntu60 import read_ntu60
from alem.data.repair import Repairs, repair
from alem.data.save import save
from alem.data.save_blocks import save_blocks
from alem.data.signals import Windows, covariances, from_signals
from alem.data.store import read_npz

__all__ = [
    "READERS",
    "DataError",
    "Dataset",
    "Repairs",
    "Windows",
    "covariances",
    "dataset",
    "digits",
    "from_moabb",
    "from_signals",
    "load",
    "read_afew",
    "read_folder",
    "read_fpha",
    "read_hdm05",
    "read_npz",
    "read_ntu60",
    "repair",
    "save",
    "save_blocks",
]
