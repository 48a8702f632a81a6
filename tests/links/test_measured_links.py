"""Models of links that are measured: alike on every process, kept in files, and refused where they do not fit."""

import json

import pytest
from support.storage.layouts import shared_folder

import spmd_grid as sg
from spmd_grid.links.kept import _misfit
from spmd_grid.links.model import LinkModel, Machine

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
        assert all(value > 0 for value in (model.network_latency, model.network_bandwidth, model.message_seconds))
        assert model.core_bandwidth >= model.cache_bandwidth >= model.memory_bandwidth and model.alone_bandwidth > 0
        assert 1 <= model.one_way <= 4 and 1 <= model.process_one_way <= 2 and model.run_seconds >= 0
        assert 0 < model.core_bytes <= model.cache_bytes and model.alone_bytes > 0
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


def test_models_are_kept(spmd, tmp_path):
    def body():
        path = shared_folder(tmp_path) / "links.json"
        grid = pretend((0, 0, 2))
        one, again = LinkModel.measure(grid, path), LinkModel.measure(grid, str(path))
        assert one == again == LinkModel.load(path) and one.machine == again.machine
        record = json.loads(path.read_text())
        assert record["version"] == 6 and len(record["machine"]["hosts"]) == 2
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
        LinkModel(memory_bandwidth=5e9, cache_bandwidth=20e9, cache_bytes=1 << 22),
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
        ('{"format": "spmd_grid links", "version": 5}', "version 5; this package reads version 6"),
        ('{"format": "spmd_grid links", "version": 6, "model": {}}', "has no model with the entries"),
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
