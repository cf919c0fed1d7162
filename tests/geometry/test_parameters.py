from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from alem.geometry import Constrained, spd_parameter, stiefel_parameter
from alem.linalg import InvalidMatrixError, NotPositiveDefiniteError

from .conftest import spd
from .test_manifolds import orthonormal


class Layer(Constrained):
    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.weight = stiefel_parameter(orthonormal(3, 5, dtype=dtype))
        self.bias = spd_parameter(spd(n=3, dtype=dtype))

    def forward(self, X: Tensor) -> Tensor:
        return self.weight @ X @ self.weight.mT + self.bias


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (2, 3, 5)])
def test_parameters_are_parameters(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for p in (stiefel_parameter(orthonormal(*shape, dtype=dtype)), spd_parameter(spd(2, dtype=dtype))):
        assert isinstance(p, nn.Parameter)
        assert p.requires_grad
        assert p.is_leaf
        assert p.dtype == dtype


def test_an_spd_parameter_is_symmetric_to_the_bit() -> None:
    P = spd()
    P[0, 1] += 1e-12
    p = spd_parameter(P)
    assert torch.equal(p, p.mT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3, 5), (5, 3)])
def test_a_matrix_that_is_not_orthonormal_is_refused(shape: tuple[int, int], dtype: torch.dtype) -> None:
    W, tolerance = orthonormal(*shape, dtype=dtype), torch.finfo(dtype).eps ** 0.5
    # ‖(sW)(sW)ᵀ − I‖ = (s² − 1)√3: just inside and just outside
    for excess in (0.9, -0.9):
        stiefel_parameter((1 + excess * tolerance / 3**0.5) ** 0.5 * W)
    for excess in (1.1, -1.1):
        with pytest.raises(InvalidMatrixError, match=r"orthonormal (rows|columns).*orthogonal_"):
            stiefel_parameter((1 + excess * tolerance / 3**0.5) ** 0.5 * W)


def test_a_bad_matrix_of_a_batch_is_named() -> None:
    W = orthonormal(4, 3, 5)
    W[2] *= 2
    with pytest.raises(InvalidMatrixError, match="matrix 2") as error:
        stiefel_parameter(W)
    assert error.value.index == (2,)
    with pytest.raises(InvalidMatrixError, match="NaN"):
        stiefel_parameter(W * torch.nan)
    with pytest.raises(InvalidMatrixError, match="float32 or float64"):
        stiefel_parameter(orthonormal(3, 5).half())
    with pytest.raises(InvalidMatrixError, match=r"\(\.\.\., p, n\)"):
        stiefel_parameter(torch.ones(3))


def test_a_matrix_that_is_not_spd_is_refused() -> None:
    with pytest.raises(NotPositiveDefiniteError):
        spd_parameter(-torch.eye(3))
    with pytest.raises(InvalidMatrixError, match="symmetric"):
        spd_parameter(torch.eye(3) + torch.ones(3, 3).tril())


def test_meta_parameters_can_be_made() -> None:
    assert stiefel_parameter(torch.empty(3, 5, device="meta")).is_meta
    assert spd_parameter(torch.empty(3, 3, device="meta")).is_meta


def test_copies_keep_the_manifold_whatever_the_values() -> None:
    layer = Layer()
    with torch.no_grad():  # as far from the manifold as nothing here would leave it
        layer.weight.mul_(1.1)
        layer.bias.neg_()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer).double()):
        assert twin.weight.manifold.name == "Stiefel"
        assert twin.bias.manifold.name == "SPD"
        assert isinstance(twin.weight, nn.Parameter)
        torch.testing.assert_close(twin.weight.float(), layer.weight)


def test_a_state_dict_is_saved_and_loaded_as_plain_tensors() -> None:
    layer, other = Layer(), Layer()
    with torch.no_grad():
        layer.bias.mul_(2.0)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other.bias, layer.bias)
    assert other.bias.manifold.name == "SPD"


def assert_constrained(layer: Layer) -> None:
    assert layer.weight.manifold.name == "Stiefel"
    assert layer.bias.manifold.name == "SPD"
    assert list(layer.state_dict()) == ["weight", "bias"]


@pytest.mark.parametrize("keep_vars", [False, True])
def test_an_assigned_state_keeps_the_manifold(keep_vars: bool) -> None:
    source, layer = Layer(torch.float64), nn.Sequential(Layer().requires_grad_(False))
    layer[0].bias.requires_grad_(True)
    state = {f"0.{key}": value for key, value in source.state_dict(keep_vars=keep_vars).items()}
    layer.load_state_dict(state, assign=True)
    assert_constrained(layer[0])
    assert torch.equal(layer[0].weight, source.weight)
    assert [p.requires_grad for p in layer.parameters()] == [False, True]


def test_leaving_the_meta_device_keeps_the_manifold() -> None:
    layer = Layer().to("meta")
    assert_constrained(layer)
    layer = layer.to_empty(device="cpu")
    assert_constrained(layer)
    assert not layer.weight.is_meta
    layer.load_state_dict(Layer().state_dict())


def test_swapped_parameters_keep_the_manifold_and_their_identity() -> None:
    layer = Layer()
    weight = layer.weight
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer.double().load_state_dict(Layer().state_dict())
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert_constrained(layer)
    assert layer.weight is weight
    assert weight.dtype == torch.float64


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_off_the_manifold_is_refused(dtype: torch.dtype, assign: bool) -> None:
    """Beyond √eps of single precision, in which a state may have been made."""
    layer, tolerance = Layer(dtype), torch.finfo(torch.float32).eps ** 0.5
    before = {key: value.clone() for key, value in layer.state_dict().items()}

    def load(**changes: Tensor) -> None:
        nn.ModuleDict({"map": layer}).load_state_dict(
            {f"map.{key}": value for key, value in {**before, **changes}.items()}, assign=assign
        )

    for excess in (1.1, -1.1):  # ‖(sW)(sW)ᵀ − I‖ = |s² − 1|√3
        with pytest.raises(RuntimeError, match=r'"map.weight" is not on the manifold Stiefel: ‖WWᵀ − I‖'):
            load(weight=before["weight"] * (1 + excess * tolerance / 3**0.5) ** 0.5)
    with pytest.raises(RuntimeError, match=r'"map.bias" is not on the manifold SPD: it is not positive'):
        load(bias=-before["bias"])
    with pytest.raises(RuntimeError, match=r'"map.bias" is not on the manifold SPD: the skew part'):
        load(bias=before["bias"] + 0.01 * torch.ones(3, 3, dtype=dtype).tril(-1))
    with pytest.raises(RuntimeError, match=r'"map.weight" .* NaN'):
        load(weight=torch.nan * before["weight"])
    with pytest.raises(RuntimeError, match=r"size mismatch for map\.weight"):
        load(weight=torch.eye(5, dtype=dtype))
    assert_constrained(layer)
    for key, value in layer.state_dict().items():
        assert torch.equal(value, before[key])
    for excess in (0.9, -0.9):
        load(weight=before["weight"] * (1 + excess * tolerance / 3**0.5) ** 0.5)


def test_dtype_and_back() -> None:
    layer = Layer(torch.float64).to(torch.float32)
    assert layer.weight.dtype == torch.float32
    assert layer.weight.manifold.name == "Stiefel"


def test_a_module_with_such_parameters_compiles() -> None:
    layer, X = Layer(), spd(4, n=5, dtype=torch.float32)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    expected = torch.autograd.grad(layer(X).square().sum(), list(layer.parameters()))
    found = torch.autograd.grad(compiled(X).square().sum(), list(layer.parameters()))
    torch.testing.assert_close(compiled(X), layer(X))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_geoopt_is_imported_when_it_is_needed() -> None:
    code = "import sys, alem.geometry, alem.optim; sys.exit('geoopt' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
