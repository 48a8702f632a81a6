"""Shardings in GSPMD's words are refused with their place, unless they cut nothing."""

import pytest

pytest.importorskip("xdsl")

from spmd_grid import dialect
from spmd_grid.errors import DialectVerifyError

MODULE = """module @jit_f attributes {{mhlo.num_partitions = {partitions} : i32, mhlo.num_replicas = 1 : i32}} {{
  func.func public @main(%x: tensor<4x4xf32> {of_argument}) -> (tensor<4x4xf32> {of_result}) {{
    %0 = stablehlo.negate %x {of_operation} : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }}
}}
"""
PLACES = "of_argument", "of_result", "of_operation"


def text(partitions, **shardings):
    given = {place: f'{{mhlo.sharding = "{shardings[place]}"}}' if place in shardings else "" for place in PLACES}
    return MODULE.format(partitions=partitions, **given)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "sharding", ["{devices=[2,1]<=[2]}", "{devices=[2,1]0,1}", "{replicated}", "{maximal device=0}", "{", ""]
)
def test_refused(place, sharding):
    line = 3 if place == "of_operation" else 2
    with pytest.raises(DialectVerifyError, match=rf"gspmd.mlir:{line}:\d+: .*a sharding of GSPMD, which is not read"):
        dialect.parse(text(2, **{place: sharding}), "gspmd.mlir")


@pytest.mark.parametrize(("partitions", "sharding"), [(1, "{replicated}"), (2, "{manual}")])
def test_read_where_nothing_is_cut(partitions, sharding):
    module = dialect.parse(text(partitions, **dict.fromkeys(PLACES, sharding)))
    assert module.is_structurally_equivalent(dialect.parse(dialect.to_text(module)))
