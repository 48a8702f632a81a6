"""The dialect's own cases that are text: what is refused, with its place, and what is read and printed again.

Deviations from the dialect's verifier, all on purpose:

* neighbours along two axes are refused when the text is read, not only when it is lowered;
* offsets that do not begin with 0, do not cover the dimension, or are too many, are refused (`verify_gap`);
* annotations that the dialect's partition pass demands on every argument and result (`partition_error`) are not
  demanded: propagation finds the shardings of what is not annotated.
"""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("xdsl")

from support.dialect.case_texts import program_of

from spmd_grid import dialect
from spmd_grid.errors import DialectSyntaxError, DialectVerifyError

CASES = json.loads((Path(__file__).parent / "dialect_cases.json").read_text())["cases"]
REFUSED = {case["name"]: case for case in CASES if case["kind"] == "verify_error"}
GAPS = {case["name"]: case for case in CASES if case["kind"] == "verify_gap"}
TYPED = {case["name"]: case for case in CASES if case["kind"] == "op_shape"}

# Error code of the case: what the message says.
SAID = {
    "unsupported_in_lowering": "exactly 1 axis, found [0, 1]",
    "rank_not_positive": "rank of a grid must be positive",
    "grid_axis_duplicated": "grid axis 0 is duplicated",
    "grid_axes_duplicate": "grid axis 0 is duplicated",
    "grid_axis_negative": "grid axis -1 is negative",
    "grid_axis_out_of_bounds": "grid axis 2 is out of bounds [0, 2)",
    "halo_count_not_2_per_split_dim": "expected 2 for each of 2 split dimensions, 4 in all, found 2",
    "halo_and_offsets_exclusive": "mutually exclusive",
    "offsets_wrong_size": "expected 8 (2 blocks and an end + 4 blocks and an end), found 7",
    "offsets_decreasing": "decreasing: 2 after 3",
    "result_count": "expected {expected} results, found {results}",
    "undefined_grid_symbol": "the grid @grid0 is not defined; defined are: none",
    "shape_mismatch": "same shape as the input, 4, found 5",
    "result_dim": "dimension {dim} of the result must be {expected}, found",
    "result_must_be_dynamic": "must be dynamic ('?')",
    "gather_axis_out_of_bounds": "gather_axis {gather_axis} is out of bounds [0, 1)",
    "tensor_axis_out_of_bounds": " 5 is out of bounds [0, 2) of the tensor's rank",
    "split_axis_out_of_bounds": "split_axis 5 is out of bounds [0, 2) of the tensor's rank",
    "device_index_wrong_size": "has 2 coordinates, expected 1",
    "device_coordinate_out_of_range": "coordinate 3 is out of range [0, 3) on grid axis 0",
    "element_type_mismatch": "must be that of the input, i8, found i16",
    "shift_axis_not_in_grid_axes": "shift_axis 1 must be one of grid_axes [0]",
}


def said(case):
    """A part of the message."""
    return SAID[case["error"]].format(**{"dim": 0, **case})


@pytest.mark.parametrize("name", [name for name, case in REFUSED.items() if case["error"] != "parse_error"])
def test_wrong_programs_are_refused_with_their_place(name):
    case = REFUSED[name]
    text, line = program_of(case)
    with pytest.raises(DialectVerifyError) as refusal:
        dialect.parse(text, "case.mlir")
    message = str(refusal.value)
    place = re.match(r"case\.mlir:(\d+):(\d+): shard\.", message)
    assert place, message
    assert int(place[1]) == line
    assert text.splitlines()[line - 1][int(place[2]) - 1 :].startswith(f"shard.{case['op']}")
    assert said(case) in message


def test_a_negative_size_of_a_grid_is_a_mistake_of_the_text():
    text, _ = program_of(REFUSED["grid_negative"])
    with pytest.raises(DialectSyntaxError, match=r"^case\.mlir:1:27: "):
        dialect.parse(text, "case.mlir")


@pytest.mark.parametrize(
    "name, message",
    [
        ("offsets_too_long", r":3:8: shard.sharding: .*expected 3 \(2 blocks and an end\), found 4"),
        ("offsets_do_not_cover", ":3:8: shard.sharding: .*must begin with 0, found 1"),
    ],
)
def test_gaps_of_the_dialects_verifier_are_closed(name, message):
    with pytest.raises(DialectVerifyError, match=message):
        dialect.parse(program_of(GAPS[name])[0])


@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize("generic", [False, True])
def test_right_programs_are_printed_and_read_again(name, generic):
    text, line = program_of(TYPED[name])
    module = dialect.parse(text)
    printed = dialect.to_text(module, generic=generic)
    assert dialect.parse(printed).is_structurally_equivalent(module)
    if not generic:
        wanted = text.splitlines()[line - 1].split(" = ", 1)[1]
        assert " ".join(wanted.replace(" grid_axes = []", "").replace(" reduction = sum", "").split()) in printed
