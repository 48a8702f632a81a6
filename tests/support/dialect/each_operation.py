"""One small program for each operation that is executed without communication, and what numpy gives for it."""

from typing import NamedTuple

import numpy as np

from support.dialect.case_texts import tensor

X = np.linspace(0.5, 2.0, 24, dtype="f4").reshape(4, 6)
Y = np.linspace(1.5, -1.0, 24, dtype="f4").reshape(4, 6)
U = np.linspace(-0.9, 0.9, 24, dtype="f4").reshape(4, 6)
I = np.arange(-12, 12, dtype="i4").reshape(4, 6)  # noqa: E741
J = np.array([3, -2, 5, 1, 7, -4] * 4, "i4").reshape(4, 6)
K = np.array([0, 1, 2, 3, 4, 5] * 4, "i4").reshape(4, 6)
P, Q = I % 2 == 0, I % 3 == 0
M, V, W = X[:, :3].copy(), X[0].copy(), X[:, 0].copy()
BATCH = np.arange(30, dtype="f4").reshape(2, 3, 5)
ARRAYS = {"x": X, "y": Y, "u": U, "i": I, "j": J, "k": K, "p": P, "q": Q, "v": V, "w": W, "b": BATCH}
SCALARS = {"f": np.float32(2.5), "n": np.int64(1), "t": np.bool_(True), "g": np.int32(-7)}
KINDS = {"f4": "f32", "f8": "f64", "f2": "f16", "i4": "i32", "i8": "i64", "i1": "i8", "b1": "i1", "c16": "complex<f64>"}
OF_SCALARS = {"f": "f32", "n": "index", "t": "i1", "g": "i32"}
WRONG = "tensor<97x89xf32>"  # a type that no program here has
WRONG_OF = {  # of those that give any extents
    "tensor.empty": "tensor<?x3xf32>",
    "stablehlo.iota": "tensor<4xf32>",
    "linalg.index": "tensor<97xf32>",
    **dict.fromkeys(("tensor.splat", "linalg.fill", "tosa.const"), "tensor<2xi1>"),
}


class Case(NamedTuple):
    """The body of a function of the arguments that it names; ``{r}`` in it is the type of the result."""

    lines: str
    wanted: object
    result: str = "%r"

    def text(self, kind=None):
        """The program.  ``kind``: another type of the result than that which is right."""
        due = type_of(self.wanted)
        names = [each for each in [*ARRAYS, *SCALARS] if f"%{each}" in _words(self.lines)]
        given = ", ".join(f"%{each}: {OF_SCALARS.get(each) or type_of(ARRAYS[each])}" for each in names)
        types = {each: type_of(x) for each, x in ARRAYS.items()}
        body = self.lines.format(r=kind or due, **types)
        lines = "".join(f"  {line}\n" for line in body.split("\n"))
        return f"func.func @main({given}) -> {kind or due} {{\n{lines}  return {self.result} : {kind or due}\n}}\n"

    def arguments(self):
        """The values of the arguments, copies that may be written to."""
        words = _words(self.lines)
        return [np.array(x) for each, x in ARRAYS.items() if f"%{each}" in words] + [
            x for each, x in SCALARS.items() if f"%{each}" in words
        ]


def _words(text):
    return set("".join(c if c.isalnum() or c in "%_" else " " for c in text).split())


def type_of(x):
    """The type of an array, or of a number."""
    kind = KINDS[x.dtype.str[1:]]
    return tensor(x.shape, kind) if isinstance(x, np.ndarray) else "index" if kind == "i64" else kind


def _same(names, function, *arguments):
    """Programs of operations that have one type: ``%r = NAME %a, %b : TYPE``."""
    shown = ", ".join(f"%{each}" for each in arguments)
    arrays = [ARRAYS[each] for each in arguments]
    return {name: Case(f"%r = {name} {shown} : {{r}}", _typed(function(*arrays), arrays[0])) for name in names}


def _typed(found, like):
    return np.asarray(found).astype(like.dtype)


def _unsigned(function):
    return lambda a, b: function(a.view("u4"), b.view("u4")).view("i4")


def _divided(a, b):
    return np.trunc(a / b).astype(a.dtype)


def _each(prefix, functions, *arguments):
    found = {}
    for name, function in functions.items():
        found |= _same([f"{prefix}.{name}"], function, *arguments)
    return found


FLOATS = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide}
FLOATS |= {"maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax, "minnumf": np.fmin}
INTEGERS = {"addi": np.add, "subi": np.subtract, "muli": np.multiply, "divsi": _divided, "floordivsi": np.floor_divide}
INTEGERS |= {"ceildivsi": lambda a, b: -(-a // b), "remsi": np.fmod, "maxsi": np.maximum, "minsi": np.minimum}
INTEGERS |= {"andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor, "divui": _unsigned(np.floor_divide)}
INTEGERS |= {"remui": _unsigned(np.remainder), "maxui": _unsigned(np.maximum), "minui": _unsigned(np.minimum)}
INTEGERS |= {"ceildivui": _unsigned(lambda a, b: a // b + (a % b != 0).astype("u4"))}
SHIFTS = {"shli": np.left_shift, "shrsi": np.right_shift, "shrui": _unsigned(np.right_shift)}


def _erf(x):
    from math import erf

    return np.vectorize(erf)(x)


CASES = {
    **_each("arith", FLOATS, "x", "y"),
    **_each("arith", INTEGERS, "i", "j"),
    **_each("arith", SHIFTS, "i", "k"),
    **_each("arith", {"negf": np.negative}, "y"),
    "arith.cmpf": Case("%r = arith.cmpf olt, %x, %y : {x}", X < Y),
    "arith.cmpi": Case("%r = arith.cmpi ult, %i, %j : {i}", I.view("u4") < J.view("u4")),
    "arith.select": Case("%r = arith.select %p, %x, %y : {p}, {r}", np.where(P, X, Y)),
    "arith.constant": Case("%r = arith.constant dense<[[1, -2], [3, 4]]> : {r}", np.array([[1, -2], [3, 4]], "i4")),
    "arith.extf": Case("%r = arith.extf %x : {x} to {r}", X.astype("f8")),
    "arith.truncf": Case("%r = arith.truncf %x : {x} to {r}", X.astype("f2")),
    "arith.extsi": Case("%r = arith.extsi %i : {i} to {r}", I.astype("i8")),
    "arith.extui": Case("%r = arith.extui %i : {i} to {r}", I.view("u4").astype("i8")),
    "arith.trunci": Case("%r = arith.trunci %i : {i} to {r}", I.astype("i1")),
    "arith.sitofp": Case("%r = arith.sitofp %i : {i} to {r}", I.astype("f4")),
    "arith.uitofp": Case("%r = arith.uitofp %i : {i} to {r}", I.view("u4").astype("f8")),
    "arith.fptosi": Case("%r = arith.fptosi %y : {y} to {r}", Y.astype("i4")),
    "arith.fptoui": Case("%r = arith.fptoui %x : {x} to {r}", X.astype("i4")),
    "arith.index_cast": Case("%r = arith.index_cast %g : i32 to {r}", np.int64(-7)),
    "arith.index_castui": Case("%r = arith.index_castui %g : i32 to {r}", np.int64(2**32 - 7)),
    "complex.constant": Case("%r = complex.constant [1.5, -2.0] : {r}", np.complex128(1.5 - 2j)),
    "arith.bitcast": Case("%r = arith.bitcast %x : {x} to {r}", X.view("i4")),
    **_each("math", {"absf": np.abs, "atan": np.arctan, "cbrt": np.cbrt, "ceil": np.ceil, "cos": np.cos}, "y"),
    **_each("math", {"cosh": np.cosh, "erf": _erf, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1}, "y"),
    **_each("math", {"floor": np.floor, "roundeven": np.rint, "sin": np.sin, "sinh": np.sinh, "tan": np.tan}, "y"),
    **_each("math", {"tanh": np.tanh, "trunc": np.trunc}, "y"),
    **_each("math", {"acos": np.arccos, "asin": np.arcsin}, "u"),
    **_each("math", {"log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2}, "x"),
    **_each("math", {"sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x)}, "x"),
    **_each("math", {"atan2": np.arctan2, "copysign": np.copysign, "powf": np.power}, "x", "y"),
    **_each("math", {"fma": lambda a, b, c: a * b + c}, "x", "y", "u"),
    **_each("math", {"absi": np.abs}, "i"),
    "tensor.empty": Case("%r = tensor.empty() : {r}", np.zeros((2, 3), "f4")),
    "tensor.splat": Case("%r = tensor.splat %f : {r}", np.full((2, 3), 2.5, "f4")),
    "tensor.extract_slice": Case("%r = tensor.extract_slice %x[0, %n] [2, 2] [2, 2] : {x} to {r}", X[0:4:2, 1:5:2]),
    "tensor.insert_slice": Case(
        "%s = tensor.extract_slice %x[0, 0] [1, 6] [1, 1] : {x} to tensor<6xf32>\n"
        "%r = tensor.insert_slice %s into %y[%n, 0] [1, 6] [1, 1] : tensor<6xf32> into {r}",
        np.concatenate([Y[:1], X[:1], Y[2:]]),
    ),
    "tensor.dim": Case("%r = tensor.dim %x, %n : {x}", np.int64(6)),
    "tensor.cast": Case(
        "%s = tensor.cast %x : {x} to tensor<?x6xf32>\n%r = tensor.cast %s : tensor<?x6xf32> to {r}", X
    ),
    "tensor.collapse_shape": Case("%r = tensor.collapse_shape %x [[0, 1]] : {x} into {r}", X.reshape(24)),
    "tensor.expand_shape": Case(
        "%r = tensor.expand_shape %x [[0], [1, 2]] output_shape [4, 2, 3] : {x} into {r}", X.reshape(4, 2, 3)
    ),
    "tensor.reshape": Case(
        "%s = arith.constant dense<[3, 8]> : tensor<2xi64>\n%r = tensor.reshape %x(%s) : ({x}, tensor<2xi64>) -> {r}",
        X.reshape(3, 8),
    ),
    "tensor.concat": Case("%r = tensor.concat dim(1) %x, %y : ({x}, {y}) -> {r}", np.concatenate([X, Y], 1)),
    "tensor.pad": Case(
        "%r = tensor.pad %v low[2] high[1] {{\n^bb0(%at: index):\n  tensor.yield %f : f32\n}} : {v} to {r}",
        np.array([2.5, 2.5, *V, 2.5], "f4"),
    ),
    "tensor.extract": Case("%r = tensor.extract %v[%n] : {v}", V[1]),
    "tensor.insert": Case("%r = tensor.insert %f into %v[%n] : {r}", np.array([V[0], 2.5, *V[2:]], "f4")),
    "tensor.from_elements": Case("%r = tensor.from_elements %f, %f, %f : {r}", np.full(3, 2.5, "f4")),
    "scf.for": Case(
        "%c0 = arith.constant 0 : index\n%c3 = arith.constant 3 : index\n"
        "%r = scf.for %at = %c0 to %c3 step %n iter_args(%s = %x) -> ({r}) {{\n"
        "  %d = arith.addf %s, %s : {r}\n  scf.yield %d : {r}\n}}",
        X * 8,
    ),
    "scf.if": Case(
        "%r = scf.if %t -> ({r}) {{\n  scf.yield %x : {r}\n}} else {{\n  scf.yield %y : {r}\n}}",
        X,
    ),
    "scf.while": Case(
        "%r = scf.while (%s = %n) : ({r}) -> {r} {{\n"
        "  %c9 = arith.constant 9 : index\n  %c = arith.cmpi slt, %s, %c9 : index\n  scf.condition(%c) %s : index\n"
        "}} do {{\n^bb0(%s: index):\n  %d = arith.addi %s, %s : index\n  scf.yield %d : index\n}}",
        np.int64(16),
    ),
    "scf.execute_region": Case("%r = scf.execute_region -> ({r}) {{\n  scf.yield %x : {r}\n}}", X),
    "cf.assert": Case('cf.assert %t, "holds"\n%r = arith.negf %x : {r}', -X),
}


def _buffers(lines, result):
    """A program on buffers: a copy of ``%x`` in ``%m``, and in the end an array again."""
    kind = f"memref<4x6xf32>\n{lines}\n" if lines else "memref<4x6xf32>\n"
    return f"%m = bufferization.to_buffer %x : {{x}} to {kind}%r = bufferization.to_tensor {result} : "


_STORED = X.copy()
_STORED[1, 1] = 2.5
_HALF = np.zeros((4, 6), "f4")
CASES |= {
    "bufferization.to_buffer": Case(_buffers("", "%m") + "memref<4x6xf32> to {r}", X),
    "bufferization.to_tensor": Case(_buffers("", "%m") + "memref<4x6xf32> to {r}", X),
    "memref.alloc": Case(
        "%m = memref.alloc() : memref<4x6xf32>\n%r = bufferization.to_tensor %m : memref<4x6xf32> to {r}", _HALF
    ),
    "memref.alloca": Case(
        "%m = memref.alloca() : memref<4x6xf32>\n%r = bufferization.to_tensor %m : memref<4x6xf32> to {r}", _HALF
    ),
    "memref.store": Case(
        _buffers("memref.store %f, %m[%n, %n] : memref<4x6xf32>", "%m") + "memref<4x6xf32> to {r}", _STORED
    ),
    "memref.load": Case(
        "%m = bufferization.to_buffer %v : {v} to memref<6xf32>\n%r = memref.load %m[%n] : memref<6xf32>", V[1]
    ),
    "memref.copy": Case(
        _buffers(
            "%o = memref.alloc() : memref<4x6xf32>\nmemref.copy %m, %o : memref<4x6xf32> to memref<4x6xf32>\n"
            "memref.dealloc %m : memref<4x6xf32>",
            "%o",
        )
        + "memref<4x6xf32> to {r}",
        X,
    ),
    "memref.dealloc": Case(
        "%m = memref.alloc() : memref<4xf32>\nmemref.dealloc %m : memref<4xf32>\n%r = arith.negf %x : {r}", -X
    ),
    "memref.dim": Case(
        "%m = bufferization.to_buffer %x : {x} to memref<4x6xf32>\n%r = memref.dim %m, %n : memref<4x6xf32>",
        np.int64(6),
    ),
    "memref.cast": Case(
        _buffers("%o = memref.cast %m : memref<4x6xf32> to memref<?x6xf32>", "%o")
        + "memref<?x6xf32> to tensor<?x6xf32>\n%c = tensor.cast %r : tensor<?x6xf32> to {r}",
        X,
        "%c",
    ),
    "memref.subview": Case(
        _buffers(
            "%o = memref.subview %m[1, 0] [2, 6] [1, 1]"
            " : memref<4x6xf32> to memref<2x6xf32, strided<[6, 1], offset: 6>>\n%d = memref.alloc() : memref<2x6xf32>\n"
            "memref.copy %o, %d : memref<2x6xf32, strided<[6, 1], offset: 6>> to memref<2x6xf32>",
            "%d",
        )
        + "memref<2x6xf32> to {r}",
        X[1:3],
    ),
    "bufferization.materialize_in_destination": Case(
        "%m = memref.alloc() : memref<4x6xf32>\nbufferization.materialize_in_destination %x in writable %m"
        " : ({x}, memref<4x6xf32>) -> ()\n%r = bufferization.to_tensor %m : memref<4x6xf32> to {r}",
        X,
    ),
    "memref.collapse_shape": Case(
        _buffers("%o = memref.collapse_shape %m [[0, 1]] : memref<4x6xf32> into memref<24xf32>", "%o")
        + "memref<24xf32> to {r}",
        X.reshape(24),
    ),
    "memref.expand_shape": Case(
        _buffers(
            "%o = memref.expand_shape %m [[0], [1, 2]] output_shape [4, 2, 3] : memref<4x6xf32> into memref<4x2x3xf32>",
            "%o",
        )
        + "memref<4x2x3xf32> to {r}",
        X.reshape(4, 2, 3),
    ),
    "scf.parallel": Case(
        "%m = memref.alloc() : memref<6xf32>\n%c0 = arith.constant 0 : index\n%c6 = arith.constant 6 : index\n"
        '"scf.parallel"(%c0, %c6, %n) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{\n^bb0(%at: index):\n'
        "  memref.store %f, %m[%at] : memref<6xf32>\n"
        "  scf.reduce\n}}) : (index, index, index) -> ()\n%r = bufferization.to_tensor %m : memref<6xf32> to {r}",
        np.full(6, 2.5, "f4"),
    ),
}
