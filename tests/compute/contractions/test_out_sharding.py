"""Shardings of the results of contractions, and refusals."""

import numpy as np
import pytest
from support.compute.contractions import layouts_of, same, sharded, values

import spmd_grid as sg

M, K, N = 7, 5, 4


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
        requested = sg.Sharding(grid, axes, **options)
        x, y = values(M, K), values(K, N)
        for one, other in layouts_of(list(WISHED).index(wish)):
            a, b = sharded(x, one, grid), sharded(y, other, grid)
            for found in (
                sg.matmul(a, b, out_sharding=requested),
                sg.einsum("ij,jk->ik", a, b, out_sharding=requested),
                sg.tensordot(a, b, 1, out_sharding=requested),
                sg.einsum("ij,jk,kl->il", a, b, np.eye(N), out_sharding=requested),
            ):
                assert found.sharding == requested
                same(found, x @ y)
                if not requested.partial_axes:
                    whole = found.reshard(sg.Sharding(grid, [])).reshard(requested)
                    np.testing.assert_array_equal(found.local, whole.local)  # halos too; 0 outside the domain

    spmd(6, body)


def test_out_sharding_of_one_operand_and_of_numbers(spmd):
    def body():
        grid = sg.init_grid((2, 3))
        x = values(K, K)
        a = sharded(x, "blocks", grid)
        requested = sg.Sharding(grid, [[1]])
        found = sg.einsum("ii->i", a, out_sharding=requested)
        assert found.sharding == requested
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
