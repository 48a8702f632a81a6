"""Plays chains of named steps on local arrays in numpy, as the operations of these names are defined.

Local arrays are kept by coordinates, in dicts.  Operations see these alone, and the block rule; only boxes that go
anywhere (swaps, exchanges) ask a layout who has what.  `check_chain` holds what comes out against the global array.
"""

from itertools import product

import numpy as np

from spmd_grid.reshard.planner.steps import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    EXCHANGE,
    MARK_PARTIAL,
    REDUCE_SCATTER,
    SLICE,
    SWAP,
)
from support.reshard.reshard_oracle import cuts, side, window

COMBINE = {"sum": np.add, "max": np.maximum}
IDENTITY = {"sum": 0, "max": np.iinfo(np.int64).min}


# -- operations --------------------------------------------------------------------------------------------------------


def group_of(at, grid_shape, axes) -> list:
    """The coordinates of the members of a device's group, in group order."""
    members = []
    for digits in product(*(range(grid_shape[axis]) for axis in axes)):
        member = list(at)
        for axis, digit in zip(axes, digits):
            member[axis] = digit
        members.append(tuple(member))
    return members


def own_part(x, at, grid_shape, axes, dim, blocks):
    """The part of x along dim that the device at ``at`` gets of it."""
    parts = cuts(x.shape[dim], [grid_shape[axis] for axis in axes], blocks)
    start, stop = parts[group_of(at, grid_shape, axes).index(tuple(at))]
    return x[(slice(None),) * dim + (slice(start, stop),)]


def all_slice(xs, grid_shape, axes, dim, blocks="ceil"):
    return {at: own_part(x, at, grid_shape, axes, dim, blocks) for at, x in xs.items()}


def all_gather(xs, grid_shape, axes, dim):
    return {at: np.concatenate([xs[member] for member in group_of(at, grid_shape, axes)], dim) for at in xs}


def all_to_all(xs, grid_shape, axes, split, concat, blocks="ceil"):
    results = {}
    for at in xs:
        sent = [own_part(xs[member], at, grid_shape, axes, split, blocks) for member in group_of(at, grid_shape, axes)]
        results[at] = np.concatenate(sent, concat)
    return results


def all_reduce(xs, grid_shape, axes, kind):
    return {at: COMBINE[kind].reduce([xs[member] for member in group_of(at, grid_shape, axes)]) for at in xs}


def mark_partial(xs, axes, kind):
    return {at: np.full_like(x, IDENTITY[kind]) if any(at[axis] for axis in axes) else x for at, x in xs.items()}


def swap(xs, step):
    """Every device collects its block of the target from the members of its group."""
    source, target, grid_shape = side(step.source), side(step.target), step.source.grid.shape
    results = {}
    for device, at in enumerate(target.coords):
        whole, found = np.zeros(target.shape, np.int64), np.zeros(target.shape, bool)
        for member in group_of(at, grid_shape, step.grid_axes):
            held = window(source.cores[source.coords.index(member)], len(target.shape))
            whole[held] = xs[member]
            found[held] = True
        wanted = window(target.cores[device], len(target.shape))
        assert found[wanted].all(), f"{step}: the group of {at} lacks cells of its block"
        results[at] = whole[wanted]
    return results


def exchange(xs, step):
    """Every device gets its block and its halos: of its own contribution, where source and target are partial."""
    source, target = side(step.source), side(step.target)
    was, becomes = step.source.sharding, step.target.sharding
    assert not was.partial_axes or (was.partial_axes, was.partial_kind) == (becomes.partial_axes, becomes.partial_kind)
    wholes = {}
    for device, at in enumerate(source.coords):
        contribution = tuple(at[axis] for axis in was.partial_axes)
        whole = wholes.setdefault(contribution, np.zeros(source.shape, np.int64))
        whole[window(source.cores[device], len(source.shape))] = xs[at]
    results = {}
    for device, at in enumerate(target.coords):
        digits = tuple(at[axis] for axis in becomes.partial_axes)
        whole = wholes[digits if was.partial_axes else ()]
        if not was.partial_axes and any(digits):
            whole = np.full_like(whole, IDENTITY[becomes.partial_kind])
        results[at] = with_halos(whole, target, device)
    return results


def with_halos(whole, layout, device):
    """A device's block and its halos within the domain."""
    return whole[window(layout.windows[device], len(layout.shape))]


def policy_of(layout, dim) -> str:
    """The rule by which a layout cuts a dimension; explicit offsets that slices make are those of one."""
    sharding = layout.sharding
    if sharding.sharded_dims_offsets is None:
        return sharding.blocks
    found = {blocks[dim] for blocks in side(layout).cores}
    sizes = [layout.grid.shape[axis] for axis in sharding.split_axes[dim]]
    return next(rule for rule in ("ceil", "balanced") if {*cuts(layout.global_shape[dim], sizes, rule)} == found)


def play(step, xs):
    """The local arrays after a step."""
    grid_shape, axes, dims = step.source.grid.shape, step.grid_axes, step.dims
    kind = step.source.sharding.partial_kind
    if step.kind == SLICE:
        return all_slice(xs, grid_shape, axes, *dims, policy_of(step.target, dims[0]))
    if step.kind == ALL_GATHER:
        return all_gather(xs, grid_shape, axes, *dims)
    if step.kind == ALL_TO_ALL:
        return all_to_all(xs, grid_shape, axes, *dims, policy_of(step.target, dims[0]))
    if step.kind == ALL_REDUCE:
        return all_reduce(xs, grid_shape, axes, kind)
    if step.kind == REDUCE_SCATTER:
        reduced = all_reduce(xs, grid_shape, axes, kind)
        return all_slice(reduced, grid_shape, axes, *dims, policy_of(step.target, dims[0]))
    if step.kind == MARK_PARTIAL:
        return mark_partial(xs, axes, step.target.sharding.partial_kind)
    return swap(xs, step) if step.kind == SWAP else exchange(xs, step)


# -- chains ------------------------------------------------------------------------------------------------------------


def local_arrays(layout) -> tuple:
    """``(value, local arrays)``: a global array, and the blocks that make it up or the contributions to them."""
    held, sharding = side(layout), layout.sharding
    contributions = np.random.default_rng(3).integers(-(1 << 40), 1 << 40, (held.n_contributions, *held.shape))
    xs = {
        at: contributions[held.contribution(device)][window(held.cores[device], len(held.shape))]
        for device, at in enumerate(held.coords)
    }
    return COMBINE[sharding.partial_kind].reduce(contributions), xs


def check_locals(layout, xs, value, about):
    """Check that local arrays are blocks, with halos, of the global array; where partial, once they are combined."""
    held, axes = side(layout), layout.sharding.partial_axes
    assert set(xs) == set(held.coords), about
    if axes:
        xs = all_reduce(xs, layout.grid.shape, axes, layout.sharding.partial_kind)
    for device, at in enumerate(held.coords):
        assert np.array_equal(xs[at], with_halos(value, held, device)), (*about, at)


def check_chain(steps, source, target):
    """Plays a chain; after each step every device has what the step's target says.

    Without steps, what a device has is what it is to have.
    """
    value, xs = local_arrays(source)
    about = [str(source), str(target), *map(str, steps)]
    for number, step in enumerate(steps):
        xs = play(step, xs)
        check_locals(step.target, xs, value, (*about, f"after step {number}"))
    check_locals(target, xs, value, about)


def check_legal(steps, source, target):
    """Check that steps chain, and that each does to the lists of axes what its name says, and no more."""
    about = [str(source), str(target), *map(str, steps)]
    at = source
    for step in steps:
        assert step.source == at, about
        at = step.target
        assert step is steps[-1] or not at.sharding.halo_sizes, (about, "halos between")
        check_legal_step(step, about)
    if steps:
        assert at == target, about


def check_legal_step(step, about=()):
    """Axes of size 1 split nothing, and may come and go unsaid."""
    before, after, axes, ndim = step.source.sharding, step.target.sharding, step.grid_axes, step.source.ndim
    about = (*about, str(step))
    assert step.source.global_shape == step.target.global_shape, about
    if step.kind == EXCHANGE:
        assert (axes, step.dims) == ((), ()), about
        return
    assert (before.grid.shape, before.grid.ranks) == (after.grid.shape, after.grid.ranks), about
    assert not after.halo_sizes and axes, about
    counts = {axis for axis, size in enumerate(before.grid.shape) if size > 1 or (step.kind == SWAP and axis in axes)}
    have, want = (
        [tuple(filter(counts.__contains__, lists.axes_of(dim))) for dim in range(ndim)] for lists in (before, after)
    )
    named = tuple(filter(counts.__contains__, axes))
    changed = [dim for dim in range(ndim) if have[dim] != want[dim]]
    assert set(changed) <= set(step.dims), about
    partial, then_partial = set(before.partial_axes), set(after.partial_axes)
    if step.kind == REDUCE_SCATTER:
        assert partial == then_partial | set(axes) and then_partial.isdisjoint(axes), about
    if step.kind in (SLICE, REDUCE_SCATTER):
        (dim,) = step.dims
        assert want[dim] == (*have[dim], *named), about
        assert step.kind == REDUCE_SCATTER or (partial == then_partial and set(axes) <= set(before.replicated_axes))
    elif step.kind == ALL_GATHER:
        (dim,) = step.dims
        assert have[dim] == (*want[dim], *named) and partial == then_partial, about
    elif step.kind == ALL_TO_ALL:
        split, concat = step.dims
        assert partial == then_partial and split != concat, about
        assert have[concat] == (*want[concat], *named) and want[split] == (*have[split], *named), about
    elif step.kind == SWAP:
        assert changed == list(step.dims) and partial == then_partial, about
        assert list(map(len, have)) == list(map(len, want)), about
        for dim in changed:
            first = next(place for place, (a, b) in enumerate(zip(have[dim], want[dim])) if a != b)
            assert {*have[dim][first:], *want[dim][first:]} <= set(axes), about
    elif step.kind == ALL_REDUCE:
        assert step.dims == () and partial == then_partial | set(axes), about
        assert then_partial.isdisjoint(axes), about
    else:
        assert step.kind == MARK_PARTIAL and step.dims == (), about
        assert then_partial == partial | set(axes) and set(axes) <= set(before.replicated_axes), about
    assert not then_partial or not partial or before.partial_kind == after.partial_kind, about
