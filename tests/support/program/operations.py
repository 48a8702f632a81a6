"""The operations of random programs: each adds a line to a drawing."""

import numpy as np


def is_number(x):
    return x.dtype.kind in "fi"


def is_float(x):
    return x.dtype.kind == "f"


def elementwise(d, s):
    name = d.any(is_number)
    text = s.one_of(["np.abs({0})", "-{0}", "np.tanh({0})", "{0} * 0.5", "{0} + 1", "np.maximum({0}, 0)", "2 * {0}",
                     "np.exp(-np.abs({0}))", "{0}.astype('f8')", "np.square({0}) * 0.1", "{0} / 3"])  # fmt: skip
    d.add(text.format(name))


def binary(d, s):
    a = d.any(is_number)
    shape = d.values[a].shape

    def fits(x):
        try:
            np.broadcast_shapes(x.shape, shape)
        except ValueError:
            return False
        return is_number(x)

    b = d.any(fits)
    text = s.one_of(["{0} + {1}", "{0} - {1}", "{0} * {1}", "np.maximum({0}, {1})", "np.minimum({0}, {1})",
                     "{0} / (1 + np.abs({1}))"])  # fmt: skip
    d.add(text.format(a, b))


def same_shape(d, s):
    """Sums and extremes of values of one shape, and of products: what is re-associated."""
    a = d.any(is_float)
    if a is not None:
        b = d.any(lambda x: is_float(x) and x.shape == d.values[a].shape)
        d.add(s.one_of(["{0} + {1}", "{0} - {1}", "np.maximum({0}, {1})", "np.minimum({0}, {1})"]).format(a, b))


def plain(d, s):
    a = d.any(is_number)
    shape = d.values[a].shape
    constant = d.constant(s.array(shape[s.number(0, len(shape)) :]))
    d.add(s.one_of(["{0} + {1}", "{0} * {1}"]).format(a, constant))


def matmul(d, s):
    a = d.any(lambda x: is_number(x) and x.ndim == 2)
    if a is None:
        return
    n = d.values[a].shape[1]
    b = d.any(lambda x: is_number(x) and x.ndim == 2 and x.shape[0] == n)
    if b is None or s.chance(0.3):
        b = d.constant(s.array((n, s.number(1, 6))))
    d.add(s.one_of(["{0} @ {1} * 0.1", "np.einsum('ij,jk->ik', {0}, {1}) * 0.1", "({0} @ {1}).T"]).format(a, b))


def einsum(d, s):
    a = d.any(lambda x: is_number(x) and x.ndim in (2, 3))
    if a is None:
        return
    letters = "abc"[: d.values[a].ndim]
    same = d.any(lambda x: is_number(x) and x.shape == d.values[a].shape)
    kept = "".join(each for each in letters if s.chance(0.6))
    d.add(f"np.einsum('{letters},{letters}->{kept}', {a}, {same}) * 0.05")


def reduction(d, s):
    a = d.any(lambda x: is_number(x) and x.ndim)
    if a is None:
        return
    x = d.values[a]
    axis = s.one_of([None, *range(-x.ndim, x.ndim), tuple(range(x.ndim))[-2:]])
    name = s.one_of(["sum", "sum", "mean", "max", "min", "std"])
    if x.size == 0 and name != "sum":
        return
    keepdims = s.chance(0.5)
    d.add(f"np.{name}({a}, axis={axis}, keepdims={keepdims})" + (" * 0.1" if name == "sum" else ""))


def a_slice(s, extent):
    kind = s.number(0, 6)
    if kind == 0 and extent:
        return str(s.number(-extent, extent - 1))
    if kind == 1:
        return ":"
    low, high = ["" if s.chance(0.3) else s.number(-extent - 1, extent + 1) for _ in range(2)]
    return f"{low}:{high}:{s.one_of(['', '', 2, 3, -1, -2])}"


def an_index(s, shape):
    entries = [a_slice(s, n) for n in shape[: s.number(1, len(shape))]]
    if s.chance(0.2):
        entries.insert(s.number(0, len(entries)), "None")
    if s.chance(0.2):
        entries.append("...")
    return ", ".join(entries)


def select(d, s):
    a = d.any(lambda x: x.ndim)
    if a is not None:
        d.add(f"{a}[{an_index(s, d.values[a].shape)}]", a in d.exact)


def neighbours(d, s):
    """Slices of one value shifted against each other, as in a stencil."""
    a = d.any(lambda x: is_number(x) and x.ndim and x.shape[0] > 2)
    if a is not None:
        d.add(
            s.one_of(["{0}[1:] - {0}[:-1]", "{0}[2:] + {0}[:-2] - 2 * {0}[1:-1]", "{0}[:-2, ...] * {0}[1:-1]"]).format(
                a
            )
        )


def setitem(d, s):
    a = d.any(lambda x: x.ndim and x.dtype.kind == "f")
    if a is None:
        return
    x = d.values[a]
    index = an_index(s, x.shape)
    target = eval(f"x[{index}]", {"x": x})
    b = d.any(lambda y: is_number(y) and y.shape == target.shape)
    value = s.one_of([0.5, b]) if b else 0.5
    name = f"v{len(d.values)}"
    d.add(f"{a} + 0.0")
    if name in d.values:
        exec(f"{name}[{index}] = {value}", {**d.scope, **d.values})
        d.lines.append(f"{name}[{index}] = {value}")


def reshape(d, s):
    a = d.any(lambda x: x.size)
    if a is None:
        return
    n, shape = d.values[a].size, []
    while n > 1 and len(shape) < 3:
        first = s.one_of([k for k in range(1, n + 1) if n % k == 0])
        shape.append(first)
        n //= first
    shape.append(n)
    d.add(s.one_of([f"{a}.reshape({tuple(shape)})", f"np.ravel({a})"]), a in d.exact)


def arrange(d, s):
    a = d.any(lambda x: x.ndim)
    if a is None:
        return
    ndim = d.values[a].ndim
    axis = s.number(0, ndim - 1)
    text = s.one_of(["{0}.T", f"np.expand_dims({{0}}, {axis})", f"np.flip({{0}}, {axis})",
                     f"np.swapaxes({{0}}, 0, {axis})", "np.copy({0})"])  # fmt: skip
    d.add(text.format(a), a in d.exact)


def concatenate(d, s):
    a = d.any(lambda x: x.ndim and is_number(x))
    if a is None:
        return
    x = d.values[a]
    axis = s.number(0, x.ndim - 1)
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    names = [
        d.any(lambda y: is_number(y) and y.ndim == x.ndim and y.shape[:axis] + y.shape[axis + 1 :] == rest)
        for _ in range(s.number(1, 2))
    ]
    d.add(f"np.concatenate([{', '.join([a, *names])}], axis={axis})")


def scan(d, s):
    a = d.any(lambda x: x.ndim and is_number(x))
    if a is not None:
        axis = s.number(0, d.values[a].ndim - 1)
        d.add(s.one_of([f"np.cumsum({a}, axis={axis}) * 0.1", f"np.maximum.accumulate({a}, axis={axis})"]))


def where(d, s):
    exact = d.any(is_number, [name for name in d.values if name in d.exact])
    shape = d.values[exact].shape
    a = d.any(lambda x: is_number(x) and x.shape == shape)
    d.add(f"np.where({exact} > {s.number(-3, 3)}, {a}, {s.one_of([0.0, a, exact])})")


def softmax(d, s):
    a = d.any(lambda x: is_float(x) and x.ndim and x.size)
    if a is None:
        return
    axis = s.number(-1, d.values[a].ndim - 1)
    axis = min(axis, d.values[a].ndim - 1)
    n = len(d.values)
    d.add(f"np.exp({a} - np.max({a}, axis={axis}, keepdims=True))")
    if f"v{n}" in d.values:
        d.add(f"v{n} / np.sum(v{n}, axis={axis}, keepdims=True)")


OPERATIONS = [elementwise, binary, binary, same_shape, same_shape, plain, matmul, matmul, einsum, reduction, reduction,
              select, neighbours, setitem, reshape, arrange, concatenate, scan, where, softmax]  # fmt: skip
