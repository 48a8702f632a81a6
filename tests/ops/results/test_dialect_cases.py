"""The dialect's own tests and documents about operations, as data; each case runs by name or says why it does not."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from support.ops import ops_oracle

import spmd_grid as sg

CASES = {case["name"]: case for case in json.loads((Path(__file__).parent / "dialect_op_cases.json").read_text())}

NOT_HERE = {
    "shift_unknown_grid": "a grid is a value, not a symbol that may be unknown",
    "send_elem_type": "a send has no declared result type; here dtype and shape travel with the message",
    **dict.fromkeys(
        (
            "gather_dynamic",
            "all_slice_dynamic",
            "reduce_scatter_dynamic",
            "scatter_dynamic",
            "all_to_all_dynamic_group",
        ),
        "sizes are numbers at run time: there are no dynamic sizes, and no declared result types",
    ),
}
TAKEN_HERE = {"all_to_all_nondivisible": "the block rule cuts any extent, so 2 rows over 4 devices are 1, 0, 1, 0"}

DTYPES = {"i8": "int8", "i16": "int16", "f32": "float32", "f64": "float64"}
ARGUMENTS = {
    "root", "gather_axis", "slice_axis", "split_axis", "concat_axis", "scatter_dim", "shift_axis", "offset", "rotate",
    "reduction", "destination", "source_device",
}  # fmt: skip

USUAL = {  # what a refused case leaves out because it is refused for something else
    "all_gather": {"gather_axis": 0},
    "gather": {"gather_axis": 0, "root": [0]},
    "broadcast": {"root": [0]},
    "reduce": {"root": [0]},
    "scatter": {"scatter_dim": 0, "root": [0]},
    "shift": {"shift_axis": 0, "offset": 0},
}

# A result type that the dialect refuses to have declared is refused here as ``out=``.
DECLARED = dict.fromkeys(("shape_mismatch", "result_dim", "element_type_mismatch"), "OutputError: ")
REFUSALS = {
    "grid_axis_out_of_bounds": "go from 0 to 1",
    "grid_axes_duplicate": "must not be listed twice",
    "gather_axis_out_of_bounds": "gather_axis",
    "tensor_axis_out_of_bounds": "has dimensions 0 to 1",
    "split_axis_out_of_bounds": "has dimensions 0 to 1",
    "device_index_wrong_size": "of length 2; it must have 1 coordinate,",
    "device_coordinate_out_of_range": "go from 0 to 2, 3 is outside",
    "shift_axis_not_in_grid_axes": "is not among grid_axes",
    **DECLARED,
}


def grid_shape(case):
    """The case's grid; a size it leaves open is 2."""
    return [2 if size is None else size for size in case["grid"]]


def arguments(case):
    return {name: value for name, value in case.items() if name in ARGUMENTS}


def by_device(case, values):
    """Arrays in the order of linear indices, from a dict by coordinates."""
    devices = [",".join(map(str, coords)) for coords in np.ndindex(*case["grid"])]
    return [None if values[device] is None else np.array(values[device], "i8") for device in devices]


def run_op_data(case, spmd):
    inputs, outputs = by_device(case, case["input"]), by_device(case, case["output"])
    args = arguments(case)

    def body():
        grid = sg.init_grid(case["grid"])
        return getattr(sg, case["op"])(inputs[grid.rank], grid, case["grid_axes"], **args)

    results = spmd(len(inputs), body)
    assert all(map(ops_oracle.same, results, outputs))
    args["scatter_axis"] = args.pop("scatter_dim", None)
    args = {name: value for name, value in args.items() if value is not None}
    assert all(
        map(ops_oracle.same, ops_oracle.expected(case["op"], inputs, case["grid"], case["grid_axes"], **args), outputs)
    )


def run_op_data_by_rule(case, spmd):
    def body():
        grid = sg.init_grid(case["grid"])
        part = sg.all_slice(np.arange(6), grid, case["grid_axes"], case["slice_axis"])
        return ",".join(map(str, grid.coords)), grid.coords, part.tolist()

    found = spmd(math.prod(case["grid"]), body)
    assert all(part == [m * 3 + j] for _, (_, j, _, m), part in found)
    assert case["sample"].items() <= {device: part for device, _, part in found}.items()


def run_op_shape(case, spmd):
    if case["op"] in ("send", "recv"):
        return run_message(case, spmd)

    def body():
        grid = sg.init_grid(grid_shape(case))
        x = np.ones(case["in"], DTYPES[case.get("in_dtype", "f64")])
        if case["op"] == "update_halo":
            return sg.update_halo(x, grid, case["split_axes"], case["halo_sizes"])
        args = arguments(case)
        if "out_dtype" in case:
            args["dtype"] = DTYPES[case["out_dtype"]]
        return getattr(sg, case["op"])(x, grid, case["grid_axes"], **args)

    results = [result for result in spmd(math.prod(grid_shape(case)), body) if result is not None]
    assert results
    for result in results:
        assert all(
            open_size is None or size == open_size for size, open_size in zip(result.shape, case["out"], strict=True)
        )
        assert result.dtype == DTYPES[case.get("out_dtype", "f64")]


def run_message(case, spmd):
    """Everybody sends to the device (0, 1) of its group, which takes the messages of any source."""

    def body():
        grid = sg.init_grid(case["grid"])
        axes, target = case["grid_axes"], case.get("destination", [0, 1])
        sent = sg.send.start(np.full(case["in"], grid.rank), grid, axes, target)
        received = []
        if list(grid.process_multi_index(axes)) == target:
            received = [sg.recv(grid, axes, source=case.get("source_device")) for _ in range(8)]
        sent.wait()
        return received

    results = spmd(math.prod(case["grid"]), body)
    received = [message for result in results for message in result]
    assert len(received) == 16 and {message.shape for message in received} == {tuple(case["out"])}
    assert sorted(int(message[0]) for message in received) == list(range(16))


def run_verify_error(case, spmd):
    def body():
        grid = sg.init_grid(grid_shape(case))
        x = np.zeros(case.get("in", (2,)), DTYPES[case.get("in_dtype", "i8")])
        axes, args = case.get("grid_axes", [0]), USUAL.get(case["op"], {}) | arguments(case)
        if case.get("error") in DECLARED:
            args["out"] = np.zeros(case.get("out", x.shape), DTYPES[case.get("out_dtype", "i8")])
        try:
            if case["op"] == "recv":
                sent = sg.send.start(x, grid, axes, grid.process_multi_index(axes))
                args["source"] = args.pop("source_device", [grid.coords[0]])
                try:
                    sg.recv(grid, axes, **args)
                except sg.DeviceError:
                    sg.recv(grid, axes)
                    raise
                finally:
                    sent.wait()
            else:
                getattr(sg, case["op"])(x, grid, axes, **args)
        except sg.SpmdError as error:
            return f"{type(error).__name__}: {error}"

    for message in spmd(math.prod(grid_shape(case)), body):
        assert REFUSALS[case["error"]] in message


def run_update_halo_data(case, spmd):
    whole = np.array(case["global_tensor"])
    sizes = [n // m for n, m in zip(case["shape"], case["grid"], strict=True)]

    def body():
        grid = sg.init_grid(case["grid"])
        core = tuple(slice(c * n, (c + 1) * n) for c, n in zip(grid.coords, sizes, strict=True))
        local = np.pad(whole[core], 1)
        assert sg.update_halo(local, grid, case["split_axes"], case["halo_sizes"]) is local
        return local

    for result, output in zip(spmd(math.prod(case["grid"]), body), by_device(case, case["result"]), strict=True):
        assert result.tolist() == output.tolist()


def run_update_halo_plan(case, spmd):
    """Device 24 and its two neighbours alone update; every strip of the plan holds what it was sent."""

    def strip(part, local):
        return local[tuple(slice(start, start + n) for start, n in zip(part["offset"], part["size"], strict=True))]

    me, line = case["rank"], (4, 24, 44)

    def body():
        grid = sg.init_grid(case["grid"])
        if grid.rank not in line:
            return None
        assert grid.rank != me or list(grid.coords) == case["multi_index"]
        before = np.arange(120**3, dtype="i4").reshape(case["local_shape"]) + grid.rank * 120**3
        after = sg.update_halo(before.copy(), grid, case["split_axes"], case["halo_sizes"])
        return before, after

    results = spmd(math.prod(case["grid"]), body)
    for step in case["steps"]:
        up, down = step["send"], step["recv"]
        assert np.array_equal(strip(down, results[me][1]), strip(up, results[down["from"]][0]))
        assert np.array_equal(strip(down, results[up["to"]][1]), strip(up, results[me][0]))
    low, high = case["halo_sizes"]
    assert np.array_equal(results[me][1][low:-high], results[me][0][low:-high])


RUN = [name for name in CASES if name not in NOT_HERE]


@pytest.mark.parametrize("name", RUN)
def test_case(spmd, name):
    globals()[f"run_{CASES[name]['kind']}"](CASES[name], spmd)


def test_every_case_is_run_or_listed():
    assert set(NOT_HERE) <= set(CASES) and len(RUN) + len(NOT_HERE) == len(CASES) == 69
    assert all(f"run_{CASES[name]['kind']}" in globals() for name in RUN)
    assert set(REFUSALS) == {CASES[name]["error"] for name in RUN if "error" in CASES[name]}
    for name, reason in NOT_HERE.items():
        case = CASES[name]
        stale = {
            "unknown": case["grid"] is not None,
            "dynamic": None not in [*case.get("in", ()), *(case["grid"] or ())],
            "send": case["op"] != "send",
        }
        assert not any(is_stale for word, is_stale in stale.items() if word in reason), name


def test_taken_here_though_the_dialect_has_no_meaning_for_it(spmd):
    """The dialect types 2 rows over 4 devices as dynamic and cannot run it; the block rule can."""
    case = CASES["all_to_all_nondivisible"]

    def body():
        grid = sg.init_grid((2, 2))
        return sg.all_to_all(np.full(case["in"], grid.rank), grid, case["grid_axes"], 0, 1).shape

    assert TAKEN_HERE and spmd(4, body) == [(1, 12), (0, 12), (1, 12), (0, 12)]
