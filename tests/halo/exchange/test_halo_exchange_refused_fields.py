"""Fields that a HaloExchange refuses: clearly, equally on all ranks that it concerns, and with nobody left waiting."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from support.halo.exchange_oracle import PATHS, neighbours
from support.halo.small_plans import SHAPE, N, check_it_works, make

import spmd_grid as sg
from spmd_grid.exchange.channel.channel import Channel


def read_only(x):
    x.flags.writeable = False
    return x


def other_layout(grid, **changed):
    sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1], **changed.pop("sharding", {}))
    return sg.zeros(changed.get("shape", SHAPE), sharding, grid)


WRONG = {
    "list": (lambda g: [[0.0] * 3] * 4, "OutputError", "list"),
    "none": (lambda g: None, "OutputError", "NoneType"),
    "number": (lambda g: 1.0, "OutputError", "float"),
    "masked": (lambda g: np.ma.zeros((4, 3)), "OutputError", "MaskedArray"),
    "read-only": (lambda g: read_only(np.zeros((4, 3))), "OutputError", "read-only"),
    "broadcast": (lambda g: np.broadcast_to(np.zeros(3), (4, 3)), "OutputError", "read-only"),
    "overlapping": (lambda g: as_strided(np.zeros(4), (4, 3), (8, 0)), "OutputError", "stride"),
    "objects": (lambda g: np.zeros((4, 3), object), "DTypeError", "object"),
    "dtype": (lambda g: np.zeros((4, 3), "f4"), "DTypeError", "float32"),
    "byte order": (lambda g: np.zeros((4, 3), ">f8"), "DTypeError", ">f8"),
    "shape": (lambda g: np.zeros((3, 4)), "ShapeError", "(3, 4)"),
    "without halos": (lambda g: np.zeros((2, 3)), "ShapeError", "(2, 3)"),
    "fewer dimensions": (lambda g: np.zeros(12), "ShapeError", "(12,)"),
    "more dimensions": (lambda g: np.zeros((4, 3, 1)), "ShapeError", "(4, 3, 1)"),
    "other layout": (lambda g: other_layout(g, sharding={"blocks": "balanced"}), "ShapeError", "balanced"),
    "other global shape": (lambda g: other_layout(g, shape=(7, 3)), "ShapeError", "(7, 3)"),
}
FORMS = {
    "update": lambda halo, *fields: halo.update(*fields),
    "start": lambda halo, *fields: [halo.start(*fields), halo.wait()],
    "only_dirty": lambda halo, *fields: halo.update(*fields, only_dirty=True),
    "accumulate": lambda halo, *fields: halo.accumulate(*fields),
}


def refuse_fields(halo, grid, form, given, culprits, good):
    """One update with the given fields; what it raised.  Those who raise find their arrays as they were.

    Culprits raise, and ranks that take from one; of all others only those may that give to one.
    """
    before = [x.copy() for x in good]
    must = grid.rank in culprits or any(takes_from(halo, grid, rank) for rank in culprits)
    try:
        FORMS[form](halo, *given)
    except sg.SpmdError as error:
        assert must or neighbours(halo, grid) & set(culprits), error
        for x, copy in zip(good, before, strict=True):
            assert np.array_equal(x, copy)
        return type(error).__name__, str(error)
    assert not must
    return None


def takes_from(halo, grid, rank) -> bool:
    """Whether this rank needs cells of that one's."""
    return any(grid.grid.process(take.owner) == rank for take in halo.pattern.takes(grid.coords))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("what", WRONG)
def test_field_of_one_rank(spmd, what, path):
    """Every form, each of two ranks, again and again: an error for those it concerns, and the plan goes on."""
    make_field, error, words = WRONG[what]

    def body():
        grid = sg.init_grid((N,))
        results = []
        with make(grid, path=path) as halo:
            for form in FORMS:
                for culprit in 0, 2, 2:
                    u = np.full((4, 3), grid.rank + 1.0)
                    u[0] = u[-1] = -1
                    given = make_field(grid) if grid.rank == culprit else u
                    found = refuse_fields(halo, grid, form, [given], [culprit], [u])
                    results.append((form, culprit, found))
                    check_it_works(grid, halo, again=2)
        return results

    for each in zip(*spmd(N, body), strict=True):
        culprit = each[0][1]
        found = [result for _, _, result in each]
        raised = [rank for rank in range(N) if found[rank] is not None]
        assert raised == [rank for rank in range(N) if abs(rank - culprit) <= 1], each
        assert len({found[rank] for rank in raised}) == 1, each
        name, message = found[culprit]
        assert name == error and words in message and "HaloExchange" in message, each
        assert f"rank {culprit} ({culprit},)" in message, each


def test_number_of_fields_and_which_one(in_any_order, path):
    def body():
        grid = sg.init_grid((2,))
        good = [np.zeros((4, 3)), np.zeros((4, 3), "i4"), np.zeros((4, 3))]
        results = []
        with make(grid, shape=(4, 3), dtype=["f8", "i4", "f8"], path=path) as halo:
            for given in (
                [],
                good[:1],
                good[:2],
                [*good, good[0]],
                [good[0], good[0], good[2]],
                [good[1], *good[1:]],
                [*good[:2], np.zeros((5, 3))],
            ):
                with pytest.raises(sg.SpmdError) as caught:
                    halo.update(*(given if grid.rank else good))
                results.append((type(caught.value).__name__, str(caught.value)))
                check_it_works(grid, halo, 3)
        return results

    ours, theirs = in_any_order(2, body)
    assert ours == theirs
    words = [
        "0 fields",
        "1 fields",
        "2 fields",
        "4 fields",
        "field 1 has dtype",
        "field 0 has dtype",
        "field 2 has shape",
    ]
    for (name, message), text in zip(ours, words, strict=True):
        assert text in message and name == ("DTypeError" if "dtype" in text else "ShapeError")


@pytest.mark.parametrize(("n", "alike"), [(3, True), (2, False)])
def test_all_are_culprits(in_any_order, path, n, alike):
    """One error on all: that of nobody where all make the same mistake, and of two that differ one."""

    def body():
        grid = sg.init_grid((n,))
        found = []
        with make(grid, shape=(2 * n, 3), path=path) as halo:
            for form in FORMS:
                dtype = "f4" if alike or grid.rank else "c16"
                found.append(refuse_fields(halo, grid, form, [np.zeros((4, 3), dtype)], range(n), []))
                check_it_works(grid, halo)
        return found

    first, *others = in_any_order(n, body)
    assert all(each == first for each in others)
    for kind, text in first:
        assert kind == "DTypeError" and ("on rank" in text) == (not alike and "compiled" not in text), text


def test_refusals_right_after_one_another(in_any_order, path):
    """Each rank reads the words of this refusal, not those of the next one, which its neighbour has at hand already."""

    def body():
        grid = sg.init_grid((3,))
        u, found = np.zeros((4, 3)), []
        bad = [np.zeros((4, 3), "f4"), np.zeros((3, 3)), None, np.zeros((5, 3))]
        with make(grid, shape=(6, 3), path=path) as halo:
            for step in range(60):
                try:
                    halo.update(bad[step % 4] if grid.rank == 1 else u)
                except sg.SpmdError as error:
                    found.append(str(error))
        return found

    by_rank = in_any_order(3, body)
    for messages in zip(*by_rank, strict=True):
        assert len(set(messages)) == 1, messages
    assert len(by_rank[0]) == 60


def test_a_plan_that_goes_right_after_its_refusal(in_any_order, path):
    """The words of the refusal must last until the neighbours have read them."""

    def body():
        grid = sg.init_grid((2,))
        u, found = np.zeros((4, 3)), []
        for step in range(20):
            halo = make(grid, shape=(4, 3), path=path)
            bad = np.zeros((4 + step, 3), "f4") if grid.rank == 1 else u
            try:
                halo.update(bad)
            except sg.SpmdError as error:
                found.append(str(error))
            halo.close()
        return found

    ours, theirs = in_any_order(2, body)
    assert ours == theirs and len(ours) == 20


def test_long_and_foreign_words(spmd):
    """A refusal that is longer than what neighbours are told of it, cut at any place."""

    def body():
        grid = sg.init_grid((2,))
        for shift in range(4):
            names = ["x" * shift + "äöü" * 20 + str(i) for i in range(20)]
            dtype = np.dtype([(name, "f8") for name in names])
            with make(grid, shape=(4, 3)) as halo:
                with pytest.raises(sg.DTypeError, match="äöü"):
                    halo.update(np.zeros((4, 3), dtype if grid.rank else "f8"))
                check_it_works(grid, halo)

    spmd(2, body)


def test_refusals_with_large_faces(spmd, path):
    """Refusals while partners have sent long messages, or wait to be read."""
    shape = (8, 40_000)

    def body():
        grid = sg.init_grid((N,))
        sharding = sg.Sharding(grid, [[0]], halo_sizes=[1, 1])
        with sg.HaloExchange(grid, sharding, shape, "f8", path=path) as halo:
            u = sg.full(shape, sharding, grid, fill_value=grid.rank)
            for step in range(4):
                u.local[0] = u.local[-1] = -1
                found = refuse_fields(
                    halo, grid, "start" if step % 2 else "update", [None if grid.rank == 1 else u], [1], [u.local]
                )
                assert (found is None) == (grid.rank == 3)
                u.core[...] = grid.rank + 10 * step
                halo.update(u)
                assert (u.local[0] == (grid.rank - 1 + 10 * step if grid.rank else -1)).all()
                assert (u.local[-1] == (grid.rank + 1 + 10 * step if grid.rank < 3 else -1)).all()

    spmd(N, body)


def test_no_memory_to_prepare_a_field(in_any_order, path, monkeypatch):
    """Python's own error is told to the neighbours as well."""
    make_call = Channel.call

    def call(self, fields, *args, **options):
        if self.comm.rank == 1 and fields[0][0, 0] == 1e9:
            raise MemoryError("no room for the table")
        return make_call(self, fields, *args, **options)

    monkeypatch.setattr(Channel, "call", call)

    def body():
        grid = sg.init_grid((N,))
        results = []
        with make(grid, path=path) as halo:
            for form in FORMS:
                u = np.full((4, 3), 1e9)
                results.append(refuse_fields(halo, grid, form, [u], [1], [u]))
                check_it_works(grid, halo)
        return results

    by_rank = in_any_order(N, body)
    for rank in range(3):
        for kind, text in by_rank[rank]:
            assert kind == "TransportError" and "no room for the table (on rank 1 (1,))" in text
    assert by_rank[3] == len(FORMS) * [None]


def test_on_a_plane_only_those_beside_the_culprit_raise(in_any_order, path):
    """Corners make neighbours; a star leaves them out.  Widths that reach over thin blocks make more."""

    def body():
        grid = sg.init_grid((2, 3))
        results = []
        for halo_sizes, corners in (
            ([1, 1, 1, 1], True),
            ([1, 1, 1, 1], False),
            ([0, 1, 3, 0], True),
            ([0, 1, 0, 0], False),
        ):
            sharding = sg.Sharding(grid, [[0], [1]], halo_sizes=halo_sizes)
            with sg.HaloExchange(grid, sharding, (2, 5), "f8", corners=corners, path=path) as halo:
                u = np.zeros(halo.layout.local_shape(grid.coords))
                for culprit in 0, 4:
                    given = None if grid.rank == culprit else u
                    results.append(refuse_fields(halo, grid, "update", [given], [culprit], [u]))
                    halo.update(u)
        return results

    for found in zip(*in_any_order(6, body), strict=True):
        raised = {result for result in found if result is not None}
        assert len(raised) == 1 and "NoneType" in next(iter(raised))[1]


def test_one_way_halos(in_any_order):
    """Partners that only give, or only take: those who only give to the culprit raise as well."""

    def body():
        grid = sg.init_grid((3,))
        for path in PATHS:
            for halo_sizes in [1, 0], [0, 2]:
                with make(grid, halo_sizes=halo_sizes, shape=(6, 3), path=path) as halo:
                    u = np.full(halo.layout.local_shape(grid.coords), float(grid.rank))
                    for step in range(6):
                        culprit = step % 3
                        given = None if grid.rank == culprit else u
                        if grid.rank == culprit or takes_from(halo, grid, culprit):
                            with pytest.raises(sg.OutputError, match=f"rank {culprit} "):
                                halo.update(given)
                        else:
                            try:
                                halo.update(given)
                            except sg.OutputError as error:
                                assert f"rank {culprit} " in str(error)
                        u[...] = grid.rank + 10 * step
                        halo.update(u)
                        for cell, rank in (0, grid.rank - 1), (-1, grid.rank + 1):
                            if halo_sizes[cell] and 0 <= rank < 3:
                                assert (u[cell] == rank + 10 * step).all()

    in_any_order(3, body)
