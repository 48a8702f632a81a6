"""The same for linalg, tosa and stablehlo."""

import numpy as np

from support.dialect.each_operation import (
    BATCH,
    CASES,
    Case,
    I,
    J,
    P,
    Q,
    U,
    V,
    W,
    X,
    Y,
    _divided,
    _erf,
)

__all__ = ["CASES"]


def _outs(name, arguments, wanted, before="", after=""):
    """A structured operation into an array of zeros."""
    shown, kinds = ", ".join(f"%{each}" for each in arguments), ", ".join(f"{{{each}}}" for each in arguments)
    return Case(
        f"%o = arith.constant dense<0.0> : {{r}}\n%r = {name}{before} ins({shown} : {kinds}) outs(%o : {{r}}){after}",
        wanted.astype("f4"),
    )


_UNARY = {"abs": np.abs, "ceil": np.ceil, "erf": _erf, "exp": np.exp, "floor": np.floor, "negf": np.negative}
_UNARY |= {"square": np.square, "tanh": np.tanh, "copy": np.positive}
_POSITIVE = {"log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": lambda x: 1 / x}
_BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum}
_BINARY |= {"min": np.minimum, "powf": np.power}
_BODY = "{{\n  ^bb0(%a: f32, %c: f32):\n    %e = arith.addf %a, %c : f32\n    linalg.yield %e : f32\n  }} -> {r}"
_MAPS = "[affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>]"

CASES |= {f"linalg.{name}": _outs(f"linalg.{name}", "y", f(Y), after=" -> {r}") for name, f in _UNARY.items()}
CASES |= {f"linalg.{name}": _outs(f"linalg.{name}", "x", f(X), after=" -> {r}") for name, f in _POSITIVE.items()}
CASES |= {f"linalg.{name}": _outs(f"linalg.{name}", "xy", f(X, Y), after=" -> {r}") for name, f in _BINARY.items()}
CASES |= {
    f"linalg.{name} with a number": Case(
        "%o = arith.constant dense<0.0> : {r}\n"
        f"%r = linalg.{name} ins(%x, %f : {{x}}, f32) outs(%o : {{r}}) -> {{r}}",
        f(X, np.float32(2.5)).astype("f4"),
    )
    for name, f in _BINARY.items()
}
CASES |= {
    "linalg.select": _outs("linalg.select", "pxy", np.where(P, X, Y), after=" -> {r}"),
    "linalg.fill": Case(
        "%o = tensor.empty() : tensor<2x3xf32>\n%r = linalg.fill ins(%f : f32) outs(%o : tensor<2x3xf32>) -> {r}",
        np.full((2, 3), 2.5, "f4"),
    ),
    "linalg.matmul": Case(
        "%s = tensor.collapse_shape %b [[0, 1], [2]] : {b} into tensor<6x5xf32>\n%o = arith.constant dense<0.0> : {r}\n"
        "%r = linalg.matmul ins(%x, %s : {x}, tensor<6x5xf32>) outs(%o : {r}) -> {r}",
        X @ BATCH.reshape(6, 5),
    ),
    "linalg.batch_matmul": Case(
        "%s = tensor.expand_shape %b [[0], [1, 2], [3]] output_shape [2, 3, 1, 5] : {b} into tensor<2x3x1x5xf32>\n"
        "%e = tensor.collapse_shape %s [[0], [1], [2, 3]] : tensor<2x3x1x5xf32> into {b}\n"
        "%z = arith.constant dense<2.0> : tensor<2x5x2xf32>\n%o = arith.constant dense<0.0> : {r}\n"
        "%r = linalg.batch_matmul ins(%e, %z : {b}, tensor<2x5x2xf32>) outs(%o : {r}) -> {r}",
        BATCH @ np.full((2, 5, 2), 2, "f4"),
    ),
    "linalg.batch_matvec": Case(
        "%z = arith.constant dense<2.0> : tensor<2x5xf32>\n%o = arith.constant dense<0.0> : {r}\n"
        "%r = linalg.batch_matvec ins(%b, %z : {b}, tensor<2x5xf32>) outs(%o : {r}) -> {r}",
        2 * BATCH.sum(2),
    ),
    "linalg.batch_vecmat": Case(
        "%z = arith.constant dense<2.0> : tensor<2x3xf32>\n%o = arith.constant dense<0.0> : {r}\n"
        "%r = linalg.batch_vecmat ins(%z, %b : tensor<2x3xf32>, {b}) outs(%o : {r}) -> {r}",
        2 * BATCH.sum(1),
    ),
    "linalg.matvec": _outs("linalg.matvec", "xv", X @ V, after=" -> {r}"),
    "linalg.vecmat": _outs("linalg.vecmat", "wx", W @ X, after=" -> {r}"),
    "linalg.dot": _outs("linalg.dot", "vv", np.asarray(V @ V), after=" -> {r}"),
    "linalg.transpose": Case(
        "%o = tensor.empty() : {r}\n%r = linalg.transpose ins(%x : {x}) outs(%o : {r}) permutation = [1, 0]", X.T.copy()
    ),
    "linalg.broadcast": Case(
        "%o = tensor.empty() : {r}\n%r = linalg.broadcast ins(%v : {v}) outs(%o : {r}) dimensions = [0]",
        np.broadcast_to(V, (4, 6)).copy(),
    ),
    "linalg.reduce": _outs(
        "linalg.reduce",
        "x",
        X.sum(1),
        after=" dimensions = [1]\n  (%a: f32, %c: f32) {{\n    %e = arith.addf %a, %c : f32\n"
        "    linalg.yield %e : f32\n  }}",
    ),
    "linalg.reduce in short": _outs("linalg.reduce {{ arith.maximumf }}", "x", X.max(0), after=" dimensions = [0]"),
    "linalg.generic": _outs(
        "linalg.generic",
        "x",
        X.sum(0),
        f' {{{{indexing_maps = {_MAPS}, iterator_types = ["reduction", "parallel"]}}}}',
        " " + _BODY,
    ),
    "linalg.index": Case(
        "%o = tensor.empty() : {r}\n"
        "%r = linalg.generic {{indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>], iterator_types = "
        '["parallel", "parallel"]}} outs(%o : {r}) {{\n  ^bb0(%a: f32):\n    %d = linalg.index 1 : index\n'
        "    %e = arith.index_cast %d : index to i32\n    %h = arith.sitofp %e : i32 to f32\n"
        "    linalg.yield %h : f32\n  }} -> {r}",
        np.broadcast_to(np.arange(6, dtype="f4"), (4, 6)).copy(),
    ),
}


def _called(name, arguments, wanted, options=""):
    """An operation of tosa, or another with the type of a function."""
    shown, kinds = ", ".join(f"%{each}" for each in arguments), ", ".join(f"{{{each}}}" for each in arguments)
    return Case(f"%r = {name} {shown}{options} : ({kinds}) -> {{r}}", wanted)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


_OF_ONE = {"abs": np.abs, "ceil": np.ceil, "cos": np.cos, "erf": _erf, "exp": np.exp, "floor": np.floor, "sin": np.sin}
_OF_ONE |= {"identity": np.positive, "negate": np.negative, "sigmoid": _sigmoid, "tanh": np.tanh}
_OF_TWO = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
_BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
_COMPARED = {"equal": np.equal, "greater": np.greater, "greater_equal": np.greater_equal}
_REDUCED = {"max": np.max, "min": np.min, "product": np.prod, "sum": np.sum}

CASES |= {f"tosa.{name}": _called(f"tosa.{name}", "y", f(Y).astype("f4")) for name, f in _OF_ONE.items()}
CASES |= {f"tosa.{name}": _called(f"tosa.{name}", "x", f(X)) for name, f in _POSITIVE.items() if name != "sqrt"}
CASES |= {f"tosa.{name}": _called(f"tosa.{name}", "xy", f(X, Y)) for name, f in (_OF_TWO | {"pow": np.power}).items()}
CASES |= {f"tosa.bitwise_{name}": _called(f"tosa.bitwise_{name}", "ij", f(I, J)) for name, f in _BITS.items()}
CASES |= {f"tosa.logical_{name}": _called(f"tosa.logical_{name}", "pq", f(P, Q)) for name, f in _BITS.items()}
CASES |= {f"tosa.{name}": _called(f"tosa.{name}", "ij", f(I, J)) for name, f in _COMPARED.items()}
CASES |= {
    f"tosa.reduce_{name}": _called(f"tosa.reduce_{name}", "y", f(Y, axis=1, keepdims=True), " {{axis = 1 : i32}}")
    for name, f in _REDUCED.items()
}
CASES |= {
    "tosa.reduce_all": _called("tosa.reduce_all", "p", P.all(1, keepdims=True), " {{axis = 1 : i32}}"),
    "tosa.reduce_any": _called("tosa.reduce_any", "p", P.any(1, keepdims=True), " {{axis = 1 : i32}}"),
    "tosa.bitwise_not": _called("tosa.bitwise_not", "i", ~I),
    "tosa.logical_not": _called("tosa.logical_not", "p", ~P),
    "tosa.intdiv": _called("tosa.intdiv", "ij", _divided(I, J)),
    "tosa.cast": _called("tosa.cast", "i", I.astype("f4")),
    "tosa.select": _called("tosa.select", "pxy", np.where(P, X, Y)),
    "tosa.clamp": _called("tosa.clamp", "y", Y.clip(-0.5, 0.5), " {{min_val = -0.5 : f32, max_val = 0.5 : f32}}"),
    "tosa.concat": _called("tosa.concat", "xy", np.concatenate([X, Y], 1), " {{axis = 1 : i32}}"),
    "tosa.const": Case('%r = "tosa.const"() <{{values = dense<2.0> : {r}}}> : () -> {r}', np.full((2, 3), 2, "f4")),
    "tosa.reverse": _called("tosa.reverse", "x", X[:, ::-1].copy(), " {{axis = 1 : i32}}"),
    "tosa.transpose": _called("tosa.transpose", "x", X.T.copy(), " {{perms = array<i32: 1, 0>}}"),
    "tosa.matmul": Case(
        "%z = arith.constant dense<2.0> : tensor<2x5x2xf32>\n%r = tosa.matmul %b, %z : ({b}, tensor<2x5x2xf32>) -> {r}",
        BATCH @ np.full((2, 5, 2), 2, "f4"),
    ),
    "tosa.const_shape": Case(
        "%s = tosa.const_shape {{values = dense<[3, 8]> : tensor<2xindex>}} : () -> !tosa.shape<2>\n"
        "%r = tosa.reshape %x, %s : ({x}, !tosa.shape<2>) -> {r}",
        X.reshape(3, 8),
    ),
    "tosa.reshape": _called("tosa.reshape", "x", X.reshape(3, 8), " {{new_shape = array<i64: 3, 8>}}"),
}


def _one_type(name, arguments, wanted):
    shown = ", ".join(f"%{each}" for each in arguments)
    return Case(f"%r = {name} {shown} : {{r}}", wanted)


_HLO = {"abs": np.abs, "ceil": np.ceil, "cosine": np.cos, "exponential": np.exp, "exponential_minus_one": np.expm1}
_HLO |= {"floor": np.floor, "logistic": _sigmoid, "negate": np.negative, "sign": np.sign, "sine": np.sin}
_HLO |= {"tanh": np.tanh}
_HLO_POSITIVE = {"log": np.log, "log_plus_one": np.log1p, "sqrt": np.sqrt, "rsqrt": _POSITIVE["rsqrt"]}
_HLO_TWO = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum}
_HLO_TWO |= {"minimum": np.minimum, "power": np.power, "divide": np.divide, "remainder": np.fmod, "atan2": np.arctan2}

CASES |= {f"stablehlo.{name}": _one_type(f"stablehlo.{name}", "y", f(Y)) for name, f in _HLO.items()}
CASES |= {f"stablehlo.{name}": _one_type(f"stablehlo.{name}", "x", f(X)) for name, f in _HLO_POSITIVE.items()}
CASES |= {f"stablehlo.{name}": _one_type(f"stablehlo.{name}", "xy", f(X, Y)) for name, f in _HLO_TWO.items()}
CASES |= {f"stablehlo.{name}": _one_type(f"stablehlo.{name}", "ij", f(I, J)) for name, f in _BITS.items()}
CASES |= {
    "stablehlo.not": _one_type("stablehlo.not", "p", ~P),
    "stablehlo.clamp": _one_type("stablehlo.clamp", "uxy", np.clip(X, U, Y)),
    "stablehlo.compare": _called("stablehlo.compare GE,", "xy", X >= Y, ", FLOAT"),
    "stablehlo.select": Case("%r = stablehlo.select %p, %x, %y : {p}, {r}", np.where(P, X, Y)),
    "stablehlo.convert": _called("stablehlo.convert", "i", I.astype("f4")),
    "stablehlo.constant": Case("%r = stablehlo.constant dense<[1.5, 2.5]> : {r}", np.array([1.5, 2.5], "f4")),
    "stablehlo.iota": Case(
        "%r = stablehlo.iota dim = 1 : {r}", np.broadcast_to(np.arange(3, dtype="i4"), (2, 3)).copy()
    ),
    "stablehlo.reshape": _called("stablehlo.reshape", "x", X.reshape(3, 8)),
    "stablehlo.transpose": _called("stablehlo.transpose", "x", X.T.copy(), ", dims = [1, 0]"),
    "stablehlo.broadcast_in_dim": _called(
        "stablehlo.broadcast_in_dim", "v", np.broadcast_to(V, (4, 6)).copy(), ", dims = [1]"
    ),
    "stablehlo.concatenate": _called("stablehlo.concatenate", "xy", np.concatenate([X, Y]), ", dim = 0"),
    "stablehlo.slice": _called("stablehlo.slice", "x", X[1:4:2, 0:6:3], " [1:4:2, 0:6:3]"),
    "stablehlo.reverse": Case("%r = stablehlo.reverse %x, dims = [0, 1] : {r}", X[::-1, ::-1].copy()),
    "stablehlo.pad": Case(
        "%z = stablehlo.constant dense<9.0> : tensor<f32>\n"
        "%r = stablehlo.pad %v, %z, low = [1], high = [-2], interior = [1] : ({v}, tensor<f32>) -> {r}",
        np.array([9, V[0], 9, V[1], 9, V[2], 9, V[3], 9, V[4]], "f4"),
    ),
    "stablehlo.dynamic_slice": Case(
        "%s = stablehlo.constant dense<-1> : tensor<i64>\n%e = stablehlo.constant dense<5> : tensor<i64>\n"
        "%r = stablehlo.dynamic_slice %x, %s, %e, sizes = [2, 3] : ({x}, tensor<i64>, tensor<i64>) -> {r}",
        X[0:2, 3:6],
    ),
    "stablehlo.dynamic_update_slice": Case(
        "%s = stablehlo.constant dense<5> : tensor<i64>\n%z = stablehlo.constant dense<0.0> : tensor<2xf32>\n"
        "%r = stablehlo.dynamic_update_slice %v, %z, %s : ({v}, tensor<2xf32>, tensor<i64>) -> {r}",
        np.array([*V[:4], 0, 0], "f4"),
    ),
    "stablehlo.dot_general": Case(
        "%r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1] : ({x}, {y}) -> {r}", X @ Y.T
    ),
    "stablehlo.reduce": Case(
        "%z = stablehlo.constant dense<0.0> : tensor<f32>\n"
        "%r = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : ({x}, tensor<f32>) -> {r}",
        X.sum(1),
    ),
}
