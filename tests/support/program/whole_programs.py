"""Whole programs, as users write them, with the arrays that they are run on, and how they are run and compared."""

import numpy as np

import spmd_grid as sg


def random_arrays(*shapes, dtype="f8", seed=3):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(dtype) / max(shape[-1] if shape else 1, 1) ** 0.5 for shape in shapes]


def run_and_compare(part, function, arrays, rtol=1e-12):
    """Run a partition on this process; its results must be numpy's."""
    grid = sg.init_grid(part.grid.shape)
    given = [sg.from_global(x, sharding, grid) for x, sharding in zip(arrays, part.in_shardings)]
    found, want = part.run(grid, *given), function(*[x.copy() for x in arrays])
    found, want = (x if isinstance(x, tuple) else (x,) for x in (found, want))
    for one, other in zip(found, want, strict=True):
        one = one.to_global() if isinstance(one, sg.ShardedArray) else one
        scale = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * scale)


# -- the RFC's MLP ---------------------------------------------------------------------------------------------------

MLP_SHAPES = (2, 4, 8), (8, 32), (32, 8)


def mlp(x, w1, w2):
    h = np.maximum(x @ w1, 0)
    y = h @ w2
    return y


def annotated_mlp(grid):
    """The RFC's first example: all annotations are on tensors."""

    def mlp(x, w1, w2):
        x = sg.constrain(x, sg.Sharding(grid, [[], [], [0]]))
        h = np.maximum(x @ w1, 0)
        y = sg.constrain(h @ w2, sg.Sharding(grid, [], partial_axes=[0]))
        return sg.constrain(y, sg.Sharding(grid, [[], [], [0]]), for_users=True)

    return mlp


def mlp_with_option(grid):
    """The RFC's second example, whose second product is cut by an option on the operation."""

    def mlp(x, w1, w2):
        x = sg.constrain(x, sg.Sharding(grid, [[], [], [0]]))
        h = np.maximum(x @ w1, 0)
        y = h @ w2
        return sg.constrain(y, sg.Sharding(grid, [[], [], [0]]), for_users=True)

    return mlp


# -- a transformer block ---------------------------------------------------------------------------------------------

B, L, E, H, D, F = 4, 3, 16, 8, 2, 32  # batch, length, embedding, heads, of each head, hidden
BLOCK_SHAPES = (B, L, E), (E, H, D), (E, H, D), (E, H, D), (H, D, E), (E, F), (F, E)


def transformer(annotate):
    """A block of attention and MLP; ``annotate(name, array)`` puts the annotations on."""

    def block(x, wq, wk, wv, wo, w_in, w_out):
        x = annotate("x", x)
        q = annotate("q", np.einsum("ble,ehd->blhd", x, wq))
        k = annotate("q", np.einsum("ble,ehd->blhd", x, wk))
        v = annotate("q", np.einsum("ble,ehd->blhd", x, wv))
        scores = np.einsum("blhd,bmhd->bhlm", q, k)
        weights = np.exp(scores - scores.max(axis=3, keepdims=True))
        weights = weights / weights.sum(axis=3, keepdims=True)
        heads = annotate("heads", np.einsum("bhlm,bmhd->blhd", weights, v))
        x = x + annotate("out", np.einsum("blhd,hde->ble", heads, wo))
        h = annotate("h", x @ w_in)
        y = annotate("out", np.maximum(h, 0) @ w_out)
        return x + y

    return block


# -- least squares, the hillslope model, conjugate gradients ----------------------------------------------------------


def least_squares_step(a, b, x, rate=0.01):
    residual = a @ x - b
    return x - rate * (a.T @ residual), (residual * residual).sum()


def hillslope_step(z, kappa):
    """A step of mpirun_examples/hillslope.py, on whole arrays."""
    z = z.copy()
    ky, kx = kappa[:-1, 1:-1] + kappa[1:, 1:-1], kappa[1:-1, :-1] + kappa[1:-1, 1:]
    flux_y, flux_x = ky * np.diff(z[:, 1:-1], axis=0), kx * np.diff(z[1:-1], axis=1)
    z[1:-1, 1:-1] += 0.1 * np.diff(flux_y, axis=0) + 0.2 * np.diff(flux_x, axis=1)
    return z


def negative_laplace(p):
    q = 4 * p
    q[1:] -= p[:-1]
    q[:-1] -= p[1:]
    q[:, 1:] -= p[:, :-1]
    q[:, :-1] -= p[:, 1:]
    return q


def conjugate_gradients(n_steps):
    """As mpirun_examples/dot_cg.py, in a fixed number of steps: what depends on cells is no part of a program."""

    def solve(f):
        u, residual, search = f * 0, f.copy(), f.copy()
        squared = np.vdot(residual, residual)
        for _ in range(n_steps):
            product = negative_laplace(search)
            step = squared / np.vdot(search, product)
            u = u + step * search
            residual = residual - step * product
            previous, squared = squared, np.vdot(residual, residual)
            search = residual + squared / previous * search
        return u, squared

    return solve
