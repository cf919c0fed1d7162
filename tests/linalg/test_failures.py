from __future__ import annotations

import pytest
import torch

from alem.linalg import ConvergenceError, failures

on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
DEVICES = ["cpu", pytest.param("cuda", marks=on_cuda)]


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_marks", {})


def codes(N: int, *failed: int, device: str = "cpu") -> torch.Tensor:
    info = torch.zeros(N, dtype=torch.int32, device=device)
    info[list(failed)] = 5
    return info


@pytest.mark.parametrize("device", DEVICES)
def test_failures_add_up_until_they_are_looked_at(device: str) -> None:
    failures.record(codes(10, device=device))
    failures.check_decompositions()
    failures.record(codes(10, 7, device=device))
    failures.record(codes(4, 3, device=device))
    failures.record(codes(10, 7, device=device))
    with pytest.raises(ConvergenceError, match=f"for 2 places .* matrix 3 of a batch on {device}"):
        failures.check_decompositions()
    failures.check_decompositions()


@pytest.mark.parametrize("device", DEVICES)
def test_batches_of_any_shape_and_size(device: str) -> None:
    failures.record(codes(0, device=device))
    failures.record(codes(1, device=device).reshape(()))
    failures.record(codes(6, 4, device=device).reshape(2, 3))
    failures.record(codes(5000, 4999, device=device))
    with pytest.raises(ConvergenceError, match=r"for 2 places .* matrix 4 of"):
        failures.check_decompositions()


def test_a_code_below_zero_counts() -> None:
    failures.record(-codes(3, 1))
    with pytest.raises(ConvergenceError, match=r"for 1 place of a batch .* matrix 1 of"):
        failures.check_decompositions()


def test_one_device_can_be_asked_for() -> None:
    failures.record(codes(3, 1))
    failures.check_decompositions("meta")
    with pytest.raises(ConvergenceError):
        failures.check_decompositions("cpu")


def test_marks_made_in_inference_mode_serve_outside() -> None:
    with torch.inference_mode():
        failures.record(codes(3, 1))
    failures.record(codes(3, 2))
    with pytest.raises(ConvergenceError, match="for 2 places"):
        failures.check_decompositions()


@on_cuda
def test_recording_does_not_wait_and_can_be_captured() -> None:
    info = codes(2000, device="cuda")
    failures.record(info)
    torch.cuda.set_sync_debug_mode("error")
    try:
        failures.record(info)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        failures.record(info)
    failures.record(codes(5000, device="cuda"))  # which makes a larger memory, beside the captured one
    graph.replay()
    failures.check_decompositions("cuda")
    info[17] = 1
    graph.replay()
    info.zero_()
    graph.replay()
    with pytest.raises(ConvergenceError, match=r"for 1 place of a batch .* matrix 17 of a batch on cuda:0"):
        failures.check_decompositions("cuda")
    failures.check_decompositions("cuda")


@on_cuda
def test_a_capture_without_a_step_before_it_is_refused() -> None:
    info, refused = codes(10, device="cuda"), []
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        try:
            failures.record(info)
        except RuntimeError as error:
            refused.append(str(error))
        info.zero_()
    assert "run it once outside" in refused[0]
