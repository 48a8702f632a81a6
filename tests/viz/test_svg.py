"""Drawings as SVG: valid XML, everything in it once, nothing that points outside."""

import re
from collections import Counter
from xml.etree import ElementTree

import pytest

import spmd_grid as sg
from spmd_grid.grid.layout import Layout
from spmd_grid.reshard.geometry.messages import Redistribution
from spmd_grid.viz.messages import messages_of
from spmd_grid.viz.svg.array import layout_svg
from spmd_grid.viz.svg.colours import Colours
from spmd_grid.viz.svg.exchange import exchanges_svg

SPACE = "{http://www.w3.org/2000/svg}"


def layout(grid, split_axes, shape, ranks=None, **options):
    return Layout(sg.Sharding(sg.Grid(grid, ranks=ranks), split_axes, **options), shape)


def parsed(text):
    """The root, after what holds for every drawing."""
    root = ElementTree.fromstring(text)
    assert root.tag == SPACE + "svg"
    width, height = (float(root.get(name)) for name in ("width", "height"))
    assert root.get("viewBox") == f"0 0 {width:g} {height:g}"
    assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"]
    assert "prefers-color-scheme:dark" in root.find(SPACE + "style").text
    kinds = {element.tag.removeprefix(SPACE) for element in root.iter()}
    assert kinds <= {"svg", "style", "rect", "path", "text", "title", "pattern"}
    for rect in root.iter(SPACE + "rect"):
        x, y, w, h = (float(rect.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert w >= 0 and h >= 0 and -0.1 <= x <= x + w <= width and -0.1 <= y <= y + h <= height
    patterns = [element.get("id") for element in root.iter(SPACE + "pattern")]
    assert len(set(patterns)) == len(patterns)
    used = re.findall(r"url\(#([^)]*)\)", text)
    assert set(used) == set(patterns)
    return root


def tooltips(root):
    return Counter(element.text for element in root.iter(SPACE + "title"))


def words(root):
    return [element.text for element in root.iter(SPACE + "text")]


def test_every_block_and_device_once():
    drawn = layout((2, 3), [[1], [0]], (6, 6))
    root = parsed(layout_svg(drawn))
    coords = [drawn.grid.multi_index(device) for device in range(6)]
    assert tooltips(root) == Counter(f"({a},{b}) holds {drawn.core_box((a, b))}" for a, b in coords)
    assert [text for text in words(root) if text[0] == "("] == ["(0,0)", "(1,0)", "(0,1)", "(1,1)", "(0,2)", "(1,2)"]
    assert words(root)[:2] == ["[[1],[0]] on 2x3", "6x6 cells, 6 blocks, 6 devices"]
    fills = {rect.get("fill") for rect in root.iter(SPACE + "rect") if rect.find(SPACE + "title") is not None}
    assert len(fills) == 6


def test_blocks_are_to_scale():
    root = parsed(layout_svg(layout((3,), [[], [0]], (5, 10))))
    rects = [rect for rect in root.iter(SPACE + "rect") if rect.find(SPACE + "title") is not None]
    widths = [float(rect.get("width")) + 3 for rect in rects]
    assert widths == pytest.approx([120, 120, 60], abs=0.1)


def test_copies_share_a_block():
    root = parsed(layout_svg(layout((2, 2), [[1]], (4, 4))))
    assert tooltips(root) == Counter(f"({a},{b}) holds [{2 * b}:{2 * b + 2}, 0:4]" for a in (0, 1) for b in (0, 1))
    many = parsed(layout_svg(layout((64,), [], (4, 4))))
    assert tooltips(many) == {"(*) holds [0:4, 0:4]": 1}
    assert "shared blocks: colour of the first holder" in words(many)


def test_halos_are_hatched():
    drawn = layout((2, 2), [[0], [1]], (5, 7), halo_sizes=[1, 0, 0, 2])
    tips = tooltips(parsed(layout_svg(drawn)))
    assert {tip for tip in tips if "halo" in tip} == {
        "(0,0) with halo: [0:3, 0:6]",
        "(1,0) with halo: [2:5, 0:6]",
        "(1,1) with halo: [2:5, 4:7]",
    }


def exchange_of(title):
    return {
        "swap": Redistribution(layout((2, 3), [[0], [1]], (6, 6)), layout((2, 3), [[1], [0]], (6, 6))),
        "copies": Redistribution(layout((2, 2, 4), [[0], [1, 2]], (9, 9)), layout((2, 2, 4), [[2], [0]], (9, 9))),
        "other processes": Redistribution(
            layout((4,), [[0]], (10,)), layout((3,), [[0]], (10,), (5, 4, 3), blocks="balanced")
        ),
        "partial": Redistribution(layout((2, 2), [], (4, 3), partial_axes=[0]), layout((2, 2), [[0]], (4, 3))),
        "a cell": Redistribution(layout((2,), [], (), partial_axes=[0]), layout((2,), [], ())),
        "three dimensions": Redistribution(layout((2, 2), [[0], [1]], (3, 4, 2)), layout((2, 2), [[], [0]], (3, 4, 2))),
    }[title]


@pytest.mark.parametrize("title", ["swap", "copies", "other processes", "partial", "a cell", "three dimensions"])
def test_every_message_is_an_arrow(title):
    exchange = exchange_of(title)
    root = parsed(exchanges_svg([exchange], [title]))
    messages = list(messages_of(exchange))
    arrows = [path for path in root.iter(SPACE + "path") if path.get("stroke-opacity")]
    tips = [path.find(SPACE + "title").text for path in arrows]
    assert len(set(tips)) == len(tips) and sum(tip.count("[") for tip in tips) == len(messages)
    assert words(root)[0] == title
    text = next(text for text in words(root) if " message" in text)
    assert text.startswith(f"{len(messages)} message")
    for side, verb in ((exchange.source, "sends"), (exchange.target, "receives")):
        assert sum(f" {verb} " in tip for tip in tooltips(root).elements()) == side.grid.size


def test_received_pieces_are_outlined_in_the_sender_s_colour():
    exchange = exchange_of("swap")
    root = parsed(exchanges_svg([exchange], ["swap"]))
    outlined = {
        rect.find(SPACE + "title").text: rect.get("stroke") for rect in root.iter(SPACE + "rect") if rect.get("stroke")
    }
    colours = Colours([exchange.source.grid])
    assert outlined == {f"{m.box} from process {m.sender}": colours.line(m.sender) for m in messages_of(exchange)}


def test_several_steps_stand_below_each_other():
    a, b, c = (layout((2, 2), split, (4, 4)) for split in ([[0], [1]], [[0]], [[], [0]]))
    root = parsed(exchanges_svg([Redistribution(a, b), Redistribution(b, c)], ["1. first", "2. second"]))
    titles = [text for text in root.iter(SPACE + "text") if text.text in ("1. first", "2. second")]
    assert [text.text for text in titles] == ["1. first", "2. second"]
    assert float(titles[0].get("y")) + 300 < float(titles[1].get("y"))


def test_many_processes_are_a_matrix():
    exchange = Redistribution(layout((8, 8), [[0], [1]], (64, 64)), layout((8, 8), [[], [1, 0]], (64, 64)))
    root = parsed(exchanges_svg([exchange], ["many"]))
    assert sum(rect.get("fill-opacity") is not None for rect in root.iter(SPACE + "rect")) == 448
    assert "448 messages, 28 KiB" in words(root) and "senders down, receivers across" in words(root)


def test_very_many_processes_are_numbers():
    before, after = (layout((1024, 1024), split, (4096, 4096)) for split in ([[0], [1]], [[1], [0]]))
    text = exchanges_svg([Redistribution(before, after)], ["very many"])
    root = parsed(text)
    assert len(text) < 300_000 and "drawn in part, not to scale" in words(root)
    assert {"127.9 MiB", "among 1,048,576 processes", "not drawn"} <= set(words(root))


def test_nothing_to_draw():
    nothing = layout((2,), [[0]], (0, 3))
    root = parsed(exchanges_svg([Redistribution(nothing, layout((2,), [], (0, 3)))], ["<nothing> & 'none'"]))
    assert {"no messages", "no cells", "<nothing> & 'none'"} <= set(words(root))


def test_names_that_xml_does_not_know():
    grid = sg.Grid((2, 2), axis_names=("<\x01&", "\ud800"))
    assert words(parsed(layout_svg(Layout(sg.Sharding(grid, [["\ud800"]]), (4,)))))[0].startswith(
        "[[\ufffd]] on 2x2 (<\ufffd&"
    )


def test_colours_differ_and_are_as_light():
    for count in (2, 6, 16):
        colours = Colours([sg.Grid((count,))])
        assert len({colours.fill(n) for n in range(count)} | {colours.line(n) for n in range(count)}) == 2 * count
        for n in range(count):
            red, green, blue = (int(colours.fill(n)[at : at + 2], 16) for at in (1, 3, 5))
            assert 0.299 * red + 0.587 * green + 0.114 * blue > 130  # carries dark text
