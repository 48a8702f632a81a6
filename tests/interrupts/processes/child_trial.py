"""The refusals that a child made by fork meets when it tries every way in."""

import numpy as np

import spmd_grid as sg


def refusals(kit, request):
    """The answer of each way in, by name, in a child: ``request`` was started by its parent."""
    grid = kit.grid
    # But the one that writes to the arena, which reaches the parent.
    tries = {name: lambda way=way: way(9.0) for name, way in kit.ways.items() if name != "all_reduce in the arena"}
    tries["send"] = lambda: sg.send(1, grid, [0], [0])
    tries["recv"] = lambda: sg.recv(grid, [0])
    tries["poke"] = kit.halo.poke
    tries["wait"] = request.wait
    tries["init_grid"] = lambda: sg.init_grid((-1,))
    tries["gather"] = lambda: sg.gather(1, grid, [0], 0, root=[0])
    return {name: _told(function) for name, function in tries.items()}


def _told(function):
    try:
        return f"went through: {function()!r}"
    except sg.SpmdError as error:
        return f"{type(error).__name__}: {error}"


def check(told, expected):
    """All were refused, with ``expected`` in each error; the names of those that were not."""
    wrong = {name: text for name, text in told.items() if not (text.startswith("CutOffError") and expected in text)}
    assert not wrong, wrong


def check_what_is_left(kit, array):
    """Do all that a child may do: read the arrays that it has, make local ones, and give plans back."""
    assert array.local.tolist() == [5.0] * 6
    assert kit.arena[:3].tolist() == [7.0] * 3
    own = kit.grid.allocate((1000,), "f8", zeroed=True)
    own += 1
    assert own.sum() == 1000
    for plan in (kit.plan, kit.halo, kit.loops_halo):
        plan.close()
    kit.grid.close()
    assert np.all(kit.arena[:3] == 7.0)
