"""Imports point down only: reads the imports of all modules, those inside functions and for types included."""

import ast
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import spmd_grid

ROOT = Path(spmd_grid.__file__).parent

# From the bottom up.  A module may import what lies on lower layers, and its own room; rooms of one layer never import
# one another.  The longest matching prefix counts.
LAYERS = [
    ["file_text", "formatting"],
    ["errors", "launched", "numerals", "parts", "python_text", "typing", "version"],
    ["own_files", "plain_arrays", "reduction_kind", "watch"],
    ["kernels", "transport", "grid"],
    ["functions"],
    ["links"],
    ["grid.making"],
    ["grid.process_grid"],
    ["exchange"],
    ["ops"],
    ["halo"],
    ["reshard"],
    ["pricing", "viz"],
    ["compute"],
    ["array"],
    ["array_api"],
    ["fft"],
    ["reductions"],
    ["random"],
    ["storage"],
    ["program"],
    ["dialect"],
    ["bench", "testing"],
    ["cli"],
    ["__main__"],
    [""],  # spmd_grid itself: it hands out the public names, and no module inside asks it for them
]
# Which modules may load these: nobody else does, so that programs which need neither stay light.
HEAVY = {
    "mpi4py": ["transport.mpi", "bench.common.mpi"],
    "numba": ["kernels", "halo.jit", "ops.loops.jit", "bench.halo.kernels", "bench.common.limit", "bench.ops.loops"],
    "llvmlite": ["kernels", "halo.jit", "ops.loops.jit"],
    "xdsl": ["dialect"],
}


def package_sources(root=ROOT):
    """The text of every module by name: "" for the package itself, "ops.shift" for a module in a room."""
    sources = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        sources[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path.read_text()
    return sources


@cache
def nodes_of(text):
    """The nodes that may import something."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)]


def imports_of(name, text, modules):
    """The imports of a module, wherever the statement stands: modules of the package by name, others with a "!"."""
    found = set()
    for node in nodes_of(text):
        if isinstance(node, ast.Import):
            found |= {_named(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively, which hides where it points"
            base = _named(node.module)
            if base[:1] == "!":
                found.add(base)
                continue
            for alias in node.names:
                inside = f"{base}.{alias.name}".lstrip(".")
                found.add(inside if inside in modules else base)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called in ("import_module", "__import__"):
                found.add(_named(node.args[0].value))
    return found


def _named(module):
    package, _, inside = module.partition(".")
    return inside if package == "spmd_grid" else "!" + package


def layer_of(name):
    """(number of the layer, its entry in LAYERS) of a module."""
    matches = [
        (len(prefix), layer, prefix)
        for layer, prefixes in enumerate(LAYERS)
        for prefix in prefixes
        if name == prefix or (prefix and name.startswith(prefix + "."))
    ]
    assert matches, f"module {name} is on no layer"
    return max(matches)[1:]


def wrong_imports(sources):
    """Every import that points up or sideways, loads what it must not, or closes a cycle, in words."""
    graph = {name: imports_of(name, text, sources) for name, text in sources.items()}
    wrong = []
    for name, targets in graph.items():
        layer, entry = layer_of(name)
        for target in sorted(targets):
            if target[:1] == "!":
                loaders = HEAVY.get(target[1:])
                if loaders and not any(name == it or name.startswith(it + ".") for it in loaders):
                    wrong.append(f"{name} imports {target[1:]}, which only {', '.join(loaders)} may")
                continue
            target_layer, target_entry = layer_of(target)
            if target_layer > layer or (target_layer == layer and target_entry != entry):
                wrong.append(f"{name} imports {target or 'spmd_grid'}, which is not below it")
    try:
        TopologicalSorter({name: {t for t in ts if t[:1] != "!"} for name, ts in graph.items()}).prepare()
    except CycleError as error:
        wrong.append("a cycle: " + " <- ".join(error.args[1]))
    return wrong


def test_imports_point_down():
    sources = package_sources()
    assert {"", "errors", "transport.mpi", "kernels.copy.boxes", "ops.shift", "cli.run"} <= set(sources)
    assert wrong_imports(sources) == []


BROKEN = {
    "up": ("grid.box", "from spmd_grid.grid.process_grid import init_grid", "not below"),
    "up, inside a function": ("ops.shift", "def f():\n    from spmd_grid.halo.geometry import pattern", "not below"),
    "up, for types": (
        "kernels.copy.boxes",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from spmd_grid.exchange.transfer import transfer",
        "not below",
    ),
    "sideways": (
        "kernels.copy.tables",
        "import spmd_grid.grid.box",
        "kernels.copy.tables imports grid.box, which is not below",
    ),
    "sideways, a pure module": ("grid.layout", "from spmd_grid.transport import launch", "not below"),
    "the package itself": ("array", "import spmd_grid as sg", "imports spmd_grid, which is not below"),
    "by name": ("errors", "import importlib\nimportlib.import_module('spmd_grid.ops.shift')", "not below"),
    "mpi4py": (
        "transport.launch",
        "def f():\n    from mpi4py import MPI",
        "mpi4py, which only transport.mpi, bench.common.mpi may",
    ),
    "numba": ("exchange.transfer.flat_bytes", "import numba.core", "numba, which only kernels"),
    "cycle": ("ops.calls.shape_rules", "from spmd_grid.ops.shift import shift", "a cycle"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_the_check_can_fail(case):
    module, statement, words = BROKEN[case]
    sources = package_sources()
    if case == "cycle":
        sources["ops.shift"] += "\nimport spmd_grid.ops.calls.shape_rules\n"
    sources[module] += "\n" + statement + "\n"
    assert any(words in line for line in wrong_imports(sources)), wrong_imports(sources)


def test_a_module_without_a_layer_is_noticed():
    with pytest.raises(AssertionError, match="is on no layer"):
        wrong_imports({**package_sources(), "attic.old": ""})
