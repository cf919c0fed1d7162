from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor

from alem.linalg import cusolver

DTYPES = [torch.float32, torch.float64]
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")


@pytest.fixture(autouse=True)
def _solver(request: pytest.FixtureRequest) -> None:
    if torch.cuda.is_available() and cusolver._library() is None:
        pytest.skip("this cuSOLVER has no batched eigensolver")


def rotated(values: Tensor, seed: int = 0) -> Tensor:
    """U diag(values) Uᵀ `(..., n, n)` in float64, exactly symmetric."""
    generator = torch.Generator().manual_seed(seed)
    n = values.shape[-1]
    U = torch.linalg.qr(torch.randn(*values.shape, n, generator=generator, dtype=torch.float64))[0]
    X = (U * values[..., None, :]) @ U.mT
    return (X + X.mT) / 2


def spectrum(kind: str, n: int) -> Tensor:
    i = torch.arange(n, dtype=torch.float64)
    return {
        "well conditioned": 1 + i / n,
        "indefinite": i - n / 2,
        "rank deficient": (i >= n // 2) * (1 + i),
        "clustered": 1 + (i >= n // 2) + 1e-9 * i,
        "one value": torch.full_like(i, 3.0),
        "graded": 10 ** (-8 * i / n),
        "zero": torch.zeros_like(i),
    }[kind]


def check(X: Tensor, values: Tensor, U: Tensor, info: Tensor) -> None:
    """The decomposition is one, as well as rounding allows."""
    n, eps = X.shape[-1], torch.finfo(X.dtype).eps
    assert values.dtype == U.dtype == X.dtype
    assert info.dtype == torch.int32
    assert values.shape == X.shape[:-1]
    assert U.shape == X.shape
    assert info.shape == X.shape[:-2]
    assert not info.any()
    assert bool((values.diff(dim=-1) >= 0).all())
    A, U, values = X.double().cpu(), U.double().cpu(), values.double().cpu()
    A = A.tril() + A.tril(-1).mT
    size = A.norm(dim=(-2, -1)).clamp(min=torch.finfo(torch.float64).tiny)
    tolerance = 4 * eps * max(n, 8) ** 0.5
    assert bool((((U * values[..., None, :]) @ U.mT - A).norm(dim=(-2, -1)) <= 2 * tolerance * size).all())
    assert float((U.mT @ U - torch.eye(n, dtype=torch.float64)).abs().max()) <= 4 * tolerance
    off = (values - torch.linalg.eigvalsh(A)).abs().amax(-1)
    assert bool((off <= tolerance * size).all())


@on_cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 32, 33, 64, 93, 129])
@pytest.mark.parametrize(
    "kind",
    ["well conditioned", "indefinite", "rank deficient", "clustered", "one value", "graded", "zero"],
)
def test_it_decomposes(kind: str, n: int, dtype: torch.dtype) -> None:
    X = rotated(spectrum(kind, n).expand(5, n)).to("cuda", dtype)
    check(X, *cusolver.eigh(X))


@on_cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e15])
def test_it_decomposes_what_is_tiny_or_huge(scale: float, dtype: torch.dtype) -> None:
    X = scale * rotated(spectrum("indefinite", 40).expand(3, 40)).to("cuda", dtype)
    check(X, *cusolver.eigh(X))


@on_cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 32, 33, 128, 129, 257, 300])
@pytest.mark.parametrize("N", [1, 2, cusolver.ALONE - 1, cusolver.ALONE])
def test_batches_at_the_edges_of_the_rules(N: int, n: int, dtype: torch.dtype) -> None:
    X = rotated(spectrum("indefinite", n).expand(N, n)).to("cuda", dtype)
    check(X, *cusolver.eigh(X))
    values, U, _ = cusolver.eigh(X[0])
    check(X[0], values, U, cusolver.eigh(X[0])[2])


@on_cuda
def test_eigenvalues_alone() -> None:
    X = rotated(spectrum("graded", 40).expand(3, 40)).cuda()
    values, U, info = cusolver.eigh(X, vectors=False)
    assert U is None
    assert not info.any()
    torch.testing.assert_close(values, cusolver.eigh(X)[0], rtol=1e-13, atol=1e-13)


@on_cuda
@pytest.mark.parametrize("n", [2, 32, 33, 150])
def test_only_the_lower_triangle_is_read_and_nothing_is_written(n: int) -> None:
    X = rotated(spectrum("indefinite", n).expand(3, n)).cuda()
    expected = cusolver.eigh(X)
    X += torch.full_like(X, torch.nan).triu(1)
    before = X.clone()
    for actual, value in zip(cusolver.eigh(X), expected, strict=True):
        assert torch.equal(actual, value)
    assert torch.equal(X.nan_to_num(7.0), before.nan_to_num(7.0))


@on_cuda
@pytest.mark.parametrize(
    "view",
    [
        lambda X: X.mT,
        lambda X: X[::2],
        lambda X: X[:, 3:20, 3:20],
        lambda X: X[0],
        lambda X: X[0].expand(4, 3, 40, 40),
        lambda X: X.reshape(2, 3, 40, 40).transpose(0, 1),
        lambda X: X.movedim(0, -1).contiguous().movedim(-1, 0),
    ],
)
def test_any_strides(view: object) -> None:
    X = view(rotated(spectrum("indefinite", 40).expand(6, 40)).cuda())  # type: ignore[operator]
    check(X, *cusolver.eigh(X))


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 5, 5), (0, 0), (4, 0, 0)])
def test_nothing_to_decompose(shape: tuple[int, ...]) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    values, U, info = cusolver.eigh(torch.empty(shape, device=device))
    assert U is not None
    assert (values.shape, U.shape, info.shape) == (shape[:-1], shape, shape[:-2])
    assert not info.any()


@on_cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [2, 5, 40, 150])
def test_a_nan_gives_nan_a_code_and_leaves_the_others(n: int, dtype: torch.dtype) -> None:
    places = [(i, j) for i in (0, n // 2, n - 1) for j in (0, n // 2, n - 1) if j <= i]
    X = rotated(spectrum("indefinite", n).expand(2 * len(places), n)).to("cuda", dtype)
    for k, (i, j) in enumerate(places):
        X[2 * k, i, j] = torch.nan
    values, _, info = cusolver.eigh(X)
    assert bool(values[::2].isnan().all())
    assert bool((info[::2] != 0).all())
    check(X[1::2], values[1::2], cusolver.eigh(X[1::2])[1], info[1::2])


@on_cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("cap", "most"), [(1, 10**9), (2**22, 10**9), (2**40, 3), (2**40, 1)])
def test_a_batch_in_parts(cap: int, most: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rotated(spectrum("indefinite", 40).expand(7, 40)).to("cuda", dtype)
    expected = cusolver.eigh(X)[0]
    monkeypatch.setattr(cusolver, "WORKSPACE", cap)
    monkeypatch.setattr(cusolver, "BATCH", most)
    values, U, info = cusolver.eigh(X)
    check(X, values, U, info)
    torch.testing.assert_close(values, expected, rtol=1e-5, atol=1e-5)


@on_cuda
def test_memory_stays_under_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rotated(spectrum("indefinite", 30).expand(500, 30)).float().cuda()
    cusolver.eigh(X[:2])
    monkeypatch.setattr(cusolver, "WORKSPACE", 2**25)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    cusolver.eigh(X)
    assert torch.cuda.max_memory_allocated() - before <= 2**25 + 3 * X.nbytes


@on_cuda
def test_more_matrices_than_one_call_takes() -> None:
    X = rotated(spectrum("indefinite", 3).expand(70_000, 3)).float().cuda()
    check(X, *cusolver.eigh(X))


@on_cuda
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("N", "n"), [(6, 20), (6, 93), (1, 20), (1, 93), (1, 300), (3, 300), (12, 300)])
def test_it_does_not_wait_and_can_be_captured(N: int, n: int, dtype: torch.dtype) -> None:
    X = rotated(spectrum("indefinite", n).expand(N, n)).to("cuda", dtype)
    other = rotated(spectrum("graded", n).expand(N, n), seed=1).to("cuda", dtype)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        cusolver.eigh(X)
        torch.cuda.set_sync_debug_mode("error")
        try:
            result = cusolver.eigh(X)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    torch.cuda.current_stream().wait_stream(stream)
    check(X, *result)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = cusolver.eigh(X)
    for value in (X.clone(), other):
        X.copy_(value)
        graph.replay()
        check(X, *captured)


@on_cuda
def test_threads_have_handles_of_their_own() -> None:
    X = rotated(spectrum("indefinite", 40).expand(6, 40)).cuda()
    expected, results = cusolver.eigh(X)[0], []

    def work() -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            values = [cusolver.eigh(X)[0] for _ in range(20)]
            torch.cuda.current_stream().synchronize()
            results.extend(values)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 80
    assert all(torch.equal(values, expected) for values in results)


@on_cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one CUDA device here")
def test_a_device_that_is_not_the_current_one() -> None:
    X = rotated(spectrum("indefinite", 40).expand(6, 40)).to("cuda:1")
    check(X, *cusolver.eigh(X))
    assert torch.cuda.current_device() == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_cuda_it_is_not_preferred_and_says_so() -> None:
    assert not cusolver.prefers(torch.eye(3))
    with pytest.raises(RuntimeError, match="no cusolverDnXsyevBatched"):
        cusolver.eigh(torch.eye(3))


def test_a_status_of_cusolver_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"cusolverDnCreate of cuSOLVER returned 7 \(internal error\)"):
        cusolver._check("cusolverDnCreate", 7)
