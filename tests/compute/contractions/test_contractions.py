"""Contractions on many layouts against numpy, and their dtypes."""

from dataclasses import replace

import numpy as np
import pytest
from support.compute.contractions import check, layouts_of, offsets, same, sharded, values
from support.compute.expressions import DTYPES, draw_sharding
from support.sources import Source

import spmd_grid as sg

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
    "cross, two vectors": (lambda a, b: np.cross(a, b), [(3,), (3,)]),
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
    """Any letters, layouts, requested layouts and memory limits: numpy's values, in the requested layout."""

    def body():
        for seed in range(8):
            source = Source(n_ranks, seed)
            grid = sg.init_grid((2, n_ranks // 2) if n_ranks > 1 else (1, 1))
            subscripts, shapes = draw(source, 3)
            x, y = (source.array(shape, DTYPES) for shape in shapes)
            a, b = (
                sg.from_global(each, draw_partial(source, grid, draw_sharding(source, grid, each.shape)), grid)
                for each in (x, y)
            )
            want = np.einsum(subscripts, x, y)
            story = f"{seed}: {subscripts} {a.sharding} {b.sharding}"
            requested = draw_partial(source, grid, draw_sharding(source, grid, want.shape))
            for options in ({}, {"out_sharding": requested}, {"out_sharding": requested, "memory_limit": 900}):
                try:
                    found = sg.einsum(subscripts, a, b, **options)
                except sg.ShardingError as error:
                    assert "at least" in str(error) and "memory_limit" in options
                    continue
                got = found.to_global() if isinstance(found, sg.ShardedArray) else found
                assert np.asarray(got).dtype == want.dtype, story
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, err_msg=story)
                if options and isinstance(found, sg.ShardedArray):
                    assert found.sharding == requested, story

    spmd(n_ranks, body)
