"""Sharded arrays in notebooks: the same picture as `spmd_grid show` draws, without a message, and not too large."""

import re
from base64 import b64decode

import numpy as np
import pytest

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.viz.html import array_html
from spmd_grid.viz.svg.array import layout_svg


def picture(html):
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', html)
    return b64decode(data).decode()


def test_an_array_draws_itself_alone():
    def body():
        grid = sg.init_grid((2, 3), axis_names=("<x>", "y"))
        a = sg.from_global(np.zeros((5, 7)), sg.Sharding(grid, [["<x>"], ["y"]], halo_sizes=[1] * 4), grid)
        if grid.rank != 4:  # the others take no part: a message to them would be a deadlock
            return None
        html = a._repr_html_()
        assert picture(html) == layout_svg(a.layout)
        return html, repr(a)

    html, text = sg.run_spmd(body, ranks=6)[4]
    head = re.sub(r"<[^>]*>", "", html)
    assert head == text.replace("<", "&lt;").replace(">", "&gt;") and "<x>" not in html


@pytest.mark.parametrize("ranks", [(1 << 10, 1 << 10), (4096,), (64, 64, 64)])
def test_large_grids_are_drawn_in_part(ranks):
    axes = [[axis] for axis in range(len(ranks))]
    html = array_html(Layout(sg.Sharding(sg.Grid(ranks), axes), tuple(3 * n for n in ranks)), "text")
    assert "drawn in part, not to scale" in picture(html)
    assert len(html) < 150_000


def test_empty_and_scalar_layouts():
    for shape, cut in [((0, 3), [[0]]), ((), [])]:
        assert "<svg" in picture(array_html(Layout(sg.Sharding(sg.Grid((2,)), cut), shape), "text"))
