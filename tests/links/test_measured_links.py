"""Models of links that are measured: alike on every process, kept in files, and refused where they do not fit."""

import json

import numpy as np
import pytest
from support.storage.layouts import shared_folder

import spmd_grid as sg
from spmd_grid.links.kept import _misfit
from spmd_grid.links.measure import _Crossings
from spmd_grid.links.model import LinkModel, Machine
from spmd_grid.links.team import Team

MAPS = {
    "block": (0, 0, 2, 2),
    "cyclic": (0, 1, 0, 1),
    "uneven": (0, 0, 0, 3),
    "one node": (0,) * 4,
    "all": (0, 1, 2, 3),
}


def pretend(nodes):
    """A grid of all processes that are on ``nodes``, as far as it knows."""
    grid = sg.init_grid((-1,))
    grid.process.nodes = nodes[: grid.size]
    return grid


@pytest.mark.parametrize("name", MAPS)
def test_measured_models(spmd, name):
    def body():
        model = LinkModel.measure(pretend(MAPS[name]))
        assert all(value > 0 for value in (model.node_latency, model.node_bandwidth, model.memory_bandwidth))
        assert model.step_seconds > 0 and model.step == model.step_seconds
        assert all(value > 0 for value in (model.network_latency, model.network_bandwidth, model.message_seconds))
        for copies in (model.copies, model.alone_copies, model.run_copies, model.alone_run_copies):
            assert len(copies) == 8 and sorted(copies, key=lambda pair: -pair[1]) == sorted(copies)
        assert model.memory_bandwidth <= model.copies[-1][1]
        assert 1 <= model.one_way <= 4 and 1 <= model.process_one_way <= 2
        assert (model.cable_bandwidth is None) == (name == "one node")
        assert [model.node_of(p) for p in range(4)] == [sorted(set(MAPS[name])).index(node) for node in MAPS[name]]
        return repr(model)

    found = spmd(4, body)
    assert len(set(found)) == 1, "the same on every process"


def test_a_part_of_the_processes_measures(spmd):
    def body():
        sg.init_grid((-1,)).process.nodes = (0, 0, 2)
        grid = sg.init_grid((2,), ranks=[2, 0])
        return repr(LinkModel.measure(grid)) if grid.coords is not None else None

    first, outside, last = spmd(3, body)
    assert first == last and outside is None and "node_size=2" in first


def test_bytes_that_go_one_way(spmd):
    """Of three nodes, the first sends to the second one, and then receives from it.

    Of two measurements the shorter counts: of one process 3 s both ways, 1 s the one way, 1.5 s the other, which is the
    slower; of all 2 s and 0.5 s.
    """

    def body():
        comm = sg.init_grid((3,)).group((0,))
        crossings = _Crossings(Team(comm, [0, 1, 2]))
        for way, sender, receiver in ((1, 0, 1), (-1, 1, 0)):
            sent, received = np.full(8, way, np.int8), np.zeros((2, 8), np.int8)
            comm.wait_all(crossings._shift(1, sent.view(np.uint8), received.view(np.uint8), way))
            assert (received == (way if comm.rank == receiver else 0)).all(), sender
        rest = crossings._waited + crossings._meeting
        crossings._found = [[rest + s for s in times] for times in ((3, 1, 2, 2, 1), (4, 3, 1.5, 4, 0.5))]
        found = crossings.far()
        return found.process_one_way, found.one_way

    for of_process, of_node in spmd(3, body):
        assert of_process == pytest.approx(2) and of_node == pytest.approx(4)


def test_models_are_kept(spmd, tmp_path):
    def body():
        path = shared_folder(tmp_path) / "links.json"
        grid = pretend((0, 0, 2))
        one, again = LinkModel.measure(grid, path), LinkModel.measure(grid, str(path))
        assert one == again == LinkModel.load(path) and one.machine == again.machine
        record = json.loads(path.read_text())
        assert record["version"] == 8 and len(record["machine"]["hosts"]) == 2
        assert [file.name for file in path.parent.iterdir()] == ["links.json"]

    spmd(3, body)


def test_what_does_not_fit_is_refused_everywhere(spmd, tmp_path):
    def body():
        path = shared_folder(tmp_path) / "links.json"
        LinkModel.measure(pretend((0, 0, 2, 2)), path)
        with pytest.raises(sg.ShardingError, match="does not fit: .*nodes") as refusal:
            LinkModel.measure(pretend((0, 1, 0, 1)), path)
        sg.all_reduce(1.0, sg.init_grid((-1,)), [0])  # goes on
        return str(refusal.value)

    assert len(set(spmd(4, body))) == 1


def test_files_that_cannot_be_read_are_refused_everywhere(spmd, tmp_path):
    def body():
        with pytest.raises(sg.StorageError, match="cannot be read") as refusal:
            LinkModel.measure(sg.init_grid((-1,)), shared_folder(tmp_path))
        return str(refusal.value)

    assert len(set(spmd(2, body))) == 1


def test_paths_that_differ_are_refused(spmd, tmp_path):
    def body():
        grid = sg.init_grid((2,))
        with pytest.raises(sg.MismatchError, match="path differs"):
            LinkModel.measure(grid, None if grid.rank else tmp_path / "links.json")
        return list(tmp_path.iterdir())

    assert spmd(2, body) == [[], []]


def test_a_pure_grid_measures_nothing():
    with pytest.raises(sg.ShardingError, match="bound to processes"):
        LinkModel.measure(sg.Grid((2,)))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"library": "Other MPI"}, "measured with Other MPI"),
        ({"processor": "riscv"}, "riscv processors"),
        ({"hosts": ("a0",)}, "1 nodes"),
        ({"hosts": ("b7", "b8")}, "measured on b7, b8"),
        ({"hosts": ("a7", "a8")}, ""),
    ],
    ids=str,
)
def test_machines(change, words):
    here = Machine(("a1", "a2"), "x86_64", "MPI")
    model = LinkModel(node_size=2, machine=here._replace(**change))
    found = _misfit(model, here, (0, 0, 2, 2))
    assert words in found and bool(words) == bool(found)
    assert _misfit(LinkModel(node_size=2), here, (0, 0, 2, 2)) == "it was not measured"
    assert "nodes" in _misfit(LinkModel(nodes=(0, 1, 0), machine=here), here, (0, 1, 0, 1))


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        LinkModel(),
        LinkModel(nodes=(0, 1, 0), cable_bandwidth=1e9),
        LinkModel(memory_bandwidth=5e9, copies=[(1 << 22, 20e9)]),
        LinkModel(node_size=3, axes={1: (1e-6, 2e9)}, taper=2),
    ],
    ids=str,
)
def test_saved_models_are_the_same(tmp_path, model):
    model.save(tmp_path / "links")
    assert LinkModel.load(tmp_path / "links") == model


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "holds no model of links"),
        ("[1]", "holds no model of links"),
        ('{"format": "spmd_grid links", "version": 7}', "version 7; this package reads version 8"),
        ('{"format": "spmd_grid links", "version": 8, "model": {}}', "has no model with the entries"),
    ],
)
def test_other_files_are_refused(tmp_path, text, words):
    path = tmp_path / "links"
    path.write_text(text)
    with pytest.raises(sg.ShardingError, match=words):
        LinkModel.load(path)


def test_wrong_values_in_a_file_are_refused(tmp_path):
    path = tmp_path / "links"
    LinkModel().save(path)
    path.write_text(path.read_text().replace('"node_size": 1', '"node_size": 0'))
    with pytest.raises(sg.ShardingError, match="holds no model: links: node_size is 0"):
        LinkModel.load(path)


def test_files_that_are_not_there(tmp_path):
    for call in (LinkModel.load, LinkModel().save):
        with pytest.raises(sg.StorageError, match="nowhere"):
            call(tmp_path / "nowhere" / "links")
