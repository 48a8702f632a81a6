"""Steps checked on their own, and as chains of one."""

from spmd_grid.errors import PlanError
from spmd_grid.reshard.verify.steps import check_plan_steps


def check_everywhere(step) -> None:
    check_plan_steps([step], step.source, step.target)


def is_right(step) -> bool:
    try:
        check_everywhere(step)
    except PlanError:
        return False
    return True
