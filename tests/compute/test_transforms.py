"""Fourier transforms of sharded arrays on several layouts, against numpy on the global array."""

import numpy as np
import pytest
from support.compute.contractions import LAYOUTS, same, sharded, values
from support.compute.moving import bytes_sent

import spmd_grid as sg

ONE_DIMENSION = {
    "fft": lambda a: np.fft.fft(a, axis=0) + np.fft.fft(a),
    "fft, longer": lambda a: np.fft.fft(a, 11, axis=1, norm="ortho"),
    "fft, shorter": lambda a: np.fft.fft(a, n=3, axis=-2),
    "ifft": lambda a: np.fft.ifft(a * 1j, axis=1, norm="forward"),
    "rfft and back": lambda a: np.fft.irfft(np.fft.rfft(a.real, axis=0), a.shape[0], axis=0),
    "irfft": lambda a: np.fft.irfft(a, axis=0),
    "hfft": lambda a: np.fft.hfft(a, axis=1) + np.fft.hfft(a, 6, axis=1)[:, :1],
    "ihfft": lambda a: np.fft.ihfft(a.real, 4, axis=0),
}
SEVERAL = {
    "fftn": lambda a: np.fft.fftn(a) + np.fft.fftn(a, axes=(1, 0)),
    "fftn, lengths": lambda a: np.fft.fftn(a, s=(4, 9), axes=(0, 1), norm="ortho"),
    "ifftn": lambda a: np.fft.ifftn(a, axes=[-1]) - np.fft.ifft2(a),
    "rfftn": lambda a: np.fft.rfftn(a.real) - np.fft.rfft2(a.real, axes=(0, 1)),
    "irfftn": lambda a: np.fft.irfftn(a, (7, 5), axes=(0, 1)) + np.fft.irfft2(a, s=(7, 5)),
    "fft2 of a stack": lambda a: np.fft.fft2(np.stack([a, 2 * a])),
}
CASES = ONE_DIMENSION | SEVERAL


@pytest.mark.parametrize("dtype", ["f8", "c16", "f4"])
def test_values_are_numpys(spmd, dtype):
    def body():
        grid = sg.init_grid((2, 3))
        for number, function in enumerate(CASES.values()):
            a = values(7, 5, dtype=dtype, seed=number)
            name = list(LAYOUTS)[(number + len(dtype)) % len(LAYOUTS)]
            same(function(sharded(a, name, grid)), function(a))

    spmd(6, body)


def test_only_a_cut_dimension_moves():
    a = values(8, 6)

    def body():
        grid = sg.init_grid((2,))
        rows = sg.from_global(a, sg.Sharding(grid, [[0]]), grid)
        return [bytes_sent(lambda x, axis=axis: np.fft.fft(x, axis=axis), rows) for axis in (1, 0)]

    assert all(stays == 0 and 0 < moved <= a.nbytes // 4 for stays, moved in sg.run_spmd(body, ranks=2))


def test_refusals(spmd):
    def body():
        grid = sg.init_grid((2,))
        a = sg.zeros((4, 3), sg.Sharding(grid, [[0]]), grid)
        with pytest.raises(sg.ShapeError, match="fft: its length is 0; it must be at least 1"):
            np.fft.fft(a, 0)
        with pytest.raises(sg.AxisError, match="rfft"):
            np.fft.rfft(a, axis=2)
        with pytest.raises(sg.ShapeError, match="fftn: s has 1 lengths, axes 2"):
            np.fft.fftn(a, s=(3,), axes=(0, 1))

    spmd(2, body)
