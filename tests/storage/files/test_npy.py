"""Plain .npy files: numpy's bytes from every layout, read into every layout, refused alike where they are not whole."""

import gc
import io
import time
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest
from support.same_bytes import same_bytes
from support.storage.shared import LAYOUTS, common_folder, values

import spmd_grid as sg
from spmd_grid.python_text import literal_of
from spmd_grid.storage.npy_format import header_of

STRUCTURE = np.dtype({"names": ["a", "b"], "formats": ["<i2", ("<f4", (2,))], "offsets": [0, 4], "itemsize": 16})
SHAPES = [(7, 9), (1, 5), (3, 0), (6, 4, 5), (2, 300)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stage_bytes", [64, 1 << 20])
def test_numpys_bytes_from_and_into_every_layout(spmd, shape, stage_bytes):
    def body():
        grid = sg.init_grid((2, 3))
        want = values(shape, ">f4")
        buffer = io.BytesIO()
        np.save(buffer, want)
        with common_folder(grid) as folder:
            for i, (axes, options) in enumerate(LAYOUTS.values()):
                sharding = sg.Sharding(grid, axes, **options)
                a = sg.from_global(want, sharding, grid)
                path = sg.save_npy(folder / f"{i}.npy", a, stage_bytes=stage_bytes)
                same = path.read_bytes() == buffer.getvalue()
                assert same
                again = sg.load_npy(path, sharding, grid, stage_bytes=stage_bytes)
                assert same_bytes(again.local, a.local), (axes, options)
            assert grid.rank or len(list(folder.iterdir())) == len(LAYOUTS)  # and nothing else is left

    spmd(6, body)


@pytest.mark.parametrize("shape", [(7, 9), (6, 4, 5), (3, 0), (5,)])
@pytest.mark.parametrize("stage_bytes", [64, 1 << 20])
def test_files_in_fortrans_order(spmd, shape, stage_bytes):
    def body():
        grid = sg.init_grid((2, 3))
        want = values(shape, "f4")
        with common_folder(grid) as folder:
            if grid.rank == 0:
                np.save(folder / "f.npy", np.asfortranarray(want))
            sg.all_reduce(1, grid, None, "sum")
            for axes, options in LAYOUTS.values():
                if len(axes) <= len(shape) and len(options.get("halo_sizes", ())) in (0, 2 * len(shape)):
                    a = sg.from_global(want, sg.Sharding(grid, axes, **options), grid)
                    again = sg.load_npy(folder / "f.npy", a.sharding, grid, stage_bytes=stage_bytes)
                    assert same_bytes(again.local, a.local), (axes, options)
                    same = sg.load_npy(folder / "f.npy", a.sharding, grid, dtype="f8", stage_bytes=stage_bytes)
                    assert same_bytes(same.local, a.local.astype("f8"))

    spmd(6, body)


DTYPES = [
    "?",
    "<i2",
    ">f8",
    "<c16",
    "S3",
    "<U2",
    "<M8[ns]",
    "V5",
    "g",
    STRUCTURE,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e5m2,
]


def test_every_dtype(spmd):
    def body():
        grid = sg.init_grid((3,))
        with common_folder(grid) as folder:
            for shape in ((), (5, 3)):
                for dtype in DTYPES:
                    want = values(shape, dtype)
                    a = sg.from_global(want, sg.Sharding(grid, [[0]] if shape else []), grid)
                    path = sg.save_npy(folder / "a.npy", a)
                    found = np.load(path)
                    assert found.shape == shape and np.all(found.view(want.dtype) == want)
                    again = sg.load_npy(path, a.sharding, grid, dtype=dtype)
                    assert again.dtype == want.dtype and np.all(again.to_global() == want)

    spmd(3, body)


@pytest.mark.filterwarnings("ignore:Stored array in format")
def test_headers_are_numpys():
    for shape in ((), (3,), (0, 4), (10, 2, 3)):
        for dtype in ("<f8", [("a", "<i4"), ("b", "<f4", (2,))], [("x" * 70000, "<i4")], [("\u03b1", "<i4")]):
            buffer, array = io.BytesIO(), np.zeros(shape, dtype)
            np.save(buffer, array)
            same = header_of(array.dtype, shape) + array.tobytes() == buffer.getvalue()
            assert same, (shape, str(dtype)[:80])


@pytest.mark.parametrize("dtype", [STRUCTURE, "g"])
def test_bytes_without_a_value_are_stored_as_zero(dtype):
    grid = sg.init_grid((1,))
    files = []
    with common_folder(grid) as folder:
        for filler in (0, 255):
            want = np.full(4 * np.dtype(dtype).itemsize, filler, np.uint8).view(dtype)
            want[...] = values((4,), "i1").astype("f4") if dtype == "g" else np.array((1, (2, 3)), dtype)
            raw = want.view(np.uint8).reshape(4, -1)
            raw[:, 12:] = filler  # which no field and no long double reaches
            a = sg.from_local(want, sg.Sharding(grid, [[0]]), grid, (4,))
            files.append(sg.save_npy(folder / "a.npy", a).read_bytes())
    assert files[0] == files[1]


def test_ranks_on_threads_read_headers_at_once():
    """Python before 3.11.8 fails where a thread parses while another one does, as when garbage is collected between."""
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3), }"
    thresholds = gc.get_threshold()
    give_way = lambda *_: time.sleep(0)  # noqa: E731
    gc.callbacks.append(give_way)
    gc.set_threshold(20)
    try:
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(literal_of, [text] * 500))
    finally:
        gc.callbacks.remove(give_way)
        gc.set_threshold(*thresholds)
    assert found == [{"descr": "<f4", "fortran_order": False, "shape": (5, 3)}] * 500
