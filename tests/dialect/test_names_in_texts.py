"""Names that a text may call are a closed set of functions with rules; every other is refused, and nothing is run."""

import importlib
import io
import os
import pkgutil
import shutil
import subprocess
import warnings

import numpy as np
import pytest

pytest.importorskip("xdsl")

import spmd_grid as sg
from spmd_grid import dialect
from spmd_grid.cli.main import main
from spmd_grid.dialect.execute.runner import FunctionRunner
from spmd_grid.dialect.execute.table import HANDLERS
from spmd_grid.errors import DialectError, SpmdError
from spmd_grid.functions.elementwise import elementwise
from spmd_grid.functions.linear.contractions import product
from spmd_grid.functions.names import arguments_of, function_name, function_named, known_functions
from spmd_grid.functions.table import _TABLE, call, entry_of, registered, rule
from spmd_grid.functions.ufuncs import entry_of_ufunc
from spmd_grid.program.text.calls import MANUAL, OPAQUE, OWN, STEPS

GENERIC = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = "{name}"(%x) {{{attributes}}} : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}}
"""
DECLARED = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %0 = call @"{name}"(%x) {{{prefixed}}} : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}}
func.func private @"{name}"(tensor<4xf32>) -> tensor<4xf32>
"""


def texts(name, attributes=""):
    """A call in both forms, of a function with attributes."""
    prefixed = ", ".join(f"spmd_grid.{each}" for each in attributes.split(", ") if each)
    return [each.format(name=name, attributes=attributes, prefixed=prefixed) for each in (GENERIC, DECLARED)]


def refusal(text):
    """The message of the reader's error, which begins with the position of the call."""
    with pytest.raises(DialectError) as refused:
        dialect.parse(text, "attack.mlir")
    assert str(refused.value).startswith("attack.mlir:2:8: ")
    return str(refused.value)


def has_rule(function):
    """Whether the table has a rule for a function, or for the ufunc whose accumulate it is."""
    owner = getattr(function, "__self__", function)
    if isinstance(owner, np.ufunc):
        return entry_of_ufunc(owner) is not None
    return entry_of(function) is not None


def test_every_name_is_a_function_of_the_table():
    known = known_functions()
    assert len(known) > 300 and all(has_rule(each) for each in known.values())
    assert all(name.startswith(OWN) and "__" not in name for name in known)
    # Every function of the table has the name by which programs print it; `product` is printed as einsum.
    assert all(function_named(function_name(each)) is each for each in registered() if each is not product)


FORBIDDEN = [os.system, os.popen, os.remove, shutil.rmtree, subprocess.run, io.open, exec, eval, compile, __import__]
FORBIDDEN += [np.load, np.save, np.savez, np.savetxt, np.loadtxt, np.genfromtxt, np.fromfile, np.memmap, np.fromregex]
FORBIDDEN += [np.lib.format.open_memmap, np.frombuffer, np.fromstring, np.vectorize, np.frompyfunc, np.set_printoptions]


WALK = """func.func @main(%x: {kind}) {{
  %0 = "{name}"({operands}) {{{attributes}}} : ({types}) -> {kind}
  return
}}
"""
WAYS = [("tensor<4x4xf64>", np.ones((4, 4)), 1, "axis = 0"), ("tensor<4xi64>", np.arange(4), 2, "")]


@pytest.mark.parametrize(("kind", "array", "n", "attributes"), WAYS)
def test_every_name_computes_or_is_refused(kind, array, n, attributes, tmp_path, monkeypatch):
    """Calls of all names that the reader takes give an array, or an error of the package."""
    monkeypatch.chdir(tmp_path)
    outcomes = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # logarithms of zero and their like
        for name in (*known_functions(), *STEPS):
            operands, types = ", ".join(["%x"] * n), ", ".join([kind] * n)
            text = WALK.format(kind=kind, name=name, operands=operands, types=types, attributes=attributes)
            try:
                FunctionRunner(dialect.parse(text)).call("main", [array])
                outcomes.append("computed")
            except SpmdError as error:
                outcomes.append(type(error).__name__)
    assert len(outcomes) > 300 and outcomes.count("computed") > 20
    assert not list(tmp_path.iterdir())


def test_no_name_reaches_files_code_or_the_system():
    known = list(known_functions().values())
    assert not [each for each in FORBIDDEN if any(each is function for function in known)]
    words = {word for each in known for word in arguments_of(each)}
    assert not words & {"file", "filename", "fname", "path", "allow_pickle", "command", "out", "like", "fid"}
    # The arguments that are functions can never be: an attribute is a number, a text, a list or a type.
    assert {name for name, each in known_functions().items() if arguments_of(each) & {"func1d", "funclist"}} == {
        "numpy.apply_along_axis",
        "numpy.piecewise",
    }


def test_handlers_of_our_own_operations_are_the_steps():
    own = {name for name in HANDLERS if name.startswith(OWN)}
    assert own == STEPS | {"numpy.*", "spmd_grid.*"}


def walks():
    """Names of everything in numpy's public modules, and of one more step from there."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in pkgutil.walk_packages(np.__path__, "numpy."):
            if any(part.startswith("_") or part in ("tests", "conftest", "distutils") for part in each.name.split(".")):
                continue
            try:
                module = importlib.import_module(each.name)
            except Exception:  # parts of numpy that this machine cannot import
                continue
            found += [f"{each.name}.{name}" for name in vars(module)]
            found += [f"{each.name}.os.system", f"{each.name}.sys.modules", f"{each.name}.__loader__.exec_module"]
    found += [f"numpy.{name}" for name in dir(np)]
    return sorted(set(found))


def test_attribute_walks_are_refused():
    """None of the names of numpy's modules is known beside those with rules; a sample is tried in texts."""
    known, every = known_functions(), walks()
    strangers = [name for name in every if name not in known and name not in STEPS]
    assert len(strangers) > 2000
    for name in strangers[::40]:
        assert "is no function that a text may call" in refusal(texts(name)[0])
    assert not [name for name in strangers if function_named(name) is not None]


ATTACKS = [
    *("numpy.f2py.os.system", "numpy.load", "numpy.savetxt", "numpy.memmap", "numpy.fromfile", "numpy.__loader__"),
    *("numpy.random.RandomState", "numpy.testing.runstring", "numpy.lib.npyio.load", "numpy.ctypeslib.load_library"),
    *("numpy.add.__class__", "numpy.add.reduce.__self__", "numpy.add.at", "numpy.add.outer", "numpy.ndarray.tofile"),
    *("numpy.__init__", "numpy.", "numpy..add", "numpy.add.", "numpy.add.accumulate.accumulate", "numpy.fft.helper.os"),
    *("spmd_grid.os.system", "spmd_grid.__import__", "spmd_grid.builtins.exec", "spmd_grid.rule", "spmd_grid."),
    *("spmd_grid.load", "spmd_grid.load_npy", "spmd_grid.<lambda>", "spmd_grid.np.load", "spmd_grid"),
    *("os.system", "builtins.exec", "subprocess.run", "__import__", "numpy.linalg.linalg.sys.exit", "NUMPY.add"),
]  # fmt: skip


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in texts(name, 'command = "id > stolen", file = "stolen", fname = "stolen", allow_pickle = true'):
        if name.startswith(OWN):
            refusal(text)
        else:
            with pytest.raises(DialectError, match="attack.mlir:|there is no function"):
                runner_of(dialect.parse(text, "attack.mlir"))
    assert not list(tmp_path.iterdir())


def runner_of(module):
    """Run the function of a module on one process."""
    return FunctionRunner(module).call("main", [np.zeros(4, "f4")])


WORDS = {
    "a file": ("numpy.add", 'file = "stolen"'),
    "pickles": ("numpy.sum", "allow_pickle = true"),
    "where a result goes": ("numpy.sum", 'out = "stolen"'),
    "an object of another library": ("numpy.zeros_like", "like = 1"),
    "arguments of a function that is called": ("numpy.apply_along_axis", 'func1d = "os.system", fname = "stolen"'),
    "what only numpy takes": ("numpy.zeros_like", 'order = "C"'),
    "dunder": ("numpy.sum", '__class__ = "x"'),
    "operands by name": ("numpy.sum", 'operands = ["out"]'),
    "a part of another function": ("spmd_grid.mean_total", 'of = "numpy.load"'),
    "a scan of another function": ("spmd_grid.scan", 'of = "numpy.f2py.os.system"'),
    "what blocks end with": ("spmd_grid.carry", 'of = "numpy.load.accumulate"'),
    "of what is no text": ("spmd_grid.mean_total", "of = 1"),
}


@pytest.mark.parametrize("case", WORDS)
def test_attacks_by_argument(case):
    for text in texts(*WORDS[case]):
        refusal(text)


@pytest.mark.parametrize(("name", "attributes"), [
    ("spmd_grid.transform_along", 'name = "test", n = 4, axis = 0'),
    ("numpy.piecewise", 'condlist = [true], funclist = ["os.system"]'),
    ("numpy.apply_along_axis", 'func1d = "os.system", axis = 0'),
    (MANUAL, 'of = "os.system"'), (OPAQUE, 'of = "os.system"'),
])  # fmt: skip
def test_arguments_that_would_name_functions_are_refused(name, attributes):
    for text in texts(name, attributes):
        with pytest.raises((DialectError, ValueError)):
            runner_of(dialect.parse(text, "attack.mlir"))


def softplus(x, beta=1.0):
    """A function of the user's."""
    return np.log1p(np.exp(beta * x)) / beta


def test_a_rule_that_the_program_has_registered_has_a_name():
    rule(softplus)(lambda x, beta=1.0: elementwise("softplus", lambda block: softplus(block, beta), x))
    try:
        for text in texts("spmd_grid.softplus", "beta = 2.0"):
            runner_of(dialect.parse(text, "program.mlir"))
        refusal(texts("spmd_grid.softplus", 'file = "stolen"')[0])
    finally:
        del _TABLE[softplus]
    refusal(texts("spmd_grid.softplus")[0])


def erf(x):
    """A function of the user's with the name of one of the engine's own."""
    return x + 1


def put(x):
    """A function of the user's with the name of a step."""
    return x + 2


@pytest.mark.parametrize("function", [erf, put])
def test_a_function_whose_name_means_another_is_printed_as_one_of_pythons(function):
    grid = sg.Grid((2,))
    rule(function)(lambda x: elementwise(function.__name__, function, x))
    try:
        text = sg.partition(sg.trace(lambda x: call(function, x), sg.ArraySpec((4,))), grid).text("traced")
    finally:
        del _TABLE[function]
    assert "@spmd_grid.opaque" in text and f"@spmd_grid.{function.__name__}" not in text


@pytest.mark.parametrize("options", [(), ("--emit", "traced"), ("--check", "serial")])
def test_the_command_runs_no_attack(options, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = """shard.grid @g(shape = 2)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %a = shard.shard %x to %s : tensor<4xf32>
  %0 = call @numpy.f2py.os.system() {spmd_grid.command = "id > stolen"} : () -> i64
  return %a : tensor<4xf32>
}
func.func private @numpy.f2py.os.system() -> i64
"""
    (tmp_path / "attack.mlir").write_text(text)
    assert main(["run", "attack.mlir", *options]) == 2
    assert "attack.mlir:5:8: numpy.f2py.os.system: it is no function that a text may call" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["attack.mlir"]
