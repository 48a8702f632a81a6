"""Explanations tell where shardings come from; costs, traces and pictures agree with what is run."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.jobs import clean_environment
from support.program.whole_programs import MLP_SHAPES, annotated_mlp, conjugate_gradients, hillslope_step

import spmd_grid as sg
from spmd_grid.program.partition.memory import peak_bytes

GRID = sg.Grid((2, 3), axis_names=("a", "b"))
HERE = Path(__file__).name


def chain(x, w):
    hidden = np.tanh(x @ w)
    total = hidden.sum(axis=1)
    return total


def line_of(text):
    """The number of the only line of `chain` with the text."""
    (line,) = [
        n for n, each in enumerate(Path(__file__).read_text().splitlines(), 1) if f"    {text}" in each[: len(text) + 4]
    ]
    return f"{HERE}:{line}"


@pytest.fixture
def part():
    program = sg.trace(chain, sg.ArraySpec((5, 4)), sg.ArraySpec((4, 7)))
    return sg.partition(program, GRID, [sg.Sharding(GRID, [["a"]]), sg.Sharding(GRID, [[], ["b"]])])


def test_values_have_the_names_of_variables(part):
    assert [value.name for value in part.program.values] == ["x", "w", "2", "hidden", "total"]
    assert part.sharding_of("hidden") == sg.Sharding(GRID, [["a"], ["b"]])


def test_the_way_of_a_sharding_is_told_line_by_line(part):
    assert part.explain("hidden").splitlines() == [
        f"%hidden: float64[5, 7], tanh(%2) at {line_of('hidden = ')}",
        "  sharding [[a],[b]]",
        "  dimension 0 by [a]:",
        f"    through tanh at {line_of('hidden = ')}, from dimension 0 of %2",
        f"    through matmul at {line_of('hidden = ')}, from dimension 0 of %x",
        "    by in_shardings[0]",
        "  dimension 1 by [b]:",
        f"    through tanh at {line_of('hidden = ')}, from dimension 1 of %2",
        f"    through matmul at {line_of('hidden = ')}, from dimension 1 of %w",
        "    by in_shardings[1]",
        "  it is never moved",
    ]


def test_communications_are_explained_with_their_bytes(part):
    text = part.explain("total")
    assert f"1. all_reduce over [b]: reshard of %total after sum at {line_of('total = ')}" in text
    ((name, axes, received),) = part.collectives()
    assert (name, axes) == ("all_reduce", (1,)) and f"receives up to {received} B" in text
    assert "sum leaves it as [[a]], partial sum over [b]" in text
    assert part.explain().count("\n%") == 5 and "1 communication:" in part.explain()


def test_unknown_values_are_refused(part):
    with pytest.raises(KeyError, match="no value 'nothing'; its values are x, w, 2, hidden, total"):
        part.explain("nothing")


def test_hints_that_do_not_hold_are_listed():
    def hinted(x):
        y = sg.constrain(x * 2, sg.Sharding(GRID, [["b"]]))
        y = sg.constrain(y, sg.Sharding(GRID, [["a"]]), required=False)
        return y

    part = sg.partition(sg.trace(hinted, sg.ArraySpec((6, 6))), GRID)
    text = part.explain()
    assert "hints that do not hold:" in text and part.sharding_of(0) == sg.Sharding(GRID, [["b"]])
    line = next(n for n, each in enumerate(Path(__file__).read_text().splitlines(), 1) if "required=False)" in each)
    assert f"constrain at {HERE}:{line}" in text.split("hints that do not hold:")[1]


def test_costs_follow_from_the_communications(part):
    cost = part.cost()
    (collective,) = part.collectives()
    assert cost.received == collective.bytes and cost.bytes_per_axis == (0, collective.bytes)
    # The busiest device has 3 rows and 3 columns: a product of 4 steps, tanh, and a sum.
    assert cost.flops == 3 * 3 * (2 * 4 + 1 + 1)
    assert cost.redundant_flops == 0
    assert cost.seconds > 0 and cost.communications == 1


def test_work_done_by_all_is_redundant():
    program = sg.trace(chain, sg.ArraySpec((5, 4)), sg.ArraySpec((4, 7)))
    cost = sg.partition(program, GRID).cost()
    assert cost.received == 0 and cost.redundant_flops >= cost.flops * 5 / 6 > 0


def test_peak_memory_follows_the_life_of_values():
    def doubled(x):
        for _ in range(9):
            x = x * 2
        return x

    grid = sg.Grid((2,))
    part = sg.partition(sg.trace(doubled, sg.ArraySpec((100, 10))), grid, sg.Sharding(grid, [[0]]))
    array = 50 * 10 * 8
    assert peak_bytes(part.schedule) in (2 * array, 3 * array)  # the argument, and one or two of ten values


def layers(x, w):
    for _ in range(12):
        x = np.maximum(x + w, 0) - x.mean(axis=1, keepdims=True)
    return x.sum()


def smoothed(u, v):
    for _ in range(6):
        inner = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] - 2 * u[1:-1, 1:-1])
        u = u.copy()
        u[1:-1, 1:-1] = inner + v[1:-1, 1:-1]
    return u


def steps_of_one_dimension(u):
    """Stencils, rolls, a slice with a step, and a stencil of what is left."""
    for _ in range(3):
        u = u[1:-1] + 0.1 * (u[2:] + u[:-2] - 2 * u[1:-1])
        u = u - np.roll(u, 3)
    u = u[::3]
    return u[2:] - u[:-2]


@pytest.mark.parametrize(("function", "axes"), [(layers, [[0], [1]]), (smoothed, [[0], [1]]), (smoothed, [[0, 1]])])
def test_a_million_devices_are_planned_at_once(function, axes):
    """Nothing looks at each device: calls of functions are counted, which a busy machine does not change."""
    from cProfile import Profile
    from pstats import Stats

    spec = sg.ArraySpec((1 << 21, 1 << 12) if len(axes) == 1 else (1 << 12, 1 << 12))
    program = sg.trace(function, spec, spec)
    counts = []
    for grid in (sg.Grid((2, 4)), sg.Grid((1 << 10, 1 << 10))):
        cut = sg.Sharding(grid, axes)
        profile = Profile()
        part = profile.runcall(lambda: sg.partition(program, grid, [cut, cut]))  # noqa: B023
        profile.runcall(part.cost)
        counts.append(Stats(profile).total_calls)
    assert counts[1] < 5 * counts[0]


@pytest.mark.parametrize("blocks", ["ceil", "balanced"])
@pytest.mark.parametrize("axes", [[0, 1], [1, 0]], ids=str)
def test_a_million_nested_uneven_blocks_are_planned_at_once(axes, blocks):
    """Two axes cut one dimension, and neither cut is even: not three times the work of a thousand devices."""
    from cProfile import Profile
    from pstats import Stats

    program = sg.trace(steps_of_one_dimension, sg.ArraySpec((10**8 + 7,)))
    counts = []
    for grid in (sg.Grid((32, 32)), sg.Grid((1 << 10, 1 << 10))):
        profile = Profile()
        cut = sg.Sharding(grid, [axes], blocks=blocks)
        profile.runcall(lambda: sg.partition(program, grid, [cut]))  # noqa: B023
        counts.append(Stats(profile).total_calls)
    assert counts[1] < 3 * counts[0], counts


def test_pictures_show_every_step_and_what_moves(part):
    html = part.picture()
    assert html == part._repr_html_()
    assert html.count("<tr") == len(part.schedule.steps) + len(part.schedule.arguments)
    assert html.count('<tr class="moves"') == 1 and "all_reduce over [1]" in html
    assert "<script" not in html and html.count("<svg") == html.count("</svg>") >= 5


def test_traces_name_what_explanations_name(tmp_path):
    """Measured operations carry the names of predicted ones, and their lines; so do those of the function itself."""
    program = tmp_path / "traced.py"
    program.write_text(
        "import numpy as np, spmd_grid as sg\n"
        "grid = sg.init_grid((2,))\n"
        "cut = sg.Sharding(grid, [[], [0]])\n"
        "def fn(x, w):\n"
        "    y = x @ w\n"
        "    return y\n"
        "part = sg.partition(sg.trace(fn, sg.ArraySpec((4, 6)), sg.ArraySpec((6, 8))), grid, [cut, None])\n"
        "x, w = (sg.zeros(s, t, grid) for s, t in zip(((4, 6), (6, 8)), part.in_shardings))\n"
        "part.run(grid, x, w)\n"
        "fn(x, sg.zeros((6, 8), sg.Sharding(grid, [[0]]), grid))\n"
        "if grid.rank == 0:\n"
        "    print(part.explain('y'))\n"
    )
    command = [sys.executable, "-m", "spmd_grid", "run", "-n", "2", str(program)]
    environment = clean_environment(
        SPMD_GRID_TRACE=str(tmp_path / "traces"), PYTHONPATH=str(Path(sg.__file__).parents[1])
    )
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    (name,) = re.findall(r"all_reduce over \[0\]: (.*)", done.stdout)
    assert name == "reshard of %y after matmul at traced.py:5"
    lines = (tmp_path / "traces" / "rank-0.json").read_text().splitlines()
    events = [json.loads(each.rstrip(",")) for each in lines if '"ph":"X"' in each]
    named = [each for each in events if f"'{name}'" in each["args"]["call"]]
    assert len(named) == 1 and named[0]["args"]["where"] == "traced.py:5" and named[0]["dur"] > 0
    eager = [each for each in events if each["cat"] == "operation" and each["ts"] > named[0]["ts"]]
    assert eager and {each["args"]["where"] for each in eager} == {"traced.py:5"}


@pytest.mark.parametrize("stage", ["traced", "annotated", "materialised", "partitioned", "optimised"])
def test_texts_define_every_name_once_before_it_is_used(stage):
    """Also of programs with slices, sums and moves that are no single collective."""
    cut = sg.Sharding(GRID, [["a"], ["b"]])
    programs = [
        (sg.trace(hillslope_step, sg.ArraySpec((7, 11)), sg.ArraySpec((7, 11))), cut),
        (sg.trace(conjugate_gradients(2), sg.ArraySpec((7, 11))), cut),
        (sg.trace(lambda x: np.cumsum(x[::-2], axis=0).reshape(-1) + 1.5, sg.ArraySpec((8, 12))), cut),
    ]
    for program, sharding in programs:
        for args in ("local", "global"):
            text = sg.partition(program, GRID, sharding, args=args).text(stage)
            head, *lines = text.split("func.func")[1].splitlines()
            known = set(re.findall(r"(%\w+):", head))
            for line in lines[:-1]:
                defined, _, rest = line.strip().rpartition(" = ") if line.strip().startswith("%") else ("", "", line)
                match = re.match(r"((?:%[\w:]+(?:, )?)+) = (.*)", line.strip())
                defined, rest = match.groups() if match else ("", line)
                assert set(re.findall(r"%\w+", rest)) <= known, line
                new = re.findall(r"%\w+", defined)
                assert known.isdisjoint(new), line
                known |= set(new)


def test_dimensions_of_uneven_blocks_are_open():
    program = sg.trace(lambda x: x * 2, sg.ArraySpec((7, 9), "int16"))
    part = sg.partition(program, GRID, sg.Sharding(GRID, [["a"], ["b"]]))
    assert "@program(%x: tensor<?x3xi16>) -> tensor<?x3xi16>" in part.text("partitioned")


def test_the_rfc_is_explained():
    grid = sg.Grid((2,))
    part = sg.partition(sg.trace(annotated_mlp(grid), *[sg.ArraySpec(shape) for shape in MLP_SHAPES]), grid)
    text = part.explain("w1")
    assert "whose reduction is cut because" in text and "is partial, by constrain at whole_programs.py" in text
