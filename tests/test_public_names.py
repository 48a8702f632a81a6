"""The public names are what we think, say who must call them, and their examples run."""

import ast
import doctest
import importlib
import inspect
import linecache
import pkgutil
from pathlib import Path

import pytest

import spmd_grid as sg
from spmd_grid.errors import TransportError

MODULES = ["spmd_grid", *(m.name for m in pkgutil.walk_packages(sg.__path__, "spmd_grid.") if "__main__" not in m.name)]

# Names that programs may rely on.
PROMISED = {
    *("init_grid", "Grid", "ProcessGrid", "run_spmd", "Sharding", "ShardedArray", "SpmdError"),
    *(
        "zeros",
        "empty",
        "full",
        "from_function",
        "from_global",
        "from_local",
        "update_halo",
        "map_overlap",
        "HaloExchange",
    ),
    *("all_gather", "all_reduce", "all_slice", "all_to_all", "broadcast", "gather", "recv", "reduce"),
    *("reduce_scatter", "scatter", "send", "shift", "plan_reshard", "run_plan", "reshard"),
    *("sum", "dot", "norm", "max", "min", "use_sharding_defaults"),
}


def _is_operation(thing) -> bool:
    return hasattr(thing, "start") and not inspect.isclass(thing)


OPERATIONS = [name for name in sg.__all__ if _is_operation(getattr(sg, name))]
WHO = ("Local", "Collective", "Plans only")


def test_all_names_are_there_and_no_others():
    assert sorted(sg.__all__) == sorted(set(sg.__all__))
    assert PROMISED <= set(sg.__all__)
    [getattr(sg, name) for name in sg.__all__]  # which loads them
    visible = {name for name in vars(sg) if not name.startswith("_")}
    modules = {name for name in visible if inspect.ismodule(getattr(sg, name))}
    # A room whose name an operation bears is hidden by it, on purpose.
    assert visible - modules == set(sg.__all__)
    assert modules <= {m.split(".")[1] for m in MODULES[1:]}


def test_type_checkers_see_the_same_names():
    stub = ast.parse(Path(sg.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.asname or alias.name: node.module for node in imports for alias in node.names}
    defined = {name: module for module, names in sg._PUBLIC.items() for name in names if module != "spmd_grid.errors"}
    namespaces = dict.fromkeys(["array_api", "fft", "random"], "spmd_grid")
    assert seen == {**defined, "*": "spmd_grid.errors", **namespaces}


def test_parts_of_the_package_are_attributes():
    assert sg.errors.SpmdError is sg.SpmdError and inspect.ismodule(sg.array_api)
    assert not hasattr(sg, "nothing") and {"init_grid", "random"} <= set(dir(sg))


def test_operations_are_callable_objects():
    assert len(OPERATIONS) == 13 and all(callable(getattr(sg, name)) for name in OPERATIONS)


def public_callables():
    for name in sg.__all__:
        thing = getattr(sg, name)
        if inspect.isclass(thing) and issubclass(thing, BaseException):
            continue
        yield name, thing
        for attribute, value in vars(thing).items() if inspect.isclass(thing) else ():
            if attribute[0] != "_" and (callable(value) or isinstance(value, classmethod)):
                yield f"{name}.{attribute}", getattr(thing, attribute)


def signatures_of(name):
    """The functions of a public name: itself, or the methods, properties and special methods that callers meet."""
    thing = getattr(sg, name)
    if not inspect.isclass(thing):
        return {name: type(thing).__call__ if _is_operation(thing) else thing}
    found = {}
    for attribute, value in vars(thing).items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(function) and (attribute[0] != "_" or attribute in SPECIAL):
            found[f"{name}.{attribute}"] = function
    return found


SPECIAL = ("__init__", "__call__", "__enter__", "__exit__", "__getitem__", "__setitem__")
CALLABLES = dict(public_callables())
NAMESPACE = {name: thing for name, thing in vars(sg.array_api).items() if inspect.isfunction(thing)}


@pytest.mark.parametrize("name", CALLABLES)
def test_who_must_call_it_is_said(name):
    thing = CALLABLES[name]
    text = inspect.getdoc(thing if name not in OPERATIONS else type(thing)) or ""
    if inspect.isclass(thing):
        assert text, f"{name} has no docstring"  # its methods say who must call them
    else:
        assert any(word in text for word in WHO), f"{name} says none of {WHO}:\n{text}"


def test_all_parameters_and_results_are_annotated():
    functions = {q: f for name in sg.__all__ for q, f in signatures_of(name).items() if callable(getattr(sg, name))}
    missing = []
    for name, function in functions.items():
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
        if inspect.Signature.empty in [signature.return_annotation, *[each.annotation for each in own]]:
            missing.append(name)
    assert len(functions) > 150 and not missing


@pytest.mark.parametrize("name", NAMESPACE)
def test_who_must_call_it_is_said_in_the_array_api(name):
    assert any(word in (inspect.getdoc(NAMESPACE[name]) or "") for word in WHO), name


@pytest.mark.parametrize("name", [name for name in sg.__all__ if inspect.isclass(getattr(sg, name))])
def test_errors_say_when_they_are_raised(name):
    thing = getattr(sg, name)
    assert thing.__doc__ and thing.__doc__.strip()
    if issubclass(thing, BaseException):
        assert issubclass(thing, sg.SpmdError) and thing.__module__ == "spmd_grid.errors"


@pytest.mark.parametrize("module", MODULES)
def test_examples(module, monkeypatch):
    # A debugger that doctest makes for each docstring asks for the date of every file that was ever shown.
    monkeypatch.setattr(linecache, "checkcache", lambda filename=None: None)
    try:
        found = importlib.import_module(module)
    except TransportError as error:
        assert module.startswith("spmd_grid.transport.mpi")
        pytest.skip(str(error))
    assert found.__doc__ or module in ("spmd_grid.transport",), f"{module} does not say what it is"
    result = doctest.testmod(found)
    assert not result.failed


def test_examples_are_found():
    finder = doctest.DocTestFinder()
    n = sum(len(test.examples) for test in finder.find(importlib.import_module("spmd_grid.ops.shift")))
    assert n >= 2
