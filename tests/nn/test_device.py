"""Every layer on an accelerator equals the same layer on the CPU, and stays there."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from alem.testing.comparing import functionals

from .conftest import LAYERS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@pytest.mark.filterwarnings("ignore::alem.geometry.NotADiffeomorphismWarning")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layer", LAYERS)
def test_outputs_gradients_and_buffers_agree_with_the_cpu(
    layer: str, training: bool, dtype: torch.dtype
) -> None:
    case, results = LAYERS[layer], []
    built = case.build(training).to(dtype)
    for device in ("cpu", "cuda"):
        module = copy.deepcopy(built).to(device)
        X = case.X.detach().to(device, dtype).requires_grad_()
        Y = module(X)
        parameters = dict(module.named_parameters())
        grads = torch.autograd.grad(functionals(Y, 1).sum(), [X, *parameters.values()])
        everything = {"output": Y, "input": grads[0], **dict(zip(parameters, grads[1:], strict=True))}
        everything |= {f"buffer {name}": b for name, b in module.named_buffers()}
        assert all(value.device.type == device for value in everything.values())
        results.append({name: value.detach().cpu() for name, value in everything.items()})
    assert results[1]["output"].dtype == dtype
    for name, expected in results[0].items():
        close(results[1][name], expected, name, 1e-9 if dtype == torch.float64 else 5e-3)


def close(actual: Tensor, expected: Tensor, name: str, tolerance: float) -> None:
    off = float((actual - expected).abs().max())
    assert off <= tolerance * max(1.0, float(expected.abs().max())), f"{name} is off by {off:.3g}"
