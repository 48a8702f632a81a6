"""Folds against numpy's ufuncs, bit for bit (NaNs as NaNs)."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.same_bytes import same_bytes

from spmd_grid import kernels
from spmd_grid.errors import DTypeError, ReductionError, ShapeError
from spmd_grid.kernels import reference
from spmd_grid.kernels.reduce import folds as policy
from spmd_grid.reduction_kind import KINDS

DTYPES = [np.dtype(c) for c in "?bBhHiIlLqQfdFD"]
ALL_PAIRS = [  # every kind for some integers, two kinds for the others: each pair is a kernel to compile
    (kind, dtype)
    for dtype in DTYPES
    for kind in KINDS
    if kernels.supports(dtype, kind) and (dtype.char in "?bIqfdFD" or kind in ("sum", "max"))
]
PAIRS = [  # of each kind and of each dtype one at least
    (kind, dtype)
    for kind, dtype in ALL_PAIRS
    if (list(KINDS).index(kind) + DTYPES.index(dtype)) % (5 if dtype.char in "?bIqfdFD" else 2) == 0
    or (kind, dtype.char) in [("bitwise_or", "q"), ("bitwise_xor", "?")]
]
FEW_PAIRS = PAIRS[:: len(PAIRS) // 12]


def in_full(pairs, more):
    """The pairs; with ``--full`` those of ``more`` too."""
    return [*pairs, *(pytest.param(*pair, marks=pytest.mark.full) for pair in more if pair not in pairs)]


def expected_of(kind, stack):
    with np.errstate(all="ignore"):
        return functools.reduce(KINDS[kind].combine, list(stack)).astype(stack.dtype, copy=False)


def same_bits(a, b):
    assert a.dtype == b.dtype
    if a.dtype.kind == "c":
        a, b = (np.stack([x.real, x.imag]) for x in (a, b))
    if a.dtype.kind == "f":
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
        a, b = (np.where(np.isnan(x), x.dtype.type(0), x) for x in (a, b))
    assert same_bytes(a, b)


def specials(dtype):
    """The values at which elementwise meanings differ."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([0, 1, 3, info.max, info.max - 1, info.min, info.min + 1], dtype)
    info = np.finfo(dtype)
    real = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, info.max, info.smallest_subnormal, info.eps])
    if dtype.kind == "f":
        return real.astype(dtype)
    values = np.empty((8, 8), dtype)
    values.real, values.imag = real[:8, None], real[:8]
    return values.ravel()


def compiled(kind, stack):
    from spmd_grid.kernels.reduce.variants import fold_rows

    out = np.empty_like(stack[0])
    rows = np.array([kernels.address_of(row) for row in stack])
    fold_rows(kind, stack.dtype, rows, out.size, kernels.address_of(out), 0)
    return out


@pytest.mark.parametrize(("kind", "dtype"), in_full(PAIRS, ALL_PAIRS), ids=lambda x: str(x))
def test_every_pair_of_special_values(kind, dtype):
    values = specials(dtype)
    stack = np.stack([np.repeat(values, len(values)), np.tile(values, len(values))])
    same_bits(compiled(kind, stack), expected_of(kind, stack))


@pytest.mark.parametrize(("kind", "dtype"), FEW_PAIRS, ids=lambda x: str(x))
@pytest.mark.parametrize("rows", range(1, 11))
def test_every_number_of_rows_across_blocks(kind, dtype, rows):
    from spmd_grid.kernels.reduce.rows import FOLD_BLOCK_BYTES

    size = FOLD_BLOCK_BYTES // dtype.itemsize + 13
    stack = np.random.default_rng(rows).choice(specials(dtype), (rows, size))
    expected = expected_of(kind, stack)
    same_bits(compiled(kind, stack), expected)
    out = np.empty_like(stack[0])
    reference.fold(kind, stack, out)
    same_bits(out, expected)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_policy_twin_and_kernel_agree(data):
    kind, dtype = data.draw(st.sampled_from([*PAIRS, ("product", np.dtype("D")), ("product", np.dtype("F"))]))
    rows, size = data.draw(st.integers(1, 9)), data.draw(st.integers(0, 70))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    if dtype.kind in "fc" and data.draw(st.booleans()):
        stack = rng.normal(size=(rows, size)).astype(dtype)
    else:
        stack = rng.choice(specials(dtype), (rows, size))
    stack = data.draw(st.sampled_from([stack, stack[::-1], np.asfortranarray(stack), np.repeat(stack, 2, 0)[::2]]))
    expected = expected_of(kind, stack)
    packed = np.ascontiguousarray(stack)
    addresses = np.array([kernels.address_of(row) for row in packed])
    for compiled_from in (0, policy.COMPILED_FROM):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(policy, "COMPILED_FROM", compiled_from)
            out, other = np.empty_like(expected), np.empty_like(expected)
            kernels.fold(kind, stack, out)
            kernels.fold_addresses(kind, addresses, size, other)
        same_bits(out, expected)
        same_bits(other, expected)
    reference.fold_addresses(kind, addresses, size, other)
    same_bits(other, expected)


@pytest.mark.parametrize(("kind", "dtype"), FEW_PAIRS, ids=lambda x: str(x))
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 6, 9])
@pytest.mark.parametrize("offset", [0, 1])
def test_streamed_past_the_caches(kind, dtype, rows, offset, monkeypatch):
    monkeypatch.setattr(policy, "STREAMED_FROM", 1 << 16)
    monkeypatch.setattr(policy, "COMPILED_FROM", 0)
    size = (1 << 16) // dtype.itemsize + 4099
    stack = np.random.default_rng(rows).choice(specials(dtype), (rows, size + 1))[:, offset : size + offset]
    out = np.empty(size + 1, dtype)
    kernels.fold(kind, stack, out[1 - offset : size + 1 - offset])
    same_bits(out[1 - offset : size + 1 - offset], expected_of(kind, stack))
    expected = expected_of(kind, stack)
    kernels.fold(kind, stack, stack[0])
    same_bits(np.ascontiguousarray(stack[0]), expected)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 9])
def test_in_place_into_the_first_row(rows):
    stack = np.random.default_rng(0).normal(size=(rows, 20000))
    expected = expected_of("sum", stack)
    kernels.fold("sum", stack, stack[0])
    same_bits(stack[0], expected)


def test_repeated_row():
    stack = np.broadcast_to(np.arange(30000.0), (4, 30000))
    out = np.empty(30000)
    kernels.fold("sum", stack, out)
    np.testing.assert_array_equal(out, 4 * np.arange(30000.0))


@pytest.mark.parametrize("dtype", ["f2", "g", ">f8", ">i4", "G"])
def test_other_dtypes_are_numpys(dtype):
    dtype = np.dtype(dtype)
    assert not kernels.supports(dtype)
    stack = np.random.default_rng(0).normal(size=(5, 40000)).astype(dtype)
    out = np.empty_like(stack[0])
    kernels.fold("sum", stack, out)
    np.testing.assert_array_equal(out, expected_of("sum", stack))


def test_complex_product_is_numpys():
    assert not kernels.supports(np.dtype("complex64"), "product")
    rng = np.random.default_rng(0)
    stack = (rng.normal(size=(6, 70001)) + 1j * rng.normal(size=(6, 70001))).astype("complex64")
    out = np.empty_like(stack[0])
    kernels.fold("product", stack, out)
    same_bits(out, expected_of("product", stack))


def test_refusals():
    x = np.zeros((3, 4))
    with pytest.raises(ReductionError, match="'median'"):
        kernels.fold("median", x, x[0])
    with pytest.raises(ShapeError, match=r"\(3, 4\) into \(5,\)"):
        kernels.fold("sum", x, np.zeros(5))
    with pytest.raises(ShapeError, match=r"\(0, 4\)"):
        kernels.fold("sum", x[:0], x[0])
    with pytest.raises(DTypeError, match="float64 into float32"):
        kernels.fold("sum", x, np.zeros(4, "f4"))
    with pytest.raises(ShapeError, match="2 rows of 4"):
        kernels.fold_addresses("sum", np.zeros(2, int), 4, np.zeros(5))
