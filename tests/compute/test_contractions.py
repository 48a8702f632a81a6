"""Contractions on many layouts against numpy, their dtypes, and the shardings of their results."""

from dataclasses import replace

import numpy as np
import pytest
from expressions import Source, draw_sharding

import spmd_grid as sg

LAYOUTS = {
    "rows": ([[0, 1]], {}),
    "columns": ([[], [1]], {}),
    "blocks": ([[0], [1]], {}),
    "swapped, halos": ([[1], [0]], {"halo_sizes": [1, 2, 0, 1]}),
    "balanced": ([[1], [0]], {"blocks": "balanced"}),
    "partial": ([[1]], {"partial_axes": [0]}),
    "replicated": ([], {}),
}
# Every first layout meets every second one in the course of a few cases.
PAIRS = [(one, other) for one in LAYOUTS for other in LAYOUTS]


def layouts_of(number):
    return [PAIRS[(3 * number + 10 * i) % len(PAIRS)] for i in range(5)]


def offsets(grid, n, parts, axes):
    """A sharding of the first dimension into blocks of which one is empty."""
    return sg.Sharding(grid, axes, sharded_dims_offsets=[[0] + [min(3, n)] * 2 + [n] * (parts - 2)])


def values(*shape, dtype="f8", seed=0):
    x = (np.arange(np.prod(shape)).reshape(shape) * 7 + seed) % 11 - 4
    if np.dtype(dtype).kind == "c":
        return (x + 0.5j * (x % 3)).astype(dtype)
    return (x / 4 if np.dtype(dtype).kind == "f" else x).astype(dtype)


def sharded(x, name, grid):
    axes, options = LAYOUTS[name]
    if x.ndim < len(axes):
        axes, options = axes[: x.ndim], {key: each for key, each in options.items() if key in ("blocks",)}
    return sg.from_global(x, sg.Sharding(grid, axes, **options), grid)


def same(found, want):
    got = found.to_global() if isinstance(found, sg.ShardedArray) else found
    want = np.asarray(want)
    assert np.shape(got) == want.shape and np.asarray(got).dtype == want.dtype
    single = want.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(got, want, rtol=1e-5 if single else 1e-12, atol=1e-5 if single else 1e-11)


def check(function, arrays, grid, pairs):
    want = function(*arrays)
    for one, other in pairs:
        names = [one, other, "blocks", "rows"]
        same(function(*[sharded(x, name, grid) for x, name in zip(arrays, names)]), want)


M, K, N = 7, 5, 4
CASES = {
    "matmul": (lambda a, b: a @ b, [(M, K), (K, N)]),
    "transposed": (lambda a, b: a.T @ b, [(K, M), (K, N)]),
    "by a vector": (lambda a, b: a @ b, [(M, K), (K,)]),
    "of a vector": (lambda a, b: a @ b, [(K,), (K, N)]),
    "of vectors": (lambda a, b: a @ b, [(M,), (M,)]),
    "stacks": (lambda a, b: a @ b, [(3, M, K), (K, N)]),
    "stacks, repeated": (lambda a, b: np.matmul(a, b), [(1, 2, M, K), (3, 1, K, N)]),
    "linalg.matmul": (lambda a, b: np.linalg.matmul(a, b), [(M, K), (K, N)]),
    "nothing summed": (lambda a, b: a @ b, [(M, 0), (0, N)]),
    "no rows": (lambda a, b: a @ b, [(0, K), (K, N)]),
    "one cell": (lambda a, b: a @ b, [(1, 1), (1, 1)]),
    "dot": (lambda a, b: np.dot(a, b), [(2, M, K), (3, K, N)]),
    "inner": (lambda a, b: np.inner(a, b), [(2, M, K), (N, K)]),
    "vdot": (lambda a, b: np.vdot(a, b), [(M, K), (K, M)]),
    "vecdot": (lambda a, b: np.vecdot(a, b), [(3, M, K), (M, K)]),
    "linalg.vecdot": (lambda a, b: np.linalg.vecdot(a, b, axis=0), [(M, K), (M, K)]),
    "matvec": (lambda a, b: np.matvec(a, b), [(3, M, K), (3, K)]),
    "vecmat": (lambda a, b: np.vecmat(a, b), [(K,), (3, K, N)]),
    "outer": (lambda a, b: np.outer(a, b), [(M, 2), (K,)]),
    "linalg.outer": (lambda a, b: np.linalg.outer(a, b), [(M,), (K,)]),
    "tensordot": (lambda a, b: np.tensordot(a, b, axes=([2, 0], [0, 1])), [(3, M, K), (K, 3, N)]),
    "tensordot, none": (lambda a, b: np.tensordot(a, b, axes=0), [(M, 2), (3,)]),
    "kron": (lambda a, b: np.kron(a, b), [(3, 2), (2, 5)]),
    "kron of other ranks": (lambda a, b: np.kron(a, b), [(3,), (2, 2)]),
    "cross": (lambda a, b: np.cross(a, b), [(M, 3), (M, 3)]),
    "cross, axes": (lambda a, b: np.cross(a, b, axisa=0, axisc=0), [(3, M), (M, 3)]),
    "linalg.cross": (lambda a, b: np.linalg.cross(a, b, axis=0), [(3, M), (3, M)]),
    "multi_dot": (lambda a, b, c: np.linalg.multi_dot([a, b, c]), [(M, K), (K, N), (N, 9)]),
    "multi_dot of vectors": (lambda a, b, c: np.linalg.multi_dot([a, b, c]), [(M,), (M, K), (K,)]),
    "matrix_power": (lambda a: np.linalg.matrix_power(a, 5), [(K, K)]),
    "matrix_power 0, 1": (lambda a: np.linalg.matrix_power(a, 0) + np.linalg.matrix_power(a, 1), [(K, K)]),
    "trace": (lambda a, b: np.trace(a, -1) + np.linalg.trace(b, offset=2), [(M, K), (K, M)]),
    "trace of stacks": (lambda a: np.trace(a, 1, 2, 0), [(M, 3, K)]),
    "trace beyond": (lambda a: np.trace(a, 9), [(M, K)]),
}
CASES = {name: case for name, case in CASES.items() if name not in ("matvec", "vecmat") or hasattr(np, name)}


@pytest.mark.parametrize("case", CASES)
def test_products(spmd, case):
    function, shapes = CASES[case]

    def body():
        grid = sg.init_grid((2, 3))
        arrays = [values(*shape, seed=i) for i, shape in enumerate(shapes)]
        check(function, arrays, grid, layouts_of(list(CASES).index(case)))

    spmd(6, body)


EINSUMS = {
    "ij,jk": [(M, K), (K, N)],
    "ij,jk->ki": [(M, K), (K, N)],
    "ji,jk": [(K, M), (K, N)],
    "ij,ij->": [(M, K), (M, K)],
    "ij,ij->i": [(M, K), (M, K)],
    "ij,kl->": [(M, K), (2, N)],
    "ij,kj->kj": [(M, K), (N, K)],
    "ij->ji": [(M, K)],
    "ij->": [(M, K)],
    "ij->j": [(M, K)],
    "ii": [(K, K)],
    "ii->i": [(K, K)],
    "iji->j": [(K, M, K)],
    "iii->i": [(K, K, K)],
    "ii,ij->j": [(K, K), (K, N)],
    "...j,jk": [(2, M, K), (K, N)],
    "i...,i...->...": [(M, 2, 3), (M, 3)],
    "...ij,...jk->...ik": [(2, 1, M, K), (3, K, N)],
    "i...->...": [(M, K)],
    "bij,bjk->bik": [(3, M, K), (3, K, N)],
    "ij,jk,kl": [(M, K), (K, N), (N, 3)],
    "ij,jk,kl,li->": [(M, K), (K, N), (N, 3), (3, M)],
    "ij,ik,il->jkl": [(M, 2), (M, 3), (M, 2)],
    "i,j,k->kij": [(M,), (K,), (2,)],
    "ij,jk->ik": [(M, 1), (K, N)],
}


@pytest.mark.parametrize("subscripts", EINSUMS)
def test_einsum(spmd, subscripts):
    def body():
        grid = sg.init_grid((2, 3))
        arrays = [values(*shape, seed=i) for i, shape in enumerate(EINSUMS[subscripts])]
        check(lambda *x: np.einsum(subscripts, *x), arrays, grid, layouts_of(list(EINSUMS).index(subscripts)))

    spmd(6, body)


def test_operands_that_are_plain_arrays_or_lists_of_subscripts(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        x, y, z = values(M, K), values(K, N), values(N, M)
        a, b = sharded(x, "blocks", grid), sharded(y, "swapped, halos", grid)
        same(np.einsum(a, [0, 1], b, [1, 2], [2, 0]), (x @ y).T)
        same(np.einsum(a, [5, 9], b, [9, 7]), x @ y)
        same(np.einsum(a, [..., 0], b, [0, 1], [..., 1]), x @ y)
        same(np.einsum("ij,jk,kl->il", a, y, z), x @ y @ z)
        same(np.einsum("ij,jk,kl->il", x, y, sharded(z, "rows", grid)), x @ y @ z)
        same(x.T @ a, x.T @ x)
        same(a @ y, x @ y)
        same(np.linalg.multi_dot([x, b, z]), x @ y @ z)
        same(np.kron(a, x[:2, :2]), np.kron(x, x[:2, :2]))

    spmd(6, body)


def test_uneven_offsets_and_empty_blocks(spmd):
    def body():
        grid = sg.init_grid((6,))
        x, y = values(M, K), values(K, N)
        a = sg.from_global(x, offsets(grid, M, 6, [[0]]), grid)
        for axes in ([[0]], [[], [0]]):
            for left in (a, sharded(x, "replicated", grid), sg.from_global(x, sg.Sharding(grid, [[], [0]]), grid)):
                same(left @ sg.from_global(y, sg.Sharding(grid, axes), grid), x @ y)

    spmd(6, body)


@pytest.mark.parametrize("dtypes", ["f4 f4", "f4 f8", "i4 i4", "i1 i8", "? ?", "c8 f4", "c16 c16", "u2 i2", "f2 f2"])
def test_dtypes(spmd, dtypes):
    def body():
        grid = sg.init_grid((3,))
        one, other = dtypes.split()
        x, y = values(M, K, dtype=one), values(K, N, dtype=other)
        for axes in ([[0]], [[], [0]]):
            a, b = (sg.from_global(each, sg.Sharding(grid, axes), grid) for each in (x, y))
            for function in (
                lambda a, b: a @ b,
                lambda a, b: np.einsum("ij,jk->ki", a, b),
                lambda a, b: np.einsum("ij,jk->k", a, b),
                lambda a, b: np.tensordot(a, b, axes=([1], [0])),
            ):
                got, want = function(a, b), function(x, y)
                if want.dtype == np.float16:  # sums of halves are rounded as they are grouped
                    np.testing.assert_allclose(got.to_global(), want, rtol=4e-3, atol=2e-2)
                    assert got.dtype == want.dtype
                else:
                    same(got, want)

    spmd(3, body)


NORMS = {
    "matrix, 1": lambda a: np.linalg.norm(a, 1),
    "matrix, -1": lambda a: np.linalg.norm(a, -1, keepdims=True),
    "matrix, inf": lambda a: np.linalg.norm(a, np.inf),
    "matrix, -inf": lambda a: np.linalg.norm(a, -np.inf, axis=(1, 0)),
    "matrix, fro": lambda a: np.linalg.norm(a, "fro"),
    "matrix_norm": lambda a: np.linalg.matrix_norm(a[None], ord=1),
    "vector, 3": lambda a: np.linalg.norm(a, 3, axis=0),
    "vector, 0.5": lambda a: np.linalg.norm(a, 0.5, axis=1, keepdims=True),
    "vector, 0": lambda a: np.linalg.norm(a, 0, axis=1),
    "vector, -1": lambda a: np.linalg.norm(a + 9, -1, axis=1),
    "vector_norm": lambda a: np.linalg.vector_norm(a, ord=3),
    "vector_norm of a dimension": lambda a: np.linalg.vector_norm(a, axis=1, ord=np.inf),
}


@pytest.mark.parametrize("case", NORMS)
def test_norms(spmd, case):
    def body():
        grid = sg.init_grid((2, 3))
        check(NORMS[case], [values(M, K)], grid, layouts_of(list(NORMS).index(case)))
        same(NORMS[case](sharded(values(M, K, dtype="i4"), "blocks", grid)), NORMS[case](values(M, K, dtype="i4")))

    spmd(6, body)


# -- the sharding of the result --------------------------------------------------------------------------------------

WISHED = {
    "rows": ([[0, 1]], {}),
    "columns, halos": ([[], [1]], {"halo_sizes": [1, 1]}),
    "blocks, halos": ([[1], [0]], {"halo_sizes": [1, 0, 2, 1]}),
    "balanced": ([[0], [1]], {"blocks": "balanced"}),
    "offsets": ([[0]], {"sharded_dims_offsets": [[0, 1, 7]]}),
    "replicated": ([], {}),
    "partial": ([[0]], {"partial_axes": [1]}),
    "partial along all": ([], {"partial_axes": [0, 1]}),
    "partial, halos": ([[1]], {"partial_axes": [0], "halo_sizes": [1, 1]}),
}


@pytest.mark.parametrize("wish", WISHED)
def test_out_sharding(spmd, wish):
    axes, options = WISHED[wish]

    def body():
        grid = sg.init_grid((2, 3))
        wished = sg.Sharding(grid, axes, **options)
        x, y = values(M, K), values(K, N)
        for one, other in layouts_of(list(WISHED).index(wish)):
            a, b = sharded(x, one, grid), sharded(y, other, grid)
            for found in (
                sg.matmul(a, b, out_sharding=wished),
                sg.einsum("ij,jk->ik", a, b, out_sharding=wished),
                sg.tensordot(a, b, 1, out_sharding=wished),
                sg.einsum("ij,jk,kl->il", a, b, np.eye(N), out_sharding=wished),
            ):
                assert found.sharding == wished
                same(found, x @ y)
                if not wished.partial_axes:
                    whole = found.reshard(sg.Sharding(grid, [])).reshard(wished)
                    np.testing.assert_array_equal(found.local, whole.local)  # halos too; 0 outside the domain

    spmd(6, body)


def test_out_sharding_of_one_operand_and_of_numbers(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        x = values(K, K)
        a = sharded(x, "blocks", grid)
        wished = sg.Sharding(grid, [[1]])
        found = sg.einsum("ii->i", a, out_sharding=wished)
        assert found.sharding == wished
        same(found, np.diagonal(x))
        same(sg.einsum("ij,ij->", a, a), (x * x).sum())
        partial = sg.einsum("ij,ij->", a, a, out_sharding=sg.Sharding(grid, [], partial_axes=[0, 1]))
        same(partial, (x * x).sum())
        assert partial.sharding.partial_axes == (0, 1)

    spmd(6, body)


RESULTS = {
    "rows stay": ([[0]], [], [[0]]),
    "columns stay": ([], [[], [1]], [[], [1]]),
    "blocks": ([[0], [1]], [[0], [1]], [[0], [1]]),
    "both cut the summed dimension": ([[], [0]], [[0]], []),
    "one cuts the summed dimension": ([[1], [0]], [], [[1]]),
    "nothing is cut": ([], [], []),
}


@pytest.mark.parametrize("case", RESULTS)
def test_shardings_of_results(spmd, case):
    """A dimension of the result is cut as in an operand; axes of the summed dimension replicate the result."""
    of_a, of_b, wanted = RESULTS[case]

    def body():
        grid = sg.init_grid((2, 3))
        x, y = values(24, 30), values(30, 18)
        a, b = (sg.from_global(each, sg.Sharding(grid, axes), grid) for each, axes in ((x, of_a), (y, of_b)))
        found = a @ b
        same(found, x @ y)
        assert found.sharding == sg.Sharding(grid, wanted), found.sharding

    spmd(6, body)


REFUSED = {
    "grid": (
        lambda a, g: sg.matmul(a, a.T, out_sharding=sg.Sharding(sg.Grid((3, 1)), [[0]])),
        sg.GridError,
        "matmul: out_sharding is on",
    ),
    "dimensions": (
        lambda a, g: sg.matmul(a, a.T, out_sharding=sg.Sharding(g, [[], [], [0]])),
        sg.ShardingError,
        "matmul: out_sharding: .* splits dimension 2",
    ),
    "partial kind": (
        lambda a, g: sg.tensordot(a, a.T, 1, out_sharding=sg.Sharding(g, [], partial_axes=[0], partial_kind="max")),
        sg.ReductionError,
        "tensordot: out_sharding has partial_kind 'max'",
    ),
    "no sharding": (lambda a, g: sg.einsum("ij->i", a, out_sharding=[[0]]), sg.ShardingError, "must be a Sharding"),
    "no sharded operand": (lambda a, g: sg.matmul(np.eye(2), np.eye(2)), sg.DTypeError, "must be a ShardedArray"),
    "memory": (lambda a, g: sg.matmul(a, a.T, memory_limit=-1), sg.ShardingError, "memory_limit is -1"),
    "too little memory": (
        lambda a, g: sg.matmul(a, a.T, memory_limit=8, out_sharding=sg.Sharding(g, [])),
        sg.ShardingError,
        "memory_limit is 8 bytes; .* at least [0-9]+",
    ),
    "shapes": (lambda a, g: sg.matmul(a, a), sg.ShapeError, "matmul: operands have shapes"),
    "extents": (lambda a, g: np.einsum("ij,jk", a, a), sg.ShapeError, "einsum: dimensions 'j' have extents"),
    "repeated, extents": (lambda a, g: np.einsum("ii", a), sg.ShapeError, "einsum: a letter that is repeated"),
    "output": (lambda a, g: np.einsum("ij->ii", a), sg.ShapeError, "its letters must differ"),
    "ellipsis": (lambda a, g: np.einsum("...j->j", a), sg.ShapeError, "output must have the ellipsis"),
    "characters": (lambda a, g: np.einsum("i1", a), sg.ShapeError, "subscripts are letters"),
    "number of operands": (lambda a, g: np.einsum("ij,jk", a), sg.ShapeError, "is for 2 operands; there are 1"),
    "numbers": (lambda a, g: np.einsum(a, [0, 99]), sg.ShapeError, "numbers from 0 to 51"),
    "singular values": (lambda a, g: np.linalg.norm(a, "nuc"), sg.ImplicitGatherError, "singular values"),
    "inverse": (lambda a, g: np.linalg.matrix_power(a[:5], -1), sg.ImplicitGatherError, "negative n"),
    "not square": (lambda a, g: np.linalg.matrix_power(a, 2), sg.ShapeError, "dimensions must be equal"),
    "cross": (lambda a, g: np.cross(a, a), sg.ShapeError, "they must have 3"),
    "multi_dot": (lambda a, g: np.linalg.multi_dot([a]), sg.ShapeError, "at least two"),
    "trace": (lambda a, g: np.trace(a, axis1=1, axis2=-1), sg.AxisError, "they must differ"),
    "vecdot": (lambda a, g: np.vecdot(a, a[:, :3]), sg.ShapeError, "the summed dimensions must be equal"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(spmd, case):
    function, kind, words = REFUSED[case]

    def body():
        grid = sg.init_grid((3,))
        a = sg.from_global(values(M, K), sg.Sharding(grid, [[0]]), grid)
        with pytest.raises(kind, match=words) as caught:
            function(a, grid)
        same(a, values(M, K))
        return str(caught.value)

    assert len(set(spmd(3, body))) == 1


# -- random contractions ---------------------------------------------------------------------------------------------


def draw(source, n_dims):
    """Letters and extents of a contraction of two operands: (subscripts, shapes)."""
    extents = {letter: source.number(0, 9) if source.chance(0.9) else 1 for letter in "abcde"}
    parts = []
    for _ in range(2):
        letters = list("abcde")
        parts.append("".join(letters.pop(source.number(0, len(letters) - 1)) for _ in range(source.number(1, n_dims))))
    output = [letter for letter in "abcde" if letter in parts[0] + parts[1] and source.chance(0.6)]
    if source.chance(0.5):
        output.reverse()
    return f"{','.join(parts)}->{''.join(output)}", [tuple(extents[each] for each in part) for part in parts]


def draw_partial(source, grid, sharding):
    """``sharding``, sometimes with its last free axis partial."""
    if sharding.replicated_axes and source.chance(0.3):
        return replace(sharding, partial_axes=sharding.replicated_axes[-1:])
    return sharding


@pytest.mark.parametrize("n_ranks", [1, 4, 6])
def test_random_contractions(spmd, n_ranks):
    """Any letters, layouts, wished layouts and memory limits: numpy's values, in the wished layout."""

    def body():
        for seed in range(12):
            source = Source(n_ranks, seed)
            grid = sg.init_grid((2, n_ranks // 2) if n_ranks > 1 else (1, 1))
            subscripts, shapes = draw(source, 3)
            x, y = (source.array(shape) for shape in shapes)
            a, b = (
                sg.from_global(each, draw_partial(source, grid, draw_sharding(source, grid, each.shape)), grid)
                for each in (x, y)
            )
            want = np.einsum(subscripts, x, y)
            story = f"{seed}: {subscripts} {a.sharding} {b.sharding}"
            wished = draw_partial(source, grid, draw_sharding(source, grid, want.shape))
            for options in ({}, {"out_sharding": wished}, {"out_sharding": wished, "memory_limit": 900}):
                try:
                    found = sg.einsum(subscripts, a, b, **options)
                except sg.ShardingError as error:
                    assert "at least" in str(error) and "memory_limit" in options
                    continue
                got = found.to_global() if isinstance(found, sg.ShardedArray) else found
                assert np.asarray(got).dtype == want.dtype, story
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=story)
                if options and isinstance(found, sg.ShardedArray):
                    assert found.sharding == wished, story

    spmd(n_ranks, body)
