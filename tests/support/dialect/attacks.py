"""Changes of texts that somebody makes who wants more than to compute: names of code, arguments that name files."""

import re

NAMES = [
    *(
        "numpy.load",
        "numpy.savetxt",
        "numpy.save",
        "numpy.fromfile",
        "numpy.memmap",
        "numpy.f2py.os.system",
        "os.system",
    ),
    *(
        "numpy.testing.runstring",
        "numpy.ctypeslib.load_library",
        "numpy.add.at",
        "numpy.add.__class__",
        "numpy.vectorize",
    ),
    *("spmd_grid.os.system", "spmd_grid.__import__", "spmd_grid.load", "spmd_grid.<lambda>", "spmd_grid.opaque"),
    *("spmd_grid.manual", "spmd_grid.mean_total", "spmd_grid.pick", "spmd_grid.write", "spmd_grid.constant"),
    *(
        "numpy.sum",
        "numpy.add",
        "numpy.einsum",
        "numpy.copyto",
        "numpy.piecewise",
        "numpy.apply_along_axis",
        "numpy.pad",
    ),
    *("numpy.shape", "numpy.result_type", "numpy.array_split", "spmd_grid.transform_along", "numpy.add.accumulate"),
]
ARGUMENTS = [
    *('file = "stolen"', 'fname = "stolen"', "allow_pickle = true", 'command = "id > stolen"', 'out = "stolen"'),
    *('func1d = "os.system"', 'name = "test"', 'of = "numpy.load"', 'of = "numpy.add"', "of = 1", "collective"),
    *('key = ["array", "::0", "new"]', 'operands = ["out", "file"]', "operands = 9", "axis = 99999999999", "n = -1"),
    *("sharding = [[7]]", "sources = [tensor<4xf32>]", "targets = []", 'subscripts = "ab,bc->ac"', 'value = "0x00"'),
    *('like = "x"', "dtype = !emitc.opaque<\"O\">", "dtype = !emitc.opaque<\"[('a', 'O')]\">", '"__class__" = "x"'),
]  # fmt: skip
CONSTANTS = [
    *('dense<"0x">', 'dense<"0x01">', 'dense<"0xFF00">', 'dense<"0x0000803F">', 'dense<"0xZ1">', "dense<0x7FC00000>"),
    *("dense<(0x3F800000, 1.0)>", "dense<(0x3FF0000000000000, 0x7FF8000000000000)>", "dense<(1, true)>", "dense<[]>"),
    *("dense_resource<stolen>", 'opaque<"stolen", "0x00">'),
]
TYPES = [
    *("tensor<4xi1>", "tensor<2xcomplex<f32>>", "tensor<4xui8>", "tensor<2x!emitc.opaque<\"M8[s]\">>", "tensor<4xf64>"),
    *('tensor<4x!emitc.opaque<"O">>', 'tensor<4x!emitc.opaque<"V9999999999">>', "tensor<4xf32, {split_axes = [[0]]}>"),
    *('tensor<4xf32, {split_axes = [[0]], grid = "g"}>', "tensor<4xf32, {split_axes = [[99]], ranks = [1]}>"),
]  # fmt: skip
SHARDINGS = [
    *("{devices=[2,1]<=[2]}", "{replicated}", "{manual}", "{maximal device=0}", "{devices=[1,2]0,1}", "{", "\\00"),
]


def attacked(text, random):
    """A text with one attack in it."""
    return random.choice([_operation, _operation, _called, _argument, _argument, _constant, _type, _sharding])(
        text, random
    )


def _line(text, random, write):
    """Put a line in front of one in the body of a function; ``write`` makes it of that function's text so far."""
    starts = [each.start() for each in re.finditer(r"^\s+(%|return)", text, re.MULTILINE)] or [0]
    at = random.choice(starts)
    return f"{text[:at]}\n  {write(text[text.rfind('func.func', 0, at) : at])}{text[at:]}"


def _operation(text, random):
    attributes, kind = ", ".join(random.sample(ARGUMENTS, random.choice([0, 1, 1, 2]))), random.choice(TYPES)

    def write(before):
        arguments = re.findall(r"(%\w+)\s*: (tensor<[\w?]+>)", before.partition("\n")[0]) or [("%x", "tensor<4xf32>")]
        given = random.choices(arguments, k=random.choice([0, 1, 1, 2]))
        names, types = (", ".join(each) for each in zip(*given)) if given else ("", "")
        result = random.choice([kind, *types.split(", ")]) or kind
        return f'%evil = "{random.choice(NAMES)}"({names}) {{{attributes}}} : ({types}) -> {result}'

    return _line(text, random, write)


def _called(text, random):
    """Put another name in the place of that of a function, also where it is declared."""
    symbols = re.findall(r"@[\w$.]+", text) or ["@f"]
    return text.replace(random.choice(symbols), f'@"{random.choice(NAMES)}"')


def _argument(text, random):
    prefix, argument = random.choice(["", "spmd_grid."]), random.choice(ARGUMENTS)
    found = [each.end() for each in re.finditer(r"[)>\w] <?\{(?=[^\n{]*=)", text)]
    if found and random.random() < 0.5:
        at = random.choice(found)
        return f"{text[:at]}{prefix}{argument}, {text[at:]}"
    at = random.choice([each.start() for each in re.finditer(r" : [(t!]", text)] or [0])
    return f"{text[:at]} {{{prefix}{argument}}}{text[at:]}"


def _constant(text, random):
    spans = [each.span() for each in re.finditer(r"dense<[^>]*>", text)]
    if spans and random.random() < 0.5:
        start, end = random.choice(spans)
        return text[:start] + random.choice(CONSTANTS) + text[end:]
    constant = f"%evil = arith.constant {random.choice(CONSTANTS)} : {random.choice(TYPES)}"
    return _line(text, random, lambda before: constant)


def _type(text, random):
    spans = [each.span() for each in re.finditer(r"tensor<[\w?]+>", text)] or [(0, 0)]
    start, end = random.choice(spans)
    kind = random.choice(TYPES)
    return (
        text.replace(text[start:end], kind)
        if start < end and random.random() < 0.5
        else text[:start] + kind + text[end:]
    )


def _sharding(text, random):
    spans = [each.end() for each in re.finditer(r"[(,] ?%\w+\s*: tensor<[^>]*>(?=[,)])", text)] or [0]
    at = random.choice(spans)
    return f'{text[:at]} {{mhlo.sharding = "{random.choice(SHARDINGS)}"}}{text[at:]}'
