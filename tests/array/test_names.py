"""Names of arrays and plans, as reports show them."""

import re

import numpy as np

import spmd_grid as sg

NAMED = re.compile("'u'|'temperature'|faces|'residual'|'spread'")


def shown():
    grid = sg.init_grid((2,))
    recorder = grid.recorder
    rows = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
    u = sg.zeros((6,), rows, grid, name="u")
    v = sg.from_function(lambda i: i, (6,), rows, grid, name="v")
    w = sg.ShardedArray.from_global(np.arange(6.0), rows, grid, name="w")
    z = sg.ShardedArray.from_local(w.local, rows, grid, (6,), name="z")
    names = [
        each.name
        for each in (u, v, w, z, sg.full((6,), rows, grid, fill_value=1, name="f"), sg.empty((6,), rows, grid))
    ]
    u.update_halo()
    u.name = "temperature"
    u.to_global()
    u.reshard(sg.Sharding(grid, [[]]))
    with sg.HaloExchange(grid, rows, (6,), "f8", name="faces") as halo:
        halo.update(w)
    with sg.all_reduce.plan(grid, (1,), "f8", [0], name="residual") as plan:
        plan.run(np.ones(1))
    sg.run_plan(sg.plan_reshard(rows, sg.Sharding(grid, [[]]), (6,), "f8", name="spread"), w.local, grid)
    records = [record for record in recorder.last() if NAMED.search(record.what)]
    last = [record.what for record in records]
    here = {record.where.split(":")[0] for record in records}
    return names, last, here


def test_names_in_records():
    names, last, here = sg.run_spmd(shown, ranks=2)[1]
    assert names == ["u", "v", "w", "z", "f", None]
    words = (
        "update_halo 'u'",
        "to_global 'temperature'",
        "reshard 'temperature'",
        "update of faces 'w'",
        "'residual'",
        "run_plan 'spread'",
    )
    for what, expected in zip(last, words, strict=True):
        assert all(word in what for word in expected.split()), (what, expected)
    assert here == {"test_names.py"}
