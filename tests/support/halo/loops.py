"""Compiled functions that update halos, as programs write them."""

from support.compiled import compiled


@compiled(nogil=True)
def once(halo, u):
    halo.update(u)


@compiled(nogil=True)
def pair(halo, u, v):
    halo.update(u, v)


@compiled(nogil=True)
def refresh_and_count(halo, u, n):
    """For another compiled function to call."""
    for _ in range(n):
        halo.update(u)
    return n


def run_heat(halo, u, new, n):
    done = 0
    for step in range(n):
        if step % 2:
            done += refresh_and_count(halo, u, 1 + step % 3)
        else:
            halo.update(u)
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                new[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) / 4 + u[i - 1, j - 1] / 8
        u, new = new, u
    return done


heat = compiled(nogil=True)(run_heat)
