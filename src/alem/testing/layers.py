"""The contract of a layer on matrices."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from alem.testing.case import LayerCase, gradients, mode, trainable
from alem.testing.comparing import (
    require,
    require_close,
    require_finite,
    require_gradients,
    require_spd,
    saying,
)
from alem.testing.spectra import tied_spectra
from alem.testing.training import STEPS, require_known, require_moved, train

EXACT, SINGLE = 1e-9, 5e-3  # relative to the largest entry; SINGLE leaves room for ill-conditioned inputs


def assert_layer(
    make: Callable[[], nn.Module],
    X: Tensor,
    *,
    spd: bool = True,
    train: bool = True,
    smooth: bool = True,
    unmoved: tuple[str, ...] = (),
    compile: bool = False,
) -> None:
    """Raise AssertionError unless the layer keeps the contract: every check of ``LAYER_CHECKS``.

    The arguments are those of :class:`LayerCase`; ``compile`` checks ``torch.compile`` as well.
    """
    case = LayerCase(make, X, spd, train, smooth, unmoved)
    for name, check in LAYER_CHECKS.items():
        if compile or name != "compile":
            check(case)


def check_making(case: LayerCase) -> None:
    """``make`` gives a new layer each time, which shares no parameter with the one before."""
    first, second = case.build(training=True), case.build(training=True)
    require(first is not second, "make returns the same layer twice: it must build a new one in each call")
    others = {id(p) for p in second.parameters()}
    shared = [name for name, p in first.named_parameters() if id(p) in others]
    require(
        not shared, f"the layers that make returns share {shared}: it must build these, too, in each call"
    )


def check_outputs(case: LayerCase) -> None:
    """Outputs are finite, have the dtype, device and batch size of the input, and are SPD if said so."""
    X = case.X
    for training in case.modes:
        Y = case.run(case.build(training), X)
        what = f"outputs in {mode(training)}"
        require(Y.dtype == X.dtype, f"{what}: {Y.dtype} from {X.dtype}")
        require(Y.device == X.device, f"{what}: on {Y.device} from {X.device}")
        fits = Y.ndim > 0 and len(Y) == len(X)
        require(fits, f"{what}: shape {tuple(Y.shape)} from a batch of {len(X)}")
        require_finite(Y, what)
        if case.spd:
            require_spd(Y, what)


def check_leading_dimensions(case: LayerCase) -> None:
    """Any leading dimensions do, also none and no matrices; in training a batch of one, with gradients."""
    X, N, entry = case.X, len(case.X), case.X.shape[1:]
    layer = case.build()
    Y = case.run(layer, X)
    require_close(case.run(layer, X[0]), Y[0], "a single input against the first of the batch", EXACT)
    require_close(case.run(layer, X[:0]), Y[:0], "an empty batch", EXACT)
    shapes = [(1, N), (N, 1), *([(2, N // 2)] if N % 2 == 0 else [])]
    for training in case.modes:
        flat = case.run(case.build(training), X)
        for leading in shapes:
            got = case.run(case.build(training), X.reshape(*leading, *entry))
            what = f"leading dimensions {leading} in {mode(training)}"
            require_close(got, flat.reshape(*leading, *flat.shape[1:]), what, EXACT)
    if case.train:
        layer, one = case.build(training=True), X[:1].clone().requires_grad_()
        Y = case.run(layer, one)
        require_finite(Y, "a batch of one in training")
        for name, grad in gradients(layer, one, Y).items():
            require_finite(grad, f"{name} for a batch of one in training")


def check_gradients(case: LayerCase) -> None:
    """Derivatives by the input and by every parameter are those of finite differences."""
    _gradcheck(case, case.X, "derivatives")


def check_ties(case: LayerCase) -> None:
    """Where eigenvalues of the inputs repeat, gradients are finite, and right if the layer is smooth."""
    if not case.symmetric:
        return
    X = tied_spectra(case.X)
    for training in case.modes:
        layer, leaf = case.build(training), X.clone().requires_grad_()
        for name, grad in gradients(layer, leaf, case.run(layer, leaf)).items():
            require_finite(grad, f"{name} at repeated eigenvalues in {mode(training)}")
    if case.smooth:
        _gradcheck(case, X, "derivatives at repeated eigenvalues")


def check_training(case: LayerCase) -> None:
    """In a few steps of RiemannianSGD gradients are finite, parameters move and stay on their manifolds.

    Frozen ones stay where they are.
    """
    layer = case.build(training=case.train)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    require_known(list(before), case.unmoved)
    train(case, layer)
    for name, p in layer.named_parameters():
        if p.requires_grad:
            require_moved(name, before[name], p.detach(), case.unmoved)
        else:
            require(
                torch.equal(before[name], p), f"{name} is frozen and moved in {STEPS} steps of training"
            )
        if hasattr(p, "manifold"):
            on, why = p.manifold.check_point_on_manifold(p.detach(), explain=True, atol=EXACT, rtol=EXACT)
            require(on, f"{name} has left its manifold {p.manifold} after {STEPS} steps: {why}")


def check_state_dict(case: LayerCase) -> None:
    """A state, trained, saved and loaded into a new layer, gives the same outputs to the last bit."""
    layer = case.build(training=case.train)
    train(case, layer)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    fresh = case.build()
    with saying("loading a saved state"):
        fresh.load_state_dict(torch.load(file, weights_only=True), strict=True)
    same = torch.equal(case.run(fresh, case.X), case.run(layer.eval(), case.X))
    require(
        same, "a layer that was saved and loaded gives other outputs: state_dict does not hold all of it"
    )


def check_copies(case: LayerCase) -> None:
    """Copies by deepcopy and pickle compute the same, can be trained, and leave the original alone."""
    makers: dict[str, Callable[[nn.Module], nn.Module]] = {
        "deepcopy": copy.deepcopy,
        "pickle": lambda layer: pickle.loads(pickle.dumps(layer)),
    }
    layer = case.build()
    Y = case.run(layer, case.X)
    for kind, duplicate in makers.items():
        with saying(f"a copy by {kind}"):
            twin = duplicate(layer)
        require(torch.equal(case.run(twin, case.X), Y), f"a copy by {kind} gives other outputs")
        for (name, p), q in zip(layer.named_parameters(), twin.parameters(), strict=True):
            was, now = _kind(p), _kind(q)
            require(was == now, f"{name} is {was}, and in a copy by {kind} {now}")
        train(case, twin.train(case.train))
        same = torch.equal(case.run(layer, case.X), Y)
        require(same, f"training a copy by {kind} changes the original: they share something")


def check_precision(case: LayerCase) -> None:
    """In float32 it gives float32, near what it gives in float64, and it can be converted back."""
    for training in case.modes:
        expected = case.run(case.build(training), case.X)
        for what, layer, X in (
            ("float32", case.build(training).float(), case.X.float()),
            ("float32 and back", case.build(training).float().double(), case.X),
        ):
            Y = case.run(layer, X)
            where = f"{what} in {mode(training)}"
            require(Y.dtype == X.dtype, f"{where}: the output is {Y.dtype}")
            require_close(Y.double(), expected, where, SINGLE)


def check_evaluation(case: LayerCase) -> None:
    """Evaluation gives the same twice, whatever else is in the batch, and changes no state."""
    layer = case.build()
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    first, second = layer(case.X), layer(case.X)
    require(
        torch.equal(first, second),
        "two passes in evaluation differ: it draws random numbers or keeps state",
    )
    require_close(
        case.run(layer, case.X[:1]), first[:1], "the first of the batch without the others", EXACT
    )
    for name, value in layer.state_dict().items():
        require(torch.equal(value, before[name]), f"{name} changes in evaluation")


def check_compile(case: LayerCase) -> None:
    """One compiled graph without breaks equals eager mode in outputs, gradients and buffers."""
    for training in case.modes:
        torch.compiler.reset()  # each layer is a new version of the same forward
        results = []
        for compiled in (False, True):
            layer, X = case.build(training), case.X.clone().requires_grad_()
            run = torch.compile(layer, fullgraph=True, backend="aot_eager") if compiled else layer
            Y = case.run(cast(nn.Module, run), X)
            with saying("the backward pass"):
                results.append({"the output": Y, **gradients(layer, X, Y), **dict(layer.named_buffers())})
        for name, expected in results[0].items():
            what = f"{name}, compiled, in {mode(training)}"
            require_close(results[1][name].double(), expected.double(), what, EXACT)


LAYER_CHECKS: dict[str, Callable[[LayerCase], None]] = {
    "making": check_making,
    "outputs": check_outputs,
    "leading dimensions": check_leading_dimensions,
    "gradients": check_gradients,
    "ties": check_ties,
    "training": check_training,
    "state_dict": check_state_dict,
    "copies": check_copies,
    "precision": check_precision,
    "evaluation": check_evaluation,
    "compile": check_compile,
}


def _gradcheck(case: LayerCase, X: Tensor, what: str) -> None:
    for training in case.modes:
        layer = case.build(training)
        parameters = trainable(layer)
        where = f"{what} in {mode(training)} (inputs: X, {', '.join(parameters)})"
        require_gradients(case.as_function(layer), [X, *parameters.values()], where)


def _kind(p: Tensor) -> str:
    """What a parameter is, on which manifold, and whether it is frozen."""
    manifold = getattr(p, "manifold", None)
    kind = type(p).__name__ + (f" on {manifold}" if manifold is not None else "")
    return kind if p.requires_grad else f"frozen {kind}"
