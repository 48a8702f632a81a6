"""Print a plan: its steps, what they move and cost, and the ways that were not taken."""

from __future__ import annotations

from spmd_grid.formatting import bytes_text, count_text, seconds_text
from spmd_grid.reshard.plan_value import PlanValue
from spmd_grid.reshard.planner.cost import costs_in_chain
from spmd_grid.reshard.planner.steps import NATIVE

__all__ = ["explain"]


def explain(plan: PlanValue) -> str:
    """The steps with the layouts between them, what each moves and costs, totals, and the alternatives.  Local.

    Each step is priced as in a run of all steps, so the seconds add up to the total.
    """
    dtypes = ", ".join(map(str, plan.dtypes))
    lines = [
        f"reshard {dtypes} {list(plan.source.global_shape)}",
        f"  from {plan.source.sharding}",
        f"  to   {plan.target.sharding}",
        f"strategy {plan.strategy}: {plan.chosen}",
    ]
    costs = costs_in_chain(plan.steps, plan.itemsize, plan.links)
    for n, (step, cost) in enumerate(zip(plan.steps, costs, strict=True), 1):
        lines.append(f"  {n}. {step}")
        if plan.chunks > 1:
            lines.append(
                f"     in {plan.chunks} chunks, two under way; busiest process: {bytes_text(cost.bytes)}, at most"
                f" {count_text(cost.messages * plan.chunks, 'message')}"
            )
            continue
        lines.append(
            f"     {seconds_text(cost.seconds)}; busiest process: {count_text(cost.messages, 'message')},"
            f" {bytes_text(cost.bytes)}; peak {bytes_text(cost.peak)}"
        )
    if not plan.steps:
        lines.append("  nothing to do: every process has all cells that it needs")
    between = plan.seconds - sum(cost.seconds for cost in costs)
    if plan.chunks == 1 and plan.links.call_seconds and between > 0:
        lines.append(f"     {seconds_text(between)} for the Python code that runs the steps")
    totals = plan.totals()
    lines.append(
        f"in all {seconds_text(plan.seconds)}, {bytes_text(totals.received)} moved; a process receives up to"
        f" {bytes_text(totals.most_received)}, sends up to {bytes_text(totals.most_sent)}, needs up to"
        f" {bytes_text(totals.peak)}"
    )
    if any(part.kind in NATIVE for part in plan.run_steps):
        lines.append("(what is sent by all_gather and broadcast counts every copy; a collective passes blocks on)")
    if plan.memory_limit is not None:
        lines.append(f"memory limit {bytes_text(plan.memory_limit)}")
    if plan.alternatives:
        lines.append("not taken:")
        width = max(len(each.name) for each in plan.alternatives)
        for each in plan.alternatives:
            lines.append(
                f"  {each.name:{width}}  {seconds_text(each.seconds):>9}, {count_text(len(each.steps), 'step')}, peak"
                f" {bytes_text(each.peak)}: {each.reason}"
            )
    return "\n".join(lines)
