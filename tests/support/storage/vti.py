"""A small reader of ParaView's image files, independent of VTK: numpy and the XML parser of Python."""

import xml.etree.ElementTree as ET

import numpy as np

DTYPES = {
    f"{kind}Int{bits}": f"{code}{bits // 8}" for kind, code in (("U", "u"), ("", "i")) for bits in (8, 16, 32, 64)
}
DTYPES |= {"Float32": "f4", "Float64": "f8"}


def _box(extent):
    """Slices by tensor dimension of an extent, x first there, of dimensions that have cells."""
    numbers = [int(word) for word in extent.split()]
    return tuple(slice(*pair) for pair in list(zip(numbers[::2], numbers[1::2]))[::-1] if pair != (0, 0))


def read_piece(path):
    """The cells of a .vti file: its slices of the whole, its arrays by name, and origin and spacing."""
    raw = path.read_bytes()
    text, _, data = raw.partition(b'<AppendedData encoding="raw">\n   _')
    root = ET.fromstring(text + b"</VTKFile>")
    assert root.get("header_type") == "UInt64" and root.get("byte_order") == "LittleEndian"
    image = root.find("ImageData")
    piece = image.find("Piece")
    box = _box(piece.get("Extent"))
    shape = tuple(part.stop - part.start for part in box)
    arrays = {}
    for each in piece.find("CellData"):
        at, dtype = int(each.get("offset")), np.dtype("<" + DTYPES[each.get("type")])
        nbytes = int.from_bytes(data[at : at + 8], "little")
        arrays[each.get("Name")] = np.frombuffer(data[at + 8 : at + 8 + nbytes], dtype).reshape(shape)
    return box, arrays, (image.get("Origin"), image.get("Spacing"))


def read_whole(path):
    """The arrays of a .pvti file by name, put together from its pieces, every cell once; and origin and spacing."""
    image = ET.parse(path).getroot().find("PImageData")
    shape = tuple(part.stop for part in _box(image.get("WholeExtent")))
    types = {each.get("Name"): np.dtype("<" + DTYPES[each.get("type")]) for each in image.find("PCellData")}
    found = {name: np.zeros(shape, dtype) for name, dtype in types.items()}
    times = np.zeros(shape, int)
    for piece in image.findall("Piece"):
        box, arrays, place = read_piece(path.parent / piece.get("Source"))
        assert box == _box(piece.get("Extent")) and place == (image.get("Origin"), image.get("Spacing"))
        assert {name: a.dtype for name, a in arrays.items()} == types
        for name, a in arrays.items():
            found[name][box] = a
        times[box] += 1
    assert (times == 1).all(), "pieces overlap, or leave cells out"
    return found, (image.get("Origin"), image.get("Spacing"))
