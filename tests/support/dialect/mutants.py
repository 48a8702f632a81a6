"""Texts that were programs before somebody touched them."""

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
