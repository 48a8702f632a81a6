"""Texts that were programs before somebody touched them, by chance or to do more than to compute."""

import re

TOKENS = re.compile(r'"[^"\n]*"|[%@#!^]?[\w$.\-]+|->|\S')
STRANGE = [
    *'() [ ] { } < > , : = -> - ? x " "open // \\ é ²'.replace("()", "( )").split(),
    *"%0 %nothing %0#7 @nothing @ #nothing !nothing ^bb9 %9:3 # ! %".split(),
    *"0 -1 99999999999 0x 1e999 -0.0 1. true inf i0 i999999999 none unit loc(unknown) tuple<f32> grid_axes".split(),
    *"tensor<4xi8> tensor<*xf32> tensor<99999999999999999999xf32> tensor<-1xf32> memref<?xf32> vector<4xf32>".split(),
    *("", "\0", "9" * 30, "9" * 5000, "0x" + "F" * 40, "dense<[[1], 2]>", 'dense<"0xZZ">', "dense<>", "array<i64: 1>"),
    *"shard.grid shard.nothing mesh.mesh func.func func.return builtin.module arith.constant scf.if".split(),
    *("reduction = generic", "root = []", "shape = []", "affine_map<(d0) -> (d0)>", "array<f32: 1.0>"),
]
# Of attacks: names of code, arguments that name files, and what only looks like cells, types and shardings.
NAMES = [
    *"numpy.load numpy.savetxt numpy.save numpy.fromfile numpy.memmap numpy.f2py.os.system os.system".split(),
    *"numpy.testing.runstring numpy.ctypeslib.load_library numpy.add.__class__ numpy.vectorize numpy.add.at".split(),
    *"spmd_grid.os.system spmd_grid.__import__ spmd_grid.load spmd_grid.opaque spmd_grid.manual spmd_grid.pick".split(),
    *"spmd_grid.mean_total spmd_grid.write spmd_grid.constant spmd_grid.transform_along spmd_grid.<lambda>".split(),
    *"numpy.sum numpy.add numpy.einsum numpy.copyto numpy.piecewise numpy.apply_along_axis numpy.pad".split(),
    *"numpy.shape numpy.result_type numpy.array_split numpy.add.accumulate".split(),
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


def mutant(text, random):
    """A text with one to three changes.  Most leave its form and change its meaning."""
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        text = random.choice([_cut, _strange, _dropped, _swapped, _character, *5 * [_number], *3 * [_word], _line])(
            text, random
        )
    return text


def _spans(text):
    return [found.span() for found in TOKENS.finditer(text)] or [(0, 0)]


def _cut(text, random):
    return text[: random.randrange(len(text) + 1)]


def _strange(text, random):
    start, end = random.choice(_spans(text))
    return text[:start] + random.choice(STRANGE) + text[end:]


def _dropped(text, random):
    start, end = random.choice(_spans(text))
    return text[:start] + text[end:]


def _number(text, random):
    numbers = [found.span() for found in re.finditer(r"(?<![\w.%@#])\d+(?=[^\w.]|x)|(?<=x)\d+(?=x)", text)]
    start, end = random.choice(numbers or [(0, 0)])
    return text[:start] + str(random.choice([0, 1, 2, 3, 5, 12, -1, 70000, 2**63, 2**64])) + text[end:]


def _word(text, random):
    """Put a word of the text in the place of another of its kind: a value, a symbol, a type, an operation."""
    kinds = [r"%\w+", r"@\w+", r"tensor<[\w?]+>", r"\bf32\b|\bf64\b|\bi32\b|\bi8\b", r"shard\.\w+", r"\w+\.\w+"]
    words = [found.span() for found in re.finditer(random.choice(kinds), text)]
    (start, end), (a, b) = random.choice(words or [(0, 0)]), random.choice(words or [(0, 0)])
    return text[:start] + text[a:b] + text[end:]


def _line(text, random):
    """Leave a line out, write it twice, or put it elsewhere."""
    lines = text.splitlines(keepends=True) or [""]
    line = lines.pop(random.randrange(len(lines)))
    for _ in range(random.randint(0, 2)):
        lines.insert(random.randint(0, len(lines)), line)
    return "".join(lines)


def _swapped(text, random):
    (a, b), (c, d) = sorted([random.choice(_spans(text)), random.choice(_spans(text))])
    return text if b > c else text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]


def _character(text, random):
    at = random.randrange(len(text) + 1)
    return text[:at] + chr(random.choice([0, 9, 34, 37, 60, 64, 92, 123, 178, 233, 0x2028, 0x1F600])) + text[at + 1 :]


# -- attacks -------------------------------------------------------------------------------------------------------


def attacked(text, random):
    """A text with one attack in it."""
    return random.choice([_operation, _operation, _called, _argument, _argument, _constant, _type, _sharding])(
        text, random
    )


def _inserted(text, random, write):
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

    return _inserted(text, random, write)


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
    return _inserted(text, random, lambda before: constant)


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
