"""Norms over several processes are those of one with the whole batch: real processes, on one machine."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import distributed, multiprocessing

import alem.nn as an
from alem import geometry

from .sync_worker import SIZE, norms, run, shares, train, work

pytestmark = [
    pytest.mark.skipif(not distributed.is_available(), reason="torch was built without distributed"),
    pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning"),
]
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture(scope="module", params=[2, 4])
def found(request: Any, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each of the processes found."""
    folder = tmp_path_factory.mktemp("sync")
    multiprocessing.spawn(work, (request.param, str(folder)), nprocs=request.param)
    return [torch.load(Path(folder, f"{rank}.pt")) for rank in range(request.param)]


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("name", norms())
def test_outputs_gradients_and_statistics_are_those_of_one_process(
    name: str, uneven: bool, found: list[dict[str, Any]]
) -> None:
    alone = run(norms()[name], name, slice(0, SIZE))
    own = [of[f"{name}{', uneven' if uneven else ''}"] for of in found]
    for key, expected in alone.items():
        parts = [of[key] for of in own]
        # Outputs and gradients of inputs in parts; what belongs to the layer in every process.
        whole = [torch.cat(parts)] if key.startswith(("output", "gradient")) else parts
        for actual in whole:
            torch.testing.assert_close(actual, expected, **TOLERANCE)


def test_a_distributed_network_trains_as_one_process(found: list[dict[str, Any]]) -> None:
    alone = train(False, slice(0, SIZE))
    for of in found:
        for key, expected in alone.items():
            torch.testing.assert_close(of["network"][key], expected, **TOLERANCE)
        for key in alone:
            assert torch.equal(of["network"][key], found[0]["network"][key]), "ranks differ"


def test_a_layer_that_is_loaded_elsewhere_is_alone(found: list[dict[str, Any]]) -> None:
    layer = pickle.loads(found[0]["layer"])
    assert layer.group is None
    layer(geometry.sample_wishart(3, n=4))


def test_parts_cover_the_batch() -> None:
    for uneven in (False, True):
        places = torch.cat([torch.arange(SIZE)[part] for part in shares(4, uneven)])
        assert places.tolist() == list(range(SIZE))


def test_without_processes_there_is_nothing_to_convert_to() -> None:
    with pytest.raises(RuntimeError, match=r"call torch\.distributed\.init_process_group first"):
        an.convert_sync(an.LieBN(3, geometry.LogEuclidean()))
