"""Every operation that is read is printed, verified and executed: a small program of each, against numpy."""

import re

import numpy as np
import pytest

pytest.importorskip("xdsl")

from support.dialect.each_operation import WRONG, WRONG_OF
from support.dialect.each_tensor_operation import CASES
from support.dialect.modules import EXAMPLES

from spmd_grid import dialect
from spmd_grid.dialect.execute.runner import FunctionRunner
from spmd_grid.dialect.execute.table import HANDLERS
from spmd_grid.errors import DialectError

DIALECTS = sorted({name.partition(".")[0] for name in CASES})
OWN = "numpy.", "spmd_grid."  # calls of numpy's by name, and the engine's steps, which the tests of stages run


def test_no_operation_is_left_out():
    """Each that is executed is in a program here, or in an example that is run against its serial meaning."""
    texts = "".join(path.read_text() for path in EXAMPLES.glob("*.mlir")).replace("mhlo.", "stablehlo.")
    known = {*CASES, *re.findall(r"[a-z]+\.\w+", texts)}
    assert [name for name in HANDLERS if name not in known and not name.startswith(OWN)] == []


@pytest.mark.parametrize("group", DIALECTS)
def test_each_is_read_printed_and_executed(group):
    for name, case in CASES.items():
        if name.partition(".")[0] != group:
            continue
        module = dialect.parse(case.text(), "each.mlir")
        assert any(op.name == name.split()[0] for op in module.walk()), name
        again = dialect.parse(dialect.to_text(module), "again.mlir")
        assert again.is_structurally_equivalent(module), name
        (found,) = FunctionRunner(again).call("main", case.arguments())
        assert np.asarray(found).dtype == case.wanted.dtype, name
        np.testing.assert_allclose(found, case.wanted, rtol=2e-6, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("group", DIALECTS)
def test_each_is_refused_with_its_place_where_its_type_is_wrong(group):
    for name, case in CASES.items():
        if name.partition(".")[0] == group:
            text = case.text(WRONG_OF.get(name, WRONG))
            with pytest.raises(DialectError) as refusal:
                dialect.parse(text, "each.mlir")
            place = re.match(r"each\.mlir:(\d+):(\d+): ", str(refusal.value))
            assert place and 2 <= int(place[1]) <= text.count("\n") - 1, (name, str(refusal.value))
