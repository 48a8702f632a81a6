"""The same programs in other libraries: torch's DTensor on the ranks, JAX in a process of its own.

JAX runs the very functions of the examples, with ``jax.numpy`` in numpy's place, under ``jit``.  DTensor has functions
of its own here, as its users write them.  Each is checked on the small arrays first; a library that gets a program
wrong, or cannot run it, is skipped in its rows, and the reason printed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np

from spmd_grid.bench.arrays.cases import raised
from spmd_grid.bench.common.contenders import Contender
from spmd_grid.bench.libraries.library import DeclinedError, PeerLibrary
from spmd_grid.bench.programs.cases import ProgramsCase, module_of, problem_of
from spmd_grid.bench.reshard.libraries.dtensor import DTensor
from spmd_grid.bench.reshard.libraries.jax import Jax
from spmd_grid.grid.device_grid import Grid

__all__ = ["PROGRAM_LIBRARY_TYPES", "grid_of", "in_namespace", "is_right"]

_TOLERANCE = 1e-4
Function = Callable[..., Any]


def grid_of(case: ProgramsCase, ranks: int) -> Grid:
    """The grid of a program, without processes."""
    return Grid((1, ranks) if case.program == "pencil_fft" else (ranks,))


def in_namespace(function: Function, namespace: Any) -> Function:
    """An example's function, with ``namespace`` in numpy's place."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is not a plain function")
    return FunctionType(function.__code__, {**function.__globals__, "np": namespace}, function.__name__)


def is_right(found: Any, expected: np.ndarray) -> bool:
    """Whether a library's result is numpy's, as far as its arithmetic goes."""
    found = np.asarray(found)
    return found.shape == expected.shape and bool(np.abs(found - expected).max() <= _TOLERANCE * np.abs(expected).max())


class _DTensor(DTensor):
    """Eager functions of DTensors; results are brought to the placement that the program asks for."""

    @contextmanager
    def contenders(self, case: Any, source: np.ndarray, target: np.ndarray) -> Iterator[dict[str, Contender]]:
        if case.program not in _BY_TORCH:
            raise DeclinedError(f"its users would not write {case.program}: it has no transforms of cut arrays")
        self._check(ProgramsCase(case.program))
        yield {f"{self.name} {case.program}": Contender(self._call(case), source)}

    def _call(self, case: ProgramsCase) -> Callable[[], Any]:
        problem = problem_of(case, grid_of(case, self.comm.size))
        torch, tensor = self.torch, self.tensor
        arrays = [
            tensor.distribute_tensor(torch.from_numpy(x), self.mesh, [self._placement(sharding)])
            for x, sharding in zip(problem.arrays, problem.in_shardings)
        ]
        wanted = [self._placement(problem.out_sharding)]
        function, module = _BY_TORCH[case.program], module_of(case.program)
        return lambda: function(torch, module, *arrays).redistribute(placements=wanted)

    def _placement(self, sharding: Any) -> Any:
        dims = sharding.sharded_dims
        return self.tensor.Shard(dims[0]) if dims else self.tensor.Replicate()

    def _check(self, case: ProgramsCase) -> None:
        """Raise `DeclinedError`, on all ranks alike, unless the library gets the program right."""
        reason = ""
        try:
            problem = problem_of(case, grid_of(case, self.comm.size))
            found = self._call(case)().full_tensor().numpy()
            if not is_right(found, problem.function(*problem.arrays)):
                reason = "its result is wrong"
        except Exception as error:
            reason = raised(error)
        first_reason = next(filter(None, self.comm.allgather(reason)), None)
        if first_reason is not None:
            raise DeclinedError(first_reason)


class _Jax(Jax):
    """A forced CPU device for each rank, all in one process."""

    module = "spmd_grid.bench.programs.jax_process"

    def question(self, case: Any) -> dict[str, Any]:
        return {"program": case.program, "size": case.size, "ranks": self.comm.size}


PROGRAM_LIBRARY_TYPES: list[type[PeerLibrary]] = [_DTensor, _Jax]  # in the order of `rows.PROGRAM_LIBRARIES`


# -- functions of torch --------------------------------------------------------------------------------------------


def _mlp(torch: Any, module: Any, x: Any, w1: Any, w2: Any) -> Any:
    return torch.relu(x @ w1) @ w2


def _attention(torch: Any, module: Any, x: Any, w_query: Any, w_key: Any, w_value: Any, w_out: Any) -> Any:
    depth, tokens = module.DEPTH, x.shape[0]
    heads = w_query.shape[1] // depth
    q, k, v = ((x @ w).reshape(tokens, heads, depth).transpose(0, 1) for w in (w_query, w_key, w_value))
    weights = torch.softmax(q @ k.transpose(1, 2) / depth**0.5, dim=-1)
    return (weights @ v).transpose(0, 1).reshape(tokens, heads * depth) @ w_out


def _cg(torch: Any, module: Any, matrix: Any, b: Any) -> Any:
    x, residual, search = 0 * b, b, b
    squared = (residual * residual).sum()
    for _ in range(module.STEPS):
        product = matrix @ search
        step = squared / (search * product).sum()
        x = x + step * search
        residual = residual - step * product
        previous, squared = squared, (residual * residual).sum()
        search = residual + (squared / previous) * search
    return x


def _kmeans(torch: Any, module: Any, points: Any, centres: Any) -> Any:
    for _ in range(module.STEPS):
        distances = (centres * centres).sum(1) - 2 * (points @ centres.T)
        members = (distances == distances.amin(1, keepdim=True)).to(points.dtype)
        sums = members.T @ points
        centres = sums / sums[:, -1:].clamp(min=1)
    return centres


_BY_TORCH: dict[str, Function] = {"mlp": _mlp, "attention": _attention, "cg": _cg, "kmeans": _kmeans}
