"""Headers: what members tell each other of their arrays, the long way too; errors on the way."""

import numpy as np
import pytest
from support.same_bytes import same_bytes

import spmd_grid as sg
from spmd_grid import errors
from spmd_grid.exchange.agreement.header import (
    ERROR,
    LONG,
    PLAIN,
    PREFIX_BYTES,
    Facts,
    decode_facts,
    encode,
    encode_facts,
    fingerprint,
    read_prefix,
)
from spmd_grid.exchange.agreement.learn_facts import encode_error, error_from
from spmd_grid.exchange.dtype_tokens import dtype_of_token
from spmd_grid.transport.communicator import HEADER_BYTES, INLINE_BYTES

RECORD = np.dtype([(f"a_field_with_a_rather_long_name_{i}", "f8", (i + 1,)) for i in range(9)])
TITLED = np.dtype([(("title", "a"), "i2"), ("b", [("c", "c8"), ("d", "S3", (2, 2))])], align=True)
DTYPES = [
    TITLED,
    "?",
    "i1",
    "<f8",
    ">f8",
    "c16",
    "g",
    "S5",
    "U3",
    "V7",
    "M8[ns]",
    "m8[D]",
    [("a", "i2"), ("b", ">f8")],
    RECORD,
]
PATHS = ["auto", "direct", "inline", "message"]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: "record" if dtype is RECORD else str(dtype))
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (2**40, 3), tuple(range(1, 33))], ids=str)
def test_facts_come_back(shape, dtype):
    facts = Facts(shape, np.dtype(dtype))
    assert decode_facts(encode_facts(facts)) == facts
    with_out = Facts(shape, np.dtype(dtype), shape[::-1], np.dtype("f4"))
    assert decode_facts(encode_facts(with_out)) == with_out
    assert encode_facts(facts) == encode_facts(Facts(tuple(shape), np.dtype(dtype)))


def test_no_array():
    facts = Facts(None, None)
    assert decode_facts(encode_facts(facts)) == facts
    assert facts.nbytes == 0 and facts.fits_inline


def test_size_of_facts():
    assert Facts((2**20, 2**20), np.dtype("f8")).nbytes == 2**43
    assert Facts((INLINE_BYTES,), np.dtype("i1")).fits_inline
    assert not Facts((INLINE_BYTES + 1,), np.dtype("i1")).fits_inline


def test_extension_dtype_comes_back():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    facts = Facts((3,), np.dtype(ml_dtypes.bfloat16))
    assert decode_facts(encode_facts(facts)) == facts


@pytest.mark.parametrize(
    "token",
    [
        "O",
        "|O",
        "i4,O",
        "f8 ",
        ["os"],
        ["bfloat16.__class__"],
        [8, 0, ["a", "O", 0]],
        ["<f8", [-1]],
        {"a": 1},
        7,
        [],
        None,
    ],
    ids=str,
)
def test_what_is_no_dtype_is_refused(token):
    with pytest.raises(sg.DTypeError, match="no dtype here"):
        dtype_of_token(token)


def test_an_array_of_another_packages_dtype_is_refused_alike(spmd):
    def body():
        grid = sg.init_grid((2,))
        x = np.zeros(2, np.dtypes.StringDType()) if grid.rank else np.zeros(2)
        error = caught(lambda: sg.all_gather(x, grid, [0], 0))
        return error, sg.all_reduce(1, grid)

    first, second = spmd(2, body)
    assert first == second and first[0][0] == "DTypeError" and first[1] == 2


@pytest.mark.parametrize("n", [0, 1, HEADER_BYTES - PREFIX_BYTES, HEADER_BYTES - PREFIX_BYTES + 1, 5000])
def test_a_body_that_does_not_fit_goes_the_long_way(n):
    call, body = fingerprint("all_gather"), bytes(range(256)) * 20
    header, late = encode(PLAIN, call, body[:n])
    assert len(header) == HEADER_BYTES
    kind, length, found = read_prefix(header)
    assert (length, found) == (n, call)
    if n <= HEADER_BYTES - PREFIX_BYTES:
        assert kind == PLAIN and late == b"" and header[PREFIX_BYTES : PREFIX_BYTES + n] == body[:n]
    else:
        assert kind == LONG and late == body[:n]


def test_an_error_always_goes_the_long_way():
    header, late = encode(ERROR, fingerprint("x"), b"short")
    assert read_prefix(header)[0] == ERROR and late == b"short"


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name != "RankEndedError"])
def test_errors_come_back(name):
    error = getattr(errors, name)("what was wrong, in several words\nand lines: \N{GREEK SMALL LETTER ALPHA}")
    found = error_from(encode_error(error))
    assert type(found) is type(error) and str(found) == str(error)


def test_fingerprints_differ():
    assert fingerprint("all_gather 0") != fingerprint("all_gather 1")
    assert len(fingerprint("")) == 8


# -- the long way, by an operation -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_long_descriptions_travel_again_and_again(spmd, path):
    """Descriptions that a header only announces are not taken from memory, on those who announced nothing either."""

    def body():
        grid = sg.init_grid((3,))
        for i in range(4):
            for root in range(3):
                # The length of the description stays, what it says does not.
                dtype = np.dtype([(f"{name}_{i}_of_a_record_that_is_described_at_length_" * 2, "i2") for name in "xy"])
                x = np.full(5, i, dtype) if grid.rank == root else None
                result = sg.broadcast(x, grid, [0], [root])
                assert result.dtype == dtype and result.tolist() == [(i, i)] * 5
        return True

    with sg.forced_path(path):
        assert all(spmd(3, body))


@pytest.mark.parametrize("path", PATHS)
def test_twelve_dimensions(spmd, path):
    shape = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 2, 3)

    def body():
        grid = sg.init_grid((2,))
        x = (np.arange(48) + 100 * grid.rank).reshape(shape)
        for _ in range(2):
            y = sg.all_gather(x, grid, [0], 11)
            assert np.array_equal(y, np.concatenate([x - 100 * grid.rank, x - 100 * grid.rank + 100], axis=11))
            z = sg.all_to_all(x, grid, [0], 10, 11)
            assert z.shape == (*shape[:10], 1, 6)
            assert np.array_equal(sg.shift(x, grid, [0], 0, 1, rotate=True), x + 100 - 200 * grid.rank)
        return True

    with sg.forced_path(path):
        assert all(spmd(2, body))


@pytest.mark.parametrize("path", PATHS)
def test_records(spmd, path):
    def body():
        grid = sg.init_grid((2,))
        x = np.frombuffer(bytes(range(1, 121)) * (RECORD.itemsize // 24), RECORD, 5)
        y = sg.all_gather(x, grid, [0], 0)
        assert same_bytes(y, np.concatenate([x, x]))
        if grid.rank == 0:
            sg.send(x, grid, [0], [1])
        else:
            assert same_bytes(sg.recv(grid, [0]), x)
        return True

    with sg.forced_path(path):
        assert all(spmd(2, body))


# -- agreement -------------------------------------------------------------------------------------------------


def caught(call):
    with pytest.raises(sg.SpmdError) as error:
        call()
    return type(error.value).__name__, str(error.value)


@pytest.mark.parametrize("path", PATHS)
def test_one_refusal_for_all_and_then_on(spmd, path):
    def body():
        grid = sg.init_grid((3,))
        found = []
        for culprit in range(3):
            x = np.array([None]) if grid.rank == culprit else np.zeros(1)
            found.append(caught(lambda x=x: sg.all_gather(x, grid, [0], 0)))
            assert sg.all_gather(np.zeros(1), grid, [0], 0).shape == (3,)
        return found

    with sg.forced_path(path):
        results = spmd(3, body)
    assert results[0] == results[1] == results[2]
    for culprit, (name, message) in enumerate(results[0]):
        assert name == "DTypeError" and f"rank {culprit}" in message


@pytest.mark.parametrize("path", PATHS)
def test_a_refusal_beside_a_long_description(spmd, path):
    def body():
        grid = sg.init_grid((3,))
        x = [np.zeros(2, RECORD), None, np.zeros(2)][grid.rank]
        return caught(lambda: sg.all_gather(x, grid, [0], 0))

    with sg.forced_path(path):
        results = spmd(3, body)
    assert results == [results[0]] * 3
    assert "rank 1" in results[0][1]


@pytest.mark.parametrize("path", PATHS)
def test_different_operations_and_arguments(spmd, path):
    def body():
        grid = sg.init_grid((3,))
        x = np.zeros(3)
        found = [
            caught(lambda: sg.broadcast(x, grid, [0], [0]) if grid.rank else sg.all_reduce(x, grid, [0], "sum")),
            caught(lambda: sg.all_reduce(x, grid, [0], "max" if grid.rank == 2 else "sum")),
            caught(lambda: sg.gather(x, grid, [0], 0, [grid.rank])),
        ]
        assert sg.all_reduce(1, grid, [0], "sum") == 3
        return found

    with sg.forced_path(path):
        results = spmd(3, body)
    assert results == [results[0]] * 3
    for name, message in results[0]:
        assert name == "MismatchError"
        assert all(f"rank {rank}" in message for rank in range(3))
    assert "broadcast" in results[0][0][1] and "all_reduce" in results[0][0][1]
