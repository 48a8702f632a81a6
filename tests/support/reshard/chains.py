"""Chains of named steps, checked and in words."""

from spmd_grid.grid.device_grid import Grid
from spmd_grid.grid.layout import Layout
from spmd_grid.grid.sharding import Sharding
from spmd_grid.reshard.planner.basis import basis_steps
from spmd_grid.reshard.planner.steps import SWAP
from spmd_grid.reshard.verify.steps import check_plan_steps
from support.reshard.step_oracle import check_chain, check_legal


def layouts(grid_shape, shape, source, target, **options):
    """The two layouts; options of either are given as ``source_...`` and ``target_...``, of both without."""
    sides = []
    for name, split in (("source_", source), ("target_", target)):
        own = {key.removeprefix(name): value for key, value in options.items() if key.startswith(name)}
        both = {key: value for key, value in options.items() if not key.startswith(("source_", "target_"))}
        sides.append(Layout(Sharding(Grid(grid_shape), split, **both, **own), shape))
    return sides


def in_words(step) -> str:
    """A step without its layouts: ``all_to_all [1] 1<-2``."""
    axes = f" {list(step.grid_axes)}" if step.grid_axes else ""
    if step.kind == SWAP or not step.dims:
        return step.kind + axes
    return f"{step.kind}{axes} {'<-'.join(map(str, step.dims))}"


def chain_of(source, target):
    """The chain, checked, in words; and the lists of axes between the steps."""
    steps = basis_steps(source, target)
    check_legal(steps, source, target)
    check_chain(steps, source, target)
    check_plan_steps(steps, source, target)
    between = [[list(axes) for axes in step.target.sharding.split_axes] for step in steps[:-1]]
    return [in_words(step) for step in steps], between
