"""The eigensolver of native/ by itself: every instruction set of this machine, every width."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from alem import linalg
from alem.linalg import native
from tests.linalg.points import random, random_spd, random_symmetric, with_spectrum

pytestmark = [
    pytest.mark.skipif(not native.instruction_sets(), reason="the native eigensolver was not built"),
    # Of Python 3.12 and later: that a process with threads forks is what is tested.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

DTYPES = [torch.float32, torch.float64]
REGISTER = {"avx512": 64, "avx2": 32, "baseline": 16, "neon": 16}  # bytes; the least is 16
N = 19  # a pack of sixteen and a few

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype)[6:])
isas = pytest.mark.parametrize("isa", native.instruction_sets())


def widths(isa: str, dtype: torch.dtype) -> list[int]:
    """The numbers of lanes there are, the most first."""
    return [bytes_ // dtype.itemsize for bytes_ in (64, 32, 16) if bytes_ <= REGISTER[isa]]


def solvers(dtype: torch.dtype) -> Iterator[tuple[str, int]]:
    return ((isa, lanes) for isa in native.instruction_sets() for lanes in (0, *widths(isa, dtype)))


def assert_same_bits(*pairs: tuple[Tensor, Tensor]) -> None:
    for a, b in pairs:
        integer = {4: torch.int32, 8: torch.int64}[a.itemsize]
        assert a.shape == b.shape
        assert torch.equal(a.contiguous().view(integer), b.contiguous().view(integer))


def assert_same(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> None:
    assert_same_bits(*zip(a, b, strict=True))


@pytest.fixture
def threads() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


# --- accuracy ------------------------------------------------------------------------------------


def tridiagonal(diagonal: Tensor, off: float) -> Tensor:
    beside = torch.full_like(diagonal[1:], off)
    return torch.diag(diagonal) + torch.diag(beside, 1) + torch.diag(beside, -1)


def matrices(kind: str, n: int, dtype: torch.dtype) -> Tensor:
    """A batch `(N, n, n)`, exactly symmetric."""
    A = random(N, n, n, seed=n)
    Q, wishart = torch.linalg.qr(A).Q, A @ A.mT / n
    i, limits = torch.arange(n, dtype=torch.float64), torch.finfo(dtype)
    grades = torch.logspace(0, -30, n, dtype=torch.float64)
    largest, low_rank = torch.zeros(n, n, dtype=torch.float64), A[..., : max(1, n // 3)]
    largest[n - 1, 0] = largest[0, n - 1] = 1e30
    X = {
        "wishart": lambda: wishart,
        "indefinite": lambda: A + A.mT,
        "rank deficient": lambda: low_rank @ low_rank.mT,
        "rank one": lambda: torch.ones_like(A),
        "identity": lambda: torch.eye(n).expand(N, n, n),
        "zero": lambda: torch.zeros_like(A),
        "diagonal": lambda: torch.diag_embed(A[:, 0]),
        "toeplitz": lambda: tridiagonal(torch.full_like(i, 2), -1.0).expand(N, n, n),
        "wilkinson": lambda: tridiagonal((i - (n - 1) / 2).abs(), 1.0).expand(N, n, n),
        "graded": lambda: (Q * torch.logspace(-12, 0, n, dtype=torch.float64)) @ Q.mT,
        "clustered": lambda: (Q * (1 + 1e-9 * A[:, :1].abs())) @ Q.mT,
        "two clusters": lambda: (Q * torch.where(i < n // 2, 1e-4, 1.0)) @ Q.mT,
        "graded downwards": lambda: grades[:, None] * wishart * grades,
        "graded upwards": lambda: grades.flip(0)[:, None] * wishart * grades.flip(0),
        "huge on the diagonal": lambda: wishart + 1e30 * torch.diag((i == n // 2).double()),
        "huge in a corner": lambda: wishart + largest,
        "1e20": lambda: 1e20 * wishart,
        "1e30": lambda: 1e30 * wishart,
        "1e-25": lambda: 1e-25 * wishart,
        "1e-30": lambda: 1e-30 * wishart,
        "as large as can be": lambda: limits.max / 64 * wishart,
        "the smallest normal": lambda: limits.tiny * wishart,
        "subnormal": lambda: 1e-3 * limits.tiny * wishart,
    }[kind]()
    return ((X + X.mT) / 2 if kind != "as large as can be" else X / 2 + X.mT / 2).to(dtype)


def errors(X: Tensor, values: Tensor, U: Tensor) -> tuple[Tensor, Tensor]:
    """|UΛUᵀ − X|/|X| and |UᵀU − I| of each matrix, in units of the last place of its dtype.

    A matrix that is smaller than the smallest normal number has its digits, and so has the result.
    """
    limits, n = torch.finfo(X.dtype), X.shape[-1]
    size = X.abs().amax((-2, -1), keepdim=True).clamp(min=limits.tiny).double()
    # By a power of two, in two steps, so that nothing is lost where doubles end.
    power = torch.frexp(size).exponent
    steps = [torch.ldexp(torch.ones_like(size), -part) for part in (power // 2, power - power // 2)]
    X, values, U = X.double(), values.double()[..., None, :], U.double()
    for step in steps:
        X, values, size = X * step, values * step, size * step
    reconstruction = ((U * values) @ U.mT - X).norm(dim=(-2, -1))
    length = torch.maximum(X.norm(dim=(-2, -1)), size[..., 0, 0])
    orthogonality = (U.mT @ U - torch.eye(n, dtype=torch.float64)).norm(dim=(-2, -1))
    return reconstruction / length / limits.eps, orthogonality / limits.eps


KINDS = [
    *("wishart", "indefinite", "rank deficient", "rank one", "identity", "zero", "diagonal", "toeplitz"),
    *("wilkinson", "graded", "clustered", "two clusters", "graded downwards", "graded upwards"),
    *("huge on the diagonal", "huge in a corner", "1e20", "1e30", "1e-25", "1e-30"),
    *("as large as can be", "the smallest normal", "subnormal"),
]


@dtypes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 16, 21, 30, 33, 64, 93])
def test_it_is_as_accurate_as_lapack(kind: str, n: int, dtype: torch.dtype) -> None:
    """And its vectors are more orthogonal. The terms beside LAPACK's are for the luck of a small batch."""
    X = matrices(kind, n, dtype)
    try:
        lapack = torch.linalg.eigh(X)
    except torch.linalg.LinAlgError:  # of the graded ones in float32, some
        lapack = None
    reference = torch.linalg.eigvalsh(X.double()) if dtype == torch.float32 else None
    for isa in native.instruction_sets():
        values, U, info = native.eigh(X, isa=isa, lanes=widths(isa, dtype)[0])
        assert not info.any()
        assert values.dtype == U.dtype == dtype
        assert bool((values.diff(dim=-1) >= 0).all())
        found = errors(X, values, U)
        for error in found:  # LAPACK's own tests ask for 30n
            assert float(error.max()) <= 10 * n, isa
        if lapack is not None:
            for error, theirs, luck in zip(found, errors(X, *lapack), (1.0, 0.5), strict=True):
                assert float(error.mean()) <= float(theirs.mean()) + luck * n**0.5, isa
        if reference is not None:
            size = reference.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(dtype).tiny)
            off = (values.double() - reference) / size / torch.finfo(dtype).eps
            assert float(off.abs().max()) <= 10 + n  # of 3×3 matrices LAPACK is off by 8 at times
        for lanes in widths(isa, dtype)[1:]:
            assert_same(native.eigh(X, isa=isa, lanes=lanes), (values, U, info))


@dtypes
def test_the_pairs_of_wilkinson_s_matrix_are_told_apart(dtype: torch.dtype) -> None:
    """The two largest eigenvalues of W21+ agree to fourteen digits."""
    X = tridiagonal((torch.arange(21, dtype=torch.float64) - 10).abs(), 1.0).to(dtype).expand(3, 21, 21)
    for isa, lanes in solvers(dtype):
        values, U, info = native.eigh(X, isa=isa, lanes=lanes)
        assert not info.any()
        assert float(values[0, -1]) == pytest.approx(10.746194182903, rel=20 * torch.finfo(dtype).eps)
        assert float(errors(X, values, U)[1].max()) <= 10 * 21


# --- what is read, and what comes back -----------------------------------------------------------


@dtypes
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_gives_nan_and_a_code_and_leaves_the_others(
    value: float, dtype: torch.dtype
) -> None:
    n = 6
    places = [(i, j) for i in range(n) for j in range(i + 1)]
    X = random_symmetric(2 * len(places) + 1, n).to(dtype)
    bad = X.clone()
    for k, (i, j) in enumerate(places):
        bad[2 * k + 1, i, j] = value
    for isa, lanes in solvers(dtype):
        expected = native.eigh(X, isa=isa, lanes=lanes)
        values, U, info = native.eigh(bad, isa=isa, lanes=lanes)
        assert bool((info[1::2] == native.NOT_FINITE).all())
        assert bool(values[1::2].isnan().all())
        assert bool(U[1::2].isnan().all())
        assert_same((values[::2], U[::2], info[::2]), tuple(x[::2] for x in expected))
        alone = native.eigh(bad, vectors=False, isa=isa, lanes=lanes)
        assert_same_bits((alone[0], values), (alone[2], info))


@dtypes
@pytest.mark.parametrize("n", [2, 5, 33])
def test_only_the_lower_triangle_is_read_and_nothing_is_written(n: int, dtype: torch.dtype) -> None:
    X = random_symmetric(N, n).to(dtype)
    hidden = X + torch.full_like(X, torch.nan).triu(1)
    before = hidden.clone()
    for isa, lanes in solvers(dtype):
        assert_same(native.eigh(hidden, isa=isa, lanes=lanes), native.eigh(X, isa=isa, lanes=lanes))
        assert torch.equal(
            native.exceeds(hidden, -0.5, isa=isa, lanes=lanes),
            native.exceeds(X, -0.5, isa=isa, lanes=lanes),
        )
    assert_same_bits((hidden, before))


@dtypes
@pytest.mark.parametrize(
    "view",
    [
        lambda X: X.mT,
        lambda X: X[::2],
        lambda X: X[:, ::2, ::2],
        lambda X: X[3:, 2:9, 2:9],
        lambda X: X[4].expand(7, 12, 12),
        lambda X: X[:, :1].expand(18, 12, 12),
        lambda X: X[:, :, :1].mT.expand(18, 12, 12),
        lambda X: X[0, 0, 0].expand(5, 4, 4),
        lambda X: X.movedim(0, -1).contiguous().movedim(-1, 0),
        lambda X: X.reshape(3, 6, 12, 12).transpose(0, 1),
        lambda X: X.reshape(2, 3, 3, 12, 12)[:, 1],
        lambda X: X[7],
    ],
    ids=[
        *("transposed", "every second matrix", "every second entry", "a block", "one for all", "one row"),
        *(
            "one column",
            "one number",
            "the batch last",
            "swapped batch",
            "a slice of the batch",
            "no batch",
        ),
    ],
)
def test_any_strides(view: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    X = view(random(18, 12, 12, dtype=dtype))
    for isa, lanes in solvers(dtype):
        packed = native.eigh(X.contiguous(), isa=isa, lanes=lanes)
        assert_same(native.eigh(X, isa=isa, lanes=lanes), packed)
        bound = float(packed[0][..., 0].median())
        assert torch.equal(
            native.exceeds(X, bound, isa=isa, lanes=lanes),
            native.exceeds(X.contiguous(), bound, isa=isa, lanes=lanes),
        )


@dtypes
@pytest.mark.parametrize("shape", [(5, 5), (1, 5, 5), (2, 3, 5, 5), (2, 1, 3, 5, 5)], ids=str)
def test_the_dimensions_of_the_batch_are_kept(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    X = random_symmetric(*shape[:-1]).to(dtype)
    values, U, info = native.eigh(X)
    assert (values.shape, U.shape, info.shape) == (shape[:-1], shape, shape[:-2])
    assert info.dtype == torch.int32
    flat = native.eigh(X.reshape(-1, 5, 5))
    assert_same_bits((values.reshape(-1, 5), flat[0]), (U.reshape(-1, 5, 5), flat[1]))
    alone = native.eigh(X, vectors=False)
    assert (alone[0].shape, alone[1].shape, alone[2].shape) == (shape[:-1], (*shape[:-2], 0), shape[:-2])
    assert native.exceeds(X, 0.0).shape == shape[:-2]


@dtypes
@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 5, 5), (0, 0), (4, 0, 0), (0, 0, 0)], ids=str)
def test_nothing_to_decompose(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    for isa, lanes in solvers(dtype):
        for _ in range(3):  # what was not written would differ sometimes
            values, U, info = native.eigh(torch.empty(shape, dtype=dtype), isa=isa, lanes=lanes)
            assert (values.shape, U.shape, info.shape) == (shape[:-1], shape, shape[:-2])
            assert not info.any()
            # of an empty matrix all eigenvalues are greater than any number
            found = native.exceeds(torch.empty(shape, dtype=dtype), 1.0, isa=isa, lanes=lanes)
            assert found.shape == shape[:-2]
            assert bool(found.all())


@dtypes
def test_one_by_one_matrices_are_their_eigenvalues(dtype: torch.dtype) -> None:
    limits = torch.finfo(dtype)
    numbers = [-3.0, 0.0, 1.0, limits.max, -limits.max, limits.tiny, limits.tiny * limits.eps]
    X = torch.tensor(numbers, dtype=dtype)[:, None, None]
    for isa, lanes in solvers(dtype):
        values, U, info = native.eigh(X, isa=isa, lanes=lanes)
        assert torch.equal(values, X[..., 0])
        assert torch.equal(U, torch.ones_like(X))
        assert not info.any()


def test_an_instruction_set_that_is_not_there_is_an_error() -> None:
    for function in (native.eigh, lambda X, isa: native.exceeds(X, 0.0, isa=isa)):
        with pytest.raises(ValueError, match=r"this machine has .*, and not mmx"):
            function(torch.eye(3).expand(4, 3, 3), isa="mmx")


# --- the same bits -------------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize(("N", "n"), [(1, 9), (2, 30), (7, 12), (83, 12), (40, 33)])
def test_threads_and_widths_do_not_change_a_bit(
    N: int, n: int, dtype: torch.dtype, threads: Callable[[int], None]
) -> None:
    X = random_symmetric(N, n).to(dtype)
    for isa in native.instruction_sets():
        threads(1)
        expected = native.eigh(X, isa=isa)
        for count in (1, 2, 3, 8):
            threads(count)
            for lanes in (0, *widths(isa, dtype)):
                assert_same(native.eigh(X, isa=isa, lanes=lanes), expected)


@dtypes
@isas
def test_a_matrix_is_decomposed_alike_alone_and_among_others(isa: str, dtype: torch.dtype) -> None:
    n = 11
    # Matrices that need very different numbers of sweeps share a pack.
    X = torch.cat([matrices(kind, n, dtype)[:2] for kind in KINDS])
    for lanes in (0, *widths(isa, dtype)):
        together = native.eigh(X, isa=isa, lanes=lanes)
        for k in range(len(X)):
            alone = native.eigh(X[k], isa=isa, lanes=lanes)
            assert_same(alone, tuple(x[k] for x in together))
        order = torch.randperm(len(X), generator=torch.Generator().manual_seed(0))
        assert_same(native.eigh(X[order], isa=isa, lanes=lanes), tuple(x[order] for x in together))


@dtypes
@pytest.mark.parametrize("kind", KINDS)
def test_eigenvalues_alone_are_the_same(kind: str, dtype: torch.dtype) -> None:
    X = matrices(kind, 21, dtype)
    for isa, lanes in solvers(dtype):
        expected = native.eigh(X, isa=isa, lanes=lanes)
        values, nothing, info = native.eigh(X, vectors=False, isa=isa, lanes=lanes)
        assert nothing.shape == (N, 0)
        assert_same_bits((values, expected[0]), (info, expected[2]))


# --- the certificate -----------------------------------------------------------------------------


def has_factor(X: Tensor, minimum: float) -> Tensor:
    shift = minimum * torch.eye(X.shape[-1], dtype=X.dtype)
    return torch.linalg.cholesky_ex(X - shift).info == 0


@dtypes
@pytest.mark.parametrize("scale", [1.0, 1e30, 1e-30])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 30, 33, 64])
def test_exceeds_says_whether_there_is_a_cholesky_factor(n: int, scale: float, dtype: torch.dtype) -> None:
    spectrum = torch.linspace(1, 4, n, dtype=torch.float64).expand(2 * N, n).clone()
    spectrum[:, 0] = 1 + 1e-3 * torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(N)
    Q = torch.linalg.qr(random(2 * N, n, n)).Q
    X = scale * (Q * spectrum[:, None, :]) @ Q.mT
    X = ((X + X.mT) / 2).to(dtype)
    expected = has_factor(X, scale)
    assert torch.equal(expected, torch.tensor([False, True]).repeat(N))
    for isa, lanes in solvers(dtype):
        assert torch.equal(native.exceeds(X, scale, isa=isa, lanes=lanes), expected)
        assert torch.equal(native.exceeds(X[0], scale, isa=isa, lanes=lanes), expected[0])


@dtypes
@pytest.mark.parametrize("kind", KINDS)
def test_exceeds_on_hostile_matrices(kind: str, dtype: torch.dtype) -> None:
    """Where the least eigenvalue is farther from the bound than rounding reaches."""
    n = 16
    X = matrices(kind, n, dtype)
    values = torch.linalg.eigvalsh(X.double())
    size = float(values.abs().max())
    reach = 4 * n * torch.finfo(dtype).eps * size + n * torch.finfo(dtype).tiny * torch.finfo(dtype).eps
    for minimum in (-0.1 * size, 0.0, 0.3 * size, float(values[0, 0]) - 2 * reach):
        sure = (values[:, 0] - minimum).abs() > reach
        for isa, lanes in solvers(dtype):
            found = native.exceeds(X, minimum, isa=isa, lanes=lanes)
            assert torch.equal(found[sure], (values[:, 0] > minimum)[sure]), (isa, lanes, minimum)


@dtypes
def test_an_eigenvalue_at_the_bound_does_not_exceed_it(dtype: torch.dtype) -> None:
    X = torch.diag_embed(torch.tensor([[0.5, 1.0, 2.0], [2.0, 1.0, 0.5], [1.0, 0.75, 1.0]], dtype=dtype))
    for isa, lanes in solvers(dtype):
        assert native.exceeds(X, 0.5, isa=isa, lanes=lanes).tolist() == [False, False, True]


@dtypes
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_exceeds_nothing(value: float, dtype: torch.dtype) -> None:
    n = 6
    places = [(i, j) for i in range(n) for j in range(i + 1)]
    X = random_spd(2 * len(places), n).to(dtype)
    for k, (i, j) in enumerate(places):
        X[2 * k, i, j] = value
    for isa, lanes in solvers(dtype):
        assert native.exceeds(X, 1e-3, isa=isa, lanes=lanes).tolist() == [False, True] * len(places)


@dtypes
def test_exceeds_is_the_same_at_every_number_of_threads(
    dtype: torch.dtype, threads: Callable[[int], None]
) -> None:
    X = random_symmetric(150, 9).to(dtype)
    expected = has_factor(X, -3.0)
    assert 0 < int(expected.sum()) < 150
    for count in (1, 2, 3, 8):
        threads(count)
        for isa, lanes in solvers(dtype):
            assert torch.equal(native.exceeds(X, -3.0, isa=isa, lanes=lanes), expected)


# --- processes and threads -----------------------------------------------------------------------

BATCH = random_symmetric(60, 12)  # of so few numbers that torch itself starts no threads for it


def expect(X: Tensor, expected: tuple[Tensor, ...]) -> None:
    for _ in range(5):
        assert_same(native.eigh(X), expected)


def run_in_child(target: Callable[..., None], *args: object) -> None:
    """A deadlock fails, and does not hang."""
    child = multiprocessing.get_context("fork").Process(target=target, args=args)
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
        pytest.fail("the child does not come to an end")
    assert child.exitcode == 0


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@forks
def test_a_forked_child_decomposes_and_so_does_its_child(threads: Callable[[int], None]) -> None:
    threads(3)
    expected = native.eigh(BATCH)

    def child() -> None:
        expect(BATCH, expected)
        run_in_child(expect, BATCH, expected)

    for _ in range(3):
        run_in_child(child)
        expect(BATCH, expected)


@forks
def test_a_fork_before_the_first_call() -> None:
    """Of a process in which torch has used its OpenMP, which does not survive it."""
    script = """
import os, torch
from alem.linalg import native
torch.set_num_threads(2)
torch.ones(1000, 1000).exp().sum()
child = os.fork()
if not child:
    info = native.eigh(torch.eye(12).expand(60, 12, 12))[2]
    os._exit(int(info.any()))
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)


@forks
def test_a_fork_while_another_thread_decomposes(threads: Callable[[int], None]) -> None:
    threads(2)
    expected = native.eigh(BATCH)
    finished = threading.Event()

    def busy() -> None:
        while not finished.is_set():
            native.eigh(BATCH)

    other = threading.Thread(target=busy)
    other.start()
    try:
        for _ in range(8):
            run_in_child(expect, BATCH, expected)
    finally:
        finished.set()
        other.join()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_of_processes(method: str, threads: Callable[[int], None]) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"there is no {method} here")
    threads(2)
    X = BATCH[:20]  # torch sends back more than 32 KiB with OpenMP, which hangs in a forked child
    expected = native.eigh(X)
    with multiprocessing.get_context(method).Pool(2) as pool:  # leaving it ends the processes
        results = [pool.apply_async(native.eigh, (X,)) for _ in range(4)]
        for result in results:
            assert_same(result.get(timeout=120), expected)


class Decomposed(Dataset[Tensor]):
    """The eigenvalues of a few matrices."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Tensor:
        return linalg.eigvalsh(BATCH[5 * index : 5 * index + 5])


@forks
def test_the_workers_of_a_data_loader() -> None:
    expected = linalg.eigvalsh(BATCH)
    loader = DataLoader(
        Decomposed(), batch_size=3, num_workers=2, timeout=60, multiprocessing_context="fork"
    )
    torch.testing.assert_close(torch.cat(list(loader)).reshape(60, 12), expected, rtol=0, atol=0)


def test_many_python_threads_at_once(threads: Callable[[int], None]) -> None:
    threads(2)
    batches = [random_symmetric(33, 3 + k % 9, seed=k) for k in range(40)]
    expected = [native.eigh(X) for X in batches]
    minimum = [native.exceeds(X, -2.0) for X in batches]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            found = list(pool.map(native.eigh, batches))
            bounds = list(pool.map(lambda X: native.exceeds(X, -2.0), batches))
            for a, b in zip(found, expected, strict=True):
                assert_same(a, b)
            assert all(torch.equal(a, b) for a, b in zip(bounds, minimum, strict=True))


@forks
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted on Linux only")
def test_no_more_threads_than_torch_has() -> None:
    """In a child, which begins with none, of a process that has nothing else that starts some."""
    code = """
import os, sys, torch
from alem.linalg import native

# Of so few numbers that torch itself starts no threads for it.
X = (torch.eye(12, dtype=torch.float64) + torch.ones(60, 12, 12, dtype=torch.float64)).contiguous()
native.eigh(X)
child = os.fork()
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
count = lambda: len(os.listdir("/proc/self/task"))
before = count()
for threads in (1, 3, 2, 3):
    torch.set_num_threads(threads)
    for _ in range(50):
        native.eigh(X)
        native.exceeds(X, 0.0)
    print(threads, count() - before)
sys.stdout.flush()
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    # Two helpers beside the caller are kept when fewer are asked for.
    assert done.stdout.split("\n")[:-1] == ["1 0", "3 2", "2 2", "3 2"]


def test_matrices_of_different_sizes_in_turn() -> None:
    """The scratch memory of a thread serves one size after the other."""
    sizes = [2, 40, 3, 64, 1, 33]
    batches = [with_spectrum(*range(1, n + 1)).expand(20, n, n) for n in sizes]
    for _ in range(2):
        for n, X in zip(sizes, batches, strict=True):
            expected = torch.arange(1, n + 1, dtype=torch.float64).expand(20, n)
            torch.testing.assert_close(native.eigh(X)[0], expected, rtol=0, atol=1e-12)
