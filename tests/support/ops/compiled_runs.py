"""Compiled functions that run plans of operations, as programs write them."""

from support.compiled import compiled


def steps(plan, inputs, x, out, results):
    """Runs ``plan`` on one input after the other."""
    for step in range(len(inputs)):
        x[:] = inputs[step]
        plan.run(x, out)
        results[step] = out


in_loop = compiled(nogil=True)(steps)
in_loop_holding = compiled()(steps)  # keeps the interpreter's lock


@compiled(nogil=True)
def total(plan, x, out, n):
    """A sum of 0-d arrays, ``n`` times."""
    for _ in range(n):
        plan.run(x, out)
        x[()] = out[()] / 2
    return out[()]


@compiled(nogil=True)
def receive(plan, out):
    plan.run(None, out)
