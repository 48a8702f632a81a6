"""Every function of the namespace, on several shardings, against array-api-strict on the global array."""

import re
from pathlib import Path

import numpy as np
import pytest

import spmd_grid as sg

strict = pytest.importorskip("array_api_strict", reason="array-api-strict, of the extra 'test', is not installed")


def uneven(grid):
    """Blocks of growing extent along the longest dimension, the first of them empty."""

    def rule(shape):
        if not shape:
            return sg.Sharding(grid, [])
        d, n, m = shape.index(max(shape)), max(shape), grid.size
        starts = [0, *[n * k * k // m**2 for k in range(1, m)], n]
        return sg.Sharding(grid, [*[[]] * d, list(range(grid.ndim))], sharded_dims_offsets=[starts])

    return rule


def halos(grid):
    def rule(shape):
        axes = [[1], [0]][: len(shape)]
        return sg.Sharding(grid, axes, halo_sizes=[1, 2, 0, 1][: 2 * len(axes)] or None)

    return rule


RULES = {"longest": lambda grid: "longest", "uneven": uneven, "swapped, halos": halos}

A = np.array([[((7 * i + 3 * j * j) % 11) - 4.5 for j in range(5)] for i in range(7)])
B = np.roll(A[::-1], 1, axis=1) / 2
WHOLE = np.array([[(5 * i + 2 * j) % 7 - 3 for j in range(5)] for i in range(7)], dtype="i4")


def inputs(xp):
    """Arrays of several dtypes: a, b of floats, i of ints, c complex, m of bools, v a vector, z a number."""
    return [xp.asarray(x) for x in (A, B, WHOLE, A + 1j * B, A > 0, A[:, 0], np.asarray(2.5))]


UNARY = {
    "on floats": "abs atan asinh ceil cos expm1 floor isfinite isinf isnan negative positive round sign signbit sin "
    "tan tanh trunc square",
    "above 0": "log log10 log1p log2 sqrt reciprocal acosh",
    "below 1": "acos asin atanh",
    "small": "cosh exp sinh",
    "on ints": "abs bitwise_invert ceil floor negative positive round sign square trunc isfinite",
    "complex": "abs conj cos exp imag log negative real round sign sin sqrt tanh",
    "on bools": "logical_not",
}
BINARY = {
    "floats": "add atan2 copysign divide equal greater greater_equal hypot less less_equal logaddexp maximum minimum "
    "multiply nextafter not_equal subtract",
    "whole": "floor_divide remainder pow",
    "ints": "add bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift multiply subtract",
    "bools": "bitwise_and logical_and logical_or logical_xor equal",
}
UNARY_INPUTS = {
    "on floats": lambda xp, a, i, c, m: a,
    "above 0": lambda xp, a, i, c, m: xp.abs(a) + 1.5,
    "below 1": lambda xp, a, i, c, m: a / 7,
    "small": lambda xp, a, i, c, m: a / 2,
    "on ints": lambda xp, a, i, c, m: i,
    "complex": lambda xp, a, i, c, m: c + (0.5 - 1j),
    "on bools": lambda xp, a, i, c, m: m,
}
BINARY_INPUTS = {
    "floats": lambda xp, a, b, i, m: (a, b + 0.3),
    "whole": lambda xp, a, b, i, m: (xp.abs(a) + 1, xp.abs(b) + 2),
    "ints": lambda xp, a, b, i, m: (xp.abs(i), xp.abs(i[:, :1])),
    "bools": lambda xp, a, b, i, m: (m, b > 0),
}

CASES = {
    "scalars": lambda xp, a, b, i, c, m, v, z: [xp.add(a, 1), xp.subtract(2.5, a), xp.pow(i * i, 2), z * v],
    "clip": lambda xp, a, b, i, c, m, v, z: [
        xp.clip(a, -1.0, 2.0),
        xp.clip(i, min=0),
        xp.clip(a, b, b + 1),
        xp.clip(a),
    ],
    "without dimensions": lambda xp, a, b, i, c, m, v, z: [xp.sin(z), z + z, -z, xp.add(z, 1.0), xp.sum(z), z > 1],
    "ranges": lambda xp, a, b, i, c, m, v, z: [
        *(xp.arange(7), xp.arange(9, -2, -3), xp.arange(0.5, 3, 0.25), xp.arange(3, 8, dtype=xp.uint8)),
        *(xp.arange(2**63 - 3, 2**63 + 9, 2, dtype=xp.uint64), xp.arange(3, 1), xp.linspace(0.0, 1.0, 9)),
        *(
            xp.linspace(1, 3, 4, endpoint=False, dtype=xp.float32),
            xp.linspace(1 + 1j, 2.0, 5),
            xp.linspace(2.0, 9.0, 1),
        ),
    ],
    "constants": lambda xp, a, b, i, c, m, v, z: [
        *(xp.zeros((7, 5)), xp.ones(6, dtype=xp.int16), xp.full((2, 9), 3), xp.full((), 2.5), xp.full((3,), True)),
        *(xp.eye(5), xp.eye(4, 7, k=-2, dtype=xp.int8), xp.zeros_like(i), xp.ones_like(c), xp.full_like(v, 4)),
    ],
    "uninitialised": lambda xp, a, b, i, c, m, v, z: [xp.empty((3, 4)).shape, xp.empty_like(i).dtype == i.dtype],
    "triangles": lambda xp, a, b, i, c, m, v, z: [xp.tril(a, k=1), xp.triu(i), xp.triu(xp.stack([c, c]), k=-1)],
    "meshgrid": lambda xp, a, b, i, c, m, v, z: [
        *xp.meshgrid(v, xp.linspace(0.0, 3.0, 4)),
        *xp.meshgrid(v, xp.linspace(1.0, 2.0, 3), indexing="ij"),
    ],
    "asarray": lambda xp, a, b, i, c, m, v, z: [xp.asarray([[1, 2, 3]]), xp.asarray(a, copy=True), xp.asarray(True)],
    "casts": lambda xp, a, b, i, c, m, v, z: [
        *(xp.astype(a, xp.int32), xp.astype(i, xp.complex64), xp.astype(a, xp.bool), xp.astype(z, xp.float32)),
        *(xp.astype(a, a.dtype, copy=False), xp.asarray(i, dtype=xp.float64)),
    ],
    "broadcasts": lambda xp, a, b, i, c, m, v, z: [
        *(xp.broadcast_to(v, (3, 7)), xp.broadcast_to(a[:, :1], (2, 7, 5))),
        *xp.broadcast_arrays(a, a[0, :], z),
    ],
    "joins": lambda xp, a, b, i, c, m, v, z: [
        *(xp.concat([a, b[:3, :]]), xp.concat([i, i], axis=-1), xp.concat([a, v[:, None]], axis=None)),
        *(xp.stack([a, b], axis=1), xp.stack([v, v], axis=-1), *xp.unstack(a, axis=1), *xp.unstack(v)),
    ],
    "dimensions": lambda xp, a, b, i, c, m, v, z: [
        *(
            xp.expand_dims(a, axis=1),
            xp.squeeze(a[:, None, :], axis=1),
            xp.permute_dims(a, (1, 0)),
            xp.moveaxis(a, 0, 1),
        ),
        *(xp.reshape(a, (5, 7)), xp.reshape(a, (-1,)), xp.reshape(z, (1, 1)), xp.reshape(a[:1, :1], ())),
        *(xp.matrix_transpose(xp.stack([a, b])), a.mT, a.T, xp.squeeze(v[:1], axis=0)),
    ],
    "moved cells": lambda xp, a, b, i, c, m, v, z: [
        *(xp.flip(a), xp.flip(a, axis=0), xp.roll(a, 3), xp.roll(a, (1, -2), axis=(0, 1)), xp.tile(a, (2, 1))),
        *(xp.repeat(a, 2, axis=1), xp.repeat(v, 3)),
    ],
    "reductions": lambda xp, a, b, i, c, m, v, z: [
        *(xp.sum(a), xp.sum(i, axis=0), xp.sum(a, axis=(0, 1), keepdims=True), xp.prod(a / 4, axis=1)),
        *(xp.sum(i, dtype=xp.float64), xp.prod(i, axis=0, keepdims=True), xp.mean(a), xp.mean(a, axis=0)),
        *(xp.max(a), xp.min(i, axis=1), xp.var(a, axis=0, correction=1.0), xp.std(a), xp.sum(c, axis=1)),
        *(xp.all(m), xp.any(m, axis=1), xp.all(m, axis=0, keepdims=True), xp.sum(v), xp.sum(a, axis=())),
        *(xp.count_nonzero(i), xp.count_nonzero(i, axis=1, keepdims=True)),
    ],
    "running sums": lambda xp, a, b, i, c, m, v, z: [
        *(xp.cumulative_sum(a, axis=0), xp.cumulative_sum(v), xp.cumulative_sum(i, axis=1, include_initial=True)),
        *(xp.cumulative_prod(a / 3, axis=1), xp.cumulative_sum(i, axis=0, dtype=xp.float32)),
    ],
    "differences": lambda xp, a, b, i, c, m, v, z: [
        *(xp.diff(a), xp.diff(v, n=2), xp.diff(a, axis=0, prepend=a[:1, :], append=b[:2, :])),
    ],
    "positions": lambda xp, a, b, i, c, m, v, z: [
        *(xp.argmax(a), xp.argmin(a, axis=0), xp.argmax(i, axis=1, keepdims=True), xp.argmin(v, keepdims=True)),
        *(xp.where(m, a, b), xp.where(m, a, 0.0), xp.where(v > 0, z, v)),
    ],
    "orders": lambda xp, a, b, i, c, m, v, z: [
        *(xp.sort(a, axis=0), xp.sort(i, descending=True), xp.argsort(i, axis=0), xp.argsort(a, descending=True)),
        xp.argsort(i, axis=0, descending=True),
    ],
    "cells by number": lambda xp, a, b, i, c, m, v, z: [
        *(
            xp.take_along_axis(a, xp.abs(i), axis=1),
            xp.take(a, xp.asarray([3, 0, 3]), axis=1),
        ),
        *(
            xp.take(a[:, :1], xp.asarray([0, -1]), axis=1),
            xp.take(a, xp.asarray([6, 1]), axis=0),
            *xp.nonzero(m),
            *xp.nonzero(v),
            xp.sort(v),
            xp.argsort(v),
        ),
        *(xp.sort(v, descending=True), xp.argsort(v, descending=True)),
    ],
    "sets": lambda xp, a, b, i, c, m, v, z: [
        *(*xp.unique_all(i), *xp.unique_counts(a), *xp.unique_inverse(v), xp.unique_values(m)),
    ],
    "linalg": lambda xp, a, b, i, c, m, v, z: [
        *(xp.linalg.diagonal(a), xp.linalg.diagonal(xp.stack([a, b]), offset=-2), xp.linalg.trace(a, offset=1)),
        *(xp.linalg.outer(v, a[0, :]), xp.linalg.matrix_norm(a), xp.linalg.matrix_power(a[:5, :5], 3)),
        *(xp.linalg.vector_norm(c), xp.linalg.vector_norm(a, axis=0, ord=1), xp.linalg.cross(a[:, :3], b[:, 1:4])),
        xp.linalg.cross(a[0, :3], b[1, :3]),
        *(xp.linalg.matmul(a, v[:5]), xp.linalg.matrix_transpose(a), xp.linalg.vecdot(a, b)),
        xp.linalg.tensordot(a, b, axes=((1,), (1,))),
    ],
    "products": lambda xp, a, b, i, c, m, v, z: [
        *(
            xp.matmul(a, b.T),
            xp.matmul(b.T, v),
            xp.matmul(v, a),
            xp.matmul(v, v),
            xp.tensordot(a, b, axes=((0,), (0,))),
        ),
        *(xp.tensordot(v, v, axes=0), xp.vecdot(c, a + 0j), xp.vecdot(a, v[:, None], axis=-2), xp.vecdot(v, v)),
        xp.vecdot(xp.stack([a, b]), a),
    ],
    "dtypes": lambda xp, a, b, i, c, m, v, z: [
        *(xp.can_cast(a, xp.float32), xp.can_cast(xp.int8, xp.int16), xp.isdtype(i.dtype, "signed integer")),
        *(xp.isdtype(a.dtype, ("integral", xp.float64)), xp.result_type(a, xp.float32) == xp.float64),
        *(xp.result_type(i, 1) == xp.int32, xp.finfo(xp.float32).eps, xp.finfo(c).bits, xp.iinfo(i).max),
    ],
}


def same(found, want, what):
    if isinstance(want, list | tuple):
        assert len(found) == len(want), what
        for each, other in zip(found, want):
            same(each, other, what)
    elif isinstance(want, type(strict.ones(1))):
        assert isinstance(found, sg.ShardedArray), (what, type(found))
        want = np.asarray(want)
        assert (found.shape, found.dtype) == (want.shape, want.dtype), what
        tolerance = 1e-5 if want.dtype in (np.float32, np.complex64) else 1e-12
        np.testing.assert_allclose(found.to_global(), want, rtol=tolerance, atol=tolerance, err_msg=str(what))
    else:
        assert found == want, what


def compared(case, rule, what):
    grid = sg.init_grid((2, 3))
    with sg.use_sharding_defaults(grid, RULES[rule](grid)):
        same(case(sg.array_api, *inputs(sg.array_api)), case(strict, *inputs(strict)), what)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("case", CASES)
def test_functions(spmd, case, rule):
    spmd(6, compared, CASES[case], rule, case)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", UNARY)
def test_functions_of_one_array(spmd, kind, rule):
    def case(xp, a, b, i, c, m, v, z):
        x = UNARY_INPUTS[kind](xp, a, i, c, m)
        return [getattr(xp, name)(x) for name in UNARY[kind].split()]

    spmd(6, compared, case, rule, kind)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", BINARY)
def test_functions_of_two_arrays(spmd, kind, rule):
    def case(xp, a, b, i, c, m, v, z):
        x, y = BINARY_INPUTS[kind](xp, a, b, i, m)
        return [getattr(xp, name)(x, y) for name in BINARY[kind].split()]

    spmd(6, compared, case, rule, kind)


@pytest.mark.parametrize(
    "name", ["cholesky", "det", "eigh", "eigvalsh", "inv", "pinv", "qr", "slogdet", "svd", "svdvals"]
)
def test_factorisations_are_refused(spmd, name):
    def body():
        with (
            sg.use_sharding_defaults(sg.init_grid((3,))),
            pytest.raises(sg.ImplicitGatherError, match="no sharding rule"),
        ):
            getattr(sg.array_api.linalg, name)(sg.array_api.eye(5))

    spmd(3, body)


NEWER = {"broadcast_shapes", "isin"}  # than version 2024.12
# Functions whose results cannot be compared here, and the tests that have them.
ELSEWHERE = {"from_dlpack": "test_defaults.py", "searchsorted": "below"}


def test_every_function_is_compared():
    text = Path(__file__).read_text()
    compared_names = set(re.findall(r"xp\.(\w+)", text)) | set(" ".join([*UNARY.values(), *BINARY.values()]).split())
    functions = {name for name in strict.__all__ if name.islower() and callable(getattr(strict, name))}
    standard = {name for name in functions if "strict" not in name and "__" not in name} - NEWER
    assert standard <= set(dir(sg.array_api))
    assert standard - compared_names - set(ELSEWHERE) == set()


def test_searchsorted_in_a_list_that_every_process_has(spmd):
    def body():
        grid = sg.init_grid((3,))
        with sg.use_sharding_defaults(grid):
            numbers = np.array([-3.0, 0.5, 0.5, 4.0])
            table, sought = sg.array_api.asarray(numbers, sharding=sg.Sharding(grid, [])), sg.array_api.asarray(A)
            for side in ("left", "right"):
                found = sg.array_api.searchsorted(table, sought, side=side)
                assert (found.to_global() == np.searchsorted(numbers, A, side)).all()

    spmd(3, body)
