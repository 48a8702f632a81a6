"""Random programs: lines of Python over numpy's calls, drawn from a seed or by hypothesis.

Each line computes a new value from older ones.  It is run on numpy arrays as it is drawn, so that shapes are known and
values stay small.  Values that are compared are exact, so that no rounding decides.
"""

import warnings

import numpy as np

import spmd_grid as sg

from .annotations import draw_sharding

SHAPES = [(7,), (1,), (0,), (6, 5), (5, 1), (1, 8), (4, 3, 5), (2, 0, 3), (8, 4), (13, 2), (4, 6)]


class Drawing:
    """A program while it is drawn: its lines, the names they use, and the values that numpy found."""

    def __init__(self, source, grid):
        self.source, self.grid = source, grid
        self.scope = {"np": np, "sg": sg}
        self.values = {}
        self.exact = set()
        self.lines = []

    def any(self, accept=lambda x: True, names=None):
        """The name of a value that is accepted, mostly a young one; None where there is none."""
        found = [name for name in names or self.values if accept(self.values[name])]
        if not found:
            return None
        return self.source.one_of(found[-4:] if self.source.chance(0.6) else found)

    def constant(self, value):
        """The name of a plain value."""
        name = f"k{len(self.scope)}"
        self.scope[name] = value
        return name

    def add(self, text, exact=False):
        """A line that computes a new value; it is left out where that is not finite, too large or huge."""
        name = f"v{len(self.values)}"
        scope = {**self.scope, **self.values}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = np.asarray(eval(text, scope))
        if found.size > 2000 or found.ndim > 4:
            return
        if found.size and (not np.isfinite(found).all() or abs(found.astype("f8")).max() > 1e4):
            return
        self.lines.append(f"{name} = {text}")
        self.values[name] = found
        if exact:
            self.exact.add(name)


def draw_program(source, grid, n_operations):
    """(the function, its arguments, its text)."""
    from .operations import OPERATIONS

    drawing = Drawing(source, grid)
    arguments = []
    for _ in range(source.number(1, 3)):
        name = f"v{len(arguments)}"
        arguments.append(source.array(source.one_of(SHAPES)))
        drawing.values[name] = arguments[-1]
        drawing.exact.add(name)
    parameters = ", ".join(drawing.values)
    while len(drawing.lines) < n_operations:
        source.one_of(OPERATIONS)(drawing, source)
        if drawing.lines and source.chance(0.2):
            annotate(drawing, source)
    names = list(drawing.values)
    returned = {names[-1], *[source.one_of(names) for _ in range(source.number(0, 2))]}
    results = ", ".join(sorted(returned))
    text = "\n    ".join([f"def drawn({parameters}):", *drawing.lines, f"return {results}"])
    exec(compile(text, "drawn", "exec"), drawing.scope)
    return drawing.scope["drawn"], arguments, text


def annotate(drawing, source):
    """An annotation of a value: a hint, a requirement, for users, or a group."""
    name = drawing.any()
    x = drawing.values[name]
    if source.chance(0.15):
        drawing.lines.append(f"sg.sharding_group({name}, {x.shape!r})")
        return
    for_users, required = source.chance(0.5), source.chance(0.5)
    dtype = x.dtype if for_users and x.dtype.kind in "fi" else None
    sharding = draw_sharding(source, drawing.grid, x.shape, dtype, may_be_open=True)
    options = {"required": required, "for_users": for_users, "priority": source.number(0, 2)}
    if not sharding.partial_axes and sharding.replicated_axes and source.chance(0.2):
        options["replicated_axes"] = sharding.replicated_axes[:1]
    shown = ", ".join(f"{key}={value!r}" for key, value in options.items())
    drawing.lines.append(f"{name} = sg.constrain({name}, {drawing.constant(sharding)}, {shown})")
