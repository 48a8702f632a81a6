"""Texts in today's spelling that a compiler of the documented version must take: examples, cases, what we print."""

from math import prod
from pathlib import Path

import spmd_grid as sg
from spmd_grid.dialect import parse, to_text
from spmd_grid.dialect.execute.devices import grid_shapes, pure_grids, used_grids
from spmd_grid.dialect.execute.reading import name_of, shape_of, symbol
from spmd_grid.dialect.execute.runner import function_of
from spmd_grid.dialect.partition.annotated import is_annotated, program_of
from spmd_grid.program.text.stages import STAGES
from support.dialect import programs
from support.dialect.case_texts import program_of as case_text
from support.dialect.case_texts import resharding_text, sizes_text
from support.dialect.cases import CASES, is_between_grids, refined
from support.dialect.each_tensor_operation import CASES as EACH
from support.dialect.modules import EXAMPLES
from support.dialect.random_modules import AnnotatedModule
from support.dialect.random_texts import Writer
from support.program.runner import make_case
from support.sources import Source

PROGRAMS = Path(__file__).resolve().parents[2] / "dialect" / "programs"
OF_THE_FIRST_YEARS = {"rfc", "rfc_operations"}  # their words are those of 2023
OF_OLDER_TOSA = {"tosa.negate", "tosa.mul", "tosa.matmul", "tosa.reshape"}  # their texts leave operands out
DTYPES = "u1 u2 u8 i1 i2 i4 f2 f4 g c8 c16 ? m8[s] S3".split()
GRIDS = [(2,), (3,), (2, 2), (2, 3)]


def example_texts():
    """The examples as they stand, but for those in the words of the first years."""
    return {
        path.stem: path.read_text() for path in sorted(EXAMPLES.glob("*.mlir")) if path.stem not in OF_THE_FIRST_YEARS
    }


def printed_texts():
    """Every example and every program of the tests, as we print it, in both forms."""
    found = {}
    for path in [*sorted(EXAMPLES.glob("*.mlir")), *sorted(PROGRAMS.glob("*.mlir"))]:
        module = parse(path.read_text(), path.name)
        found[f"{path.stem} printed"] = to_text(module)
        found[f"{path.stem} in generic form"] = to_text(module, generic=True)
    return found


def stages_of_examples():
    """All stages of all annotated functions of the examples."""
    found = {}
    for path in sorted(EXAMPLES.glob("*.mlir")):
        module = parse(path.read_text(), path.name)
        for op in module.ops:
            if name_of(op) == "func.func" and op.regions[0].blocks and is_annotated(op):
                found |= stages(f"{path.stem} {symbol(op, 'sym_name')}", part_of(module, symbol(op, "sym_name")))
    return found


def part_of(module, name):
    """The partition of an annotated function."""
    sizes = [shape for each, shape in grid_shapes(module).items() if each in used_grids(module, name)]
    grids = pure_grids(module, name, prod([2 if n == -1 else n for n in sizes[0]]))
    shapes = [shape_of(x.type) for x in function_of(module, name).regions[0].block.args]
    grid = next(iter(grids.values()))
    return sg.partition(program_of(module, name, grids, shapes, {}), grid)


def stages(name, part):
    """The texts of a partition by stage."""
    return {f"{name} {stage}": part.text(stage) for stage in STAGES}


def case_texts():
    """The cases of the dialect's own tests that are programs which we accept, and one program for each operation."""
    found = {case["name"]: case_text(case)[0] for case in CASES if case["kind"] == "op_shape"}
    found |= {name: case.text() for name, case in EACH.items() if name not in OF_OLDER_TOSA}
    found |= {f"{name} printed": to_text(parse(case.text())) for name, case in EACH.items()}
    for case in CASES:
        if case["kind"].startswith(("reshard", "halo_reshard")) and not is_between_grids(case):
            case = refined(case) if case.get("sub_axes") else case
            text = f"shard.grid @g(shape = {sizes_text(case['grid'])})\n{resharding_text(case)}"
            found[case["name"]] = to_text(parse(text)) if "from_partial" in case else text
            if None not in (*case["grid"], *case["shape"]):
                found[f"{case['name']} partitioned"] = part_of(parse(text), case["name"]).text("partitioned")
    return found


def stages_of_programs():
    """All stages of programs that have every kind of step, layout, constant and argument."""
    parts = {
        "steps": programs.part_of_steps(),
        "steps on whole arguments": programs.part_of_steps("global"),
        "lists": programs.part_of_lists(),
        "layouts": programs.part_of_layouts(),
        "layouts on whole arguments": programs.part_of_layouts("global"),
        "manual": programs.part_of_manual(),
        "options": programs.part_of_options(),
        **{f"{dtype}": programs.part_of_dtypes(dtype) for dtype in DTYPES},
    }
    found = {}
    for name, part in parts.items():
        found |= stages(name, part)
    return found


def random_texts(number, seed=0):
    """Random programs, annotated modules with their stages, and programs of numpy's functions with theirs."""
    found = {}
    for n in range(seed, seed + number):
        found[f"random text {n}"] = Writer(n).program()
        grid = GRIDS[n % len(GRIDS)]
        module = AnnotatedModule(n, grid)
        found[f"random module {n}"] = module.text
        found |= stages(f"random module {n}", part_of(parse(module.text), "main"))
        case = make_case([2, 3, 4, 6][n % 4], Source(29, n))
        if not case.refusal:
            found |= stages(f"random program {n}", case.partitions["optimised"])
    return found


def valid_texts(seed=0):
    """Programs that a compiler takes as they stand, to be touched: examples, random ones, operations, and stages."""
    texts = [*example_texts().values(), *stages("steps", programs.part_of_layouts("global")).values()]
    texts += [to_text(parse(case.text())) for case in EACH.values()]
    return [*texts, *[Writer(seed + n).program() for n in range(len(texts))]]


SUITES = {
    "examples": example_texts,
    "printed": printed_texts,
    "stages of examples": stages_of_examples,
    "cases": case_texts,
    "stages of programs": stages_of_programs,
}
