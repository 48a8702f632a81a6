"""Texts that are no programs: an error with a position, soon, whatever they hold."""

import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("xdsl")

from support.dialect.mutants import mutant
from support.dialect.random_texts import Writer

from spmd_grid import dialect
from spmd_grid.errors import DialectError, DialectSyntaxError, DialectVerifyError

PROGRAMS = [path.read_text() for path in sorted((Path(__file__).parent / "programs").glob("*.mlir"))]
PLACE = re.compile(r"\Afuzz\.mlir:(\d+):(\d+): \S")


def outcome(text):
    """The kind of error, with its place checked; None for a program, which prints and reads again."""
    began = time.process_time()
    try:
        module = dialect.parse(text, "fuzz.mlir")
    except DialectError as error:
        place = PLACE.match(str(error))
        assert place, str(error)
        lines = text.split("\n")
        assert 1 <= int(place[1]) <= len(lines)
        assert 1 <= int(place[2]) <= len(lines[int(place[1]) - 1]) + 1
        found = type(error)
    else:
        printed = dialect.to_text(module)
        assert dialect.to_text(dialect.parse(printed)) == printed
        found = None
    assert time.process_time() - began < 5
    return found


@pytest.mark.parametrize("part", range(len(PROGRAMS)))
def test_mutants(part):
    chance = random.Random(part)
    found = [outcome(mutant(chance.choice([PROGRAMS[part], Writer(n).program()]), chance)) for n in range(80)]
    assert {DialectSyntaxError, DialectVerifyError} <= set(found)


def test_all_beginnings_of_a_text():
    text = Writer(7).program(4)
    found = [outcome(text[:n]) for n in range(0, len(text) - 1, 3)]
    assert found.count(None) < 5 and DialectSyntaxError in found


HOSTILE = {
    "a string that is not closed": '"builtin.module' + "a" * 100_000,
    "a string with an unknown escape": r'"builtin\q.module"() : () -> ()',
    "a number of many digits": "shard.grid @g(shape = " + "9" * 10_000 + ")",
    "deep brackets": "func.func @f(" + "(" * 100_000,
    "deep regions": "func.func @f() {\n" + '"scf.execute_region"() ({\n' * 500,
    "deep types": "func.func @f(%x: " + "tuple<" * 5_000 + ">" * 5_000 + ") { return }",
    "deep lists": "func.func @f() attributes {a = " + "[" * 5_000 + "]" * 5_000 + "} { return }",
    "a bracket too many": "shard.grid @g(shape = 2))",
    "crossed brackets": "func.func @f() attributes {a = [1}] { return }",
    "a huge constant": "func.func @f() {\n %0 = arith.constant dense<0> : tensor<100000x100000xi8>\n return\n}",
    "a huge integer type": "func.func @f() {\n %0 = arith.constant 1 : i16777215\n return\n}",
    "a huge index": f"func.func @f() -> index {{\n %0 = arith.constant {10**30} : index\n return %0 : index\n}}",
    "a huge index below 0": f"func.func @f() attributes {{a = -{10**30} : index}} {{\n return\n}}",
    "a grid of no devices": "shard.grid @g(shape = 0x2)",
    "nothing": "",
    "only spaces": " \n\t ",
    "other characters": "\0\ufeff¹² 😀",
    "a grid twice": "shard.grid @g(shape = 2)\nshard.grid @g(shape = 3)",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts(name):
    assert outcome(HOSTILE[name]) in (DialectSyntaxError, DialectVerifyError)


CHILD = """
import random, sys
from support.dialect.mutants import mutant
from support.dialect.random_texts import Writer
from dialect.test_malformed_texts import HOSTILE, outcome
for text in HOSTILE.values():
    outcome(text)
    for n in range(1, len(text), max(len(text) // 3, 1)):
        outcome(text[:n] * 3)
chance = random.Random(int(sys.argv[1]))
for n in range(60):
    text = Writer(n).program()
    for _ in range(4):
        text = mutant(text, chance)
    outcome(text)
print("all were read or refused")
"""


def test_a_child_process_ends_within_its_deadline():
    """Hostile texts, and mutants of mutants: a test cannot tell by itself that it hangs, or ends the interpreter."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CHILD, "5"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])},
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "all were read or refused\n")


def test_the_fuzzer_of_texts_finds_nothing():
    """A few dozen changes and attacks, of which none may write, start a program, or raise an error of another kind."""
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(tests.parent / "scripts" / "fuzz_texts.py"), "--cases", "40", "--seed", "3"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.match(r"40 texts: \d+ Dialect", done.stdout)


def test_a_run_of_a_malformed_file_ends_within_its_deadline(tmp_path):
    """One line on standard error, and no traceback."""
    path = tmp_path / "fuzz.mlir"
    path.write_text("func.func @f() {\n" + '"scf.execute_region"() ({\n' * 3000)
    command = [sys.executable, "-m", "spmd_grid", "run", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert re.search(r"fuzz\.mlir:\d+:\d+: more than 64 brackets inside one another", done.stderr)


def test_wide_texts_are_read_in_linear_time():
    lines = [
        f"  %{n} = shard.all_reduce %x on @g grid_axes = [0] : tensor<4xf32> -> tensor<4xf32>\n" for n in range(400)
    ]
    text = "shard.grid @g(shape = 2)\nfunc.func @f(%x: tensor<4xf32>) {\n" + "".join(lines) + "  return\n}\n"
    module = dialect.parse(text)
    assert [dialect.position_of(op).line for op in module.walk() if op.name == "shard.all_reduce"] == [*range(3, 403)]


def test_an_error_shows_the_line():
    with pytest.raises(DialectSyntaxError) as refusal:
        dialect.parse("shard.grid @g(shape = 2)\nshard.gird @h(shape = 2)", "grids.mlir")
    assert str(refusal.value).splitlines() == [
        "grids.mlir:2:1: the operation shard.gird is unknown",
        "shard.gird @h(shape = 2)",
        "^",
    ]


def test_without_xdsl_the_error_says_what_to_install():
    program = "import sys\nsys.modules['xdsl'] = None\nimport spmd_grid\nimport spmd_grid.dialect\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.rstrip().endswith("the extra [mlir] installs it")
