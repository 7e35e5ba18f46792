#!/usr/bin/env python3
# Writes oracle_tables.txt: values of elementwise ops and casts on grids of special values, from
# exact rational arithmetic; f16, f32 and f64 are checked against NumPy on the way.
#   python3 tests/conform/make_oracle_tables.py > tests/conform/oracle_tables.txt
# SPDX-License-Identifier: MIT
import math
import warnings
from fractions import Fraction

import numpy as np

warnings.filterwarnings("ignore")

# name: exponent bits, mantissa bits, bias, finite only
FLOATS = {"f8e4m3": (4, 3, 7, True), "f8e5m2": (5, 2, 15, False), "f16": (5, 10, 15, False),
          "bf16": (8, 7, 127, False), "f32": (8, 23, 127, False), "f64": (11, 52, 1023, False)}
INTS = {f"{s}{w}": (s == "i", w) for s in "iu" for w in (8, 16, 32, 64)}
NUMPY = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
NAN, INF = "nan", "inf"


# A float is (sign, magnitude): magnitude a Fraction, or INF, or NAN.
def decode(dtype, bits):
    e, m, bias, finite = FLOATS[dtype]
    sign, code, frac = bits >> (e + m), bits >> m & ((1 << e) - 1), bits & ((1 << m) - 1)
    if code == (1 << e) - 1 and not finite:
        return sign, INF if frac == 0 else NAN
    if finite and code == (1 << e) - 1 and frac == (1 << m) - 1:
        return sign, NAN
    if code == 0:
        return sign, Fraction(frac) * Fraction(2) ** (1 - bias - m)
    return sign, Fraction((1 << m) + frac) * Fraction(2) ** (code - bias - m)


def encode(dtype, value):
    e, m, bias, finite = FLOATS[dtype]
    sign, mag = value
    top = (1 << e) - 1
    nan = (top << m) | ((1 << m) - 1 if finite else 1 << (m - 1))
    if mag == NAN:
        return nan
    if mag != INF:
        if mag == 0:
            return sign << (e + m)
        exp = max(floor_log2(mag), 1 - bias)
        steps = mag / Fraction(2) ** (exp - m)
        whole = steps.numerator // steps.denominator
        rest = steps - whole
        if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1):
            whole += 1
        bits = ((exp - (1 - bias)) << m) + whole  # carries into the exponent by itself
        limit = (top << m) + (1 << m) - 1 if finite else top << m
        if bits < limit:
            return sign << (e + m) | bits
    return nan if finite else sign << (e + m) | top << m


def floor_log2(x):
    exp = x.numerator.bit_length() - x.denominator.bit_length()
    return exp if Fraction(2) ** exp <= x else exp - 1


def signed(value):
    return -value[1] if value[0] else value[1]


def from_number(x, zero_sign=0):
    return (zero_sign if x == 0 else int(x < 0), abs(Fraction(x)))


def float_op(op, a, b):
    if NAN in (a[1], b[1]):
        return 0, NAN
    sign = a[0] ^ b[0]
    if op == "sub":
        return float_op("add", a, (1 - b[0], b[1]))
    if op == "add":
        if a[1] == INF or b[1] == INF:
            if a[1] == INF and b[1] == INF and sign:
                return 0, NAN
            return a if a[1] == INF else b
        return from_number(signed(a) + signed(b), a[0] & b[0])
    if op == "mul":
        if INF in (a[1], b[1]):
            return (0, NAN) if 0 in (a[1], b[1]) else (sign, INF)
        return sign, a[1] * b[1]
    if op == "div":
        if a[1] == INF:
            return (0, NAN) if b[1] == INF else (sign, INF)
        if b[1] == INF:
            return sign, Fraction(0)
        if b[1] == 0:
            return (0, NAN) if a[1] == 0 else (sign, INF)
        return sign, a[1] / b[1]
    less = order(a) < order(b)
    return {"min": a if less else b, "max": b if less else a}[op]


# A total order with -0 below +0.
def order(a):
    if a[1] == INF:
        return (-math.inf if a[0] else math.inf, 0)
    return (signed(a), 1 - a[0])


def compare(op, a, b):
    if NAN in (a[1], b[1]):
        return op == "ne"
    x, y = order(a)[0], order(b)[0]
    return {"lt": x < y, "le": x <= y, "eq": x == y, "ne": x != y}[op]


def sqrt(a):
    if a[1] == NAN or (a[0] and a[1] != 0):
        return 0, NAN
    if a[1] in (0, INF):
        return a
    scaled = a[1] * 4 ** 1200  # 1200 bits below the point are enough for all formats
    root = math.isqrt(scaled.numerator // scaled.denominator)
    is_exact = Fraction(root) ** 2 == scaled
    return 0, (Fraction(root) + (0 if is_exact else Fraction(1, 2))) / 2 ** 1200


def rounding(op, a):
    if a[1] in (NAN, INF):
        return a
    x = signed(a)
    whole = {"trunc": math.trunc, "floor": math.floor, "ceil": math.ceil, "round": round}[op](x)
    return from_number(whole, a[0])


def wrap(dtype, x):
    is_signed, width = INTS[dtype]
    x &= (1 << width) - 1
    return x - (1 << width) if is_signed and x >> (width - 1) else x


def int_op(op, dtype, a, b):
    is_signed, width = INTS[dtype]
    floor_div = a // b if b else 0
    trunc_div = (abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)) if b else 0
    inside = 0 <= b < width
    table = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b,
        "div": lambda: trunc_div, "mod": lambda: a - b * trunc_div if b else 0,
        "floordiv": lambda: floor_div, "floormod": lambda: a - b * floor_div if b else 0,
        "min": lambda: min(a, b), "max": lambda: max(a, b), "and": lambda: a & b,
        "or": lambda: a | b, "xor": lambda: a ^ b, "shl": lambda: a << b if inside else 0,
        "shr": lambda: a >> b if inside else (-1 if a < 0 else 0)}
    return wrap(dtype, table[op]())


def cast(src, dst, bits):
    if src in FLOATS:
        value = decode(src, bits)
        if dst == "i1":
            return int(value[1] != 0)
        if dst in FLOATS:
            return encode(dst, value)
        is_signed, width = INTS[dst]
        lo, hi = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, (1 << width) - 1)
        if value[1] == NAN:
            return 0
        if value[1] == INF:
            return to_bits(dst, lo if value[0] else hi)
        return to_bits(dst, min(max(math.trunc(signed(value)), lo), hi))
    x = bits if src == "i1" else from_bits(src, bits)
    if dst == "i1":
        return int(x != 0)
    return encode(dst, from_number(x)) if dst in FLOATS else to_bits(dst, wrap(dst, x))


def to_bits(dtype, x):
    return x & ((1 << INTS[dtype][1]) - 1)


def from_bits(dtype, bits):
    return wrap(dtype, bits)


def grid(dtype):
    if dtype == "i1":
        return [0, 1]
    if dtype in INTS:
        is_signed, width = INTS[dtype]
        top = 1 << (width - 1)
        numbers = [0, 1, 2, 7, width - 1, width, top - 1, top, top + 1, (1 << width) - 1,
                   (1 << width) - 7]
        return [n & ((1 << width) - 1) for n in numbers]
    e, m, bias, finite = FLOATS[dtype]
    one = bias << m
    max_finite = ((1 << (e + m)) - 2) if finite else ((1 << e) - 1 << m) - 1
    sign = 1 << (e + m)
    inf = [] if finite else [(1 << e) - 1 << m, sign | (1 << e) - 1 << m]
    return [0, sign, 1, 1 << m, one, sign | one, one + 1, one | 1 << (m - 1),
            sign | (one + (1 << m)) | 1 << (m - 2), encode(dtype, (0, Fraction(1, 10))),
            encode(dtype, (0, Fraction(200))), max_finite, sign | max_finite,
            encode(dtype, (0, NAN))] + inf


def emit(*words):
    print(*words)


def hexes(values):
    return " ".join(f"{v:x}" for v in values)


def check_numpy(dtype, op, a, b, bits):
    kind = NUMPY.get(dtype)
    if kind is None:
        return
    as_int = {"f16": np.uint16, "f32": np.uint32, "f64": np.uint64}[dtype]
    x, y = np.array([a], as_int).view(kind), np.array([b], as_int).view(kind)
    f = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "lt": np.less,
         "le": np.less_equal, "eq": np.equal, "ne": np.not_equal}.get(op)
    got = np.sqrt(x) if op == "sqrt" else f(x, y) if f else None
    if got is None:
        return
    if got.dtype == bool:
        assert int(got[0]) == bits, (op, dtype, a, b)
    elif not np.isnan(got[0]):
        assert int(got.view(as_int)[0]) == bits, (op, dtype, a, b, bits, got)
    else:
        assert decode(dtype, bits)[1] == NAN


def main():
    for dtype in list(FLOATS) + list(INTS) + ["i1"]:
        emit("grid", dtype, hexes(grid(dtype)))
    for dtype in FLOATS:
        values = grid(dtype)
        for op in ("add", "sub", "mul", "div", "min", "max", "lt", "le", "eq", "ne"):
            out = []
            for a in values:
                for b in values:
                    x, y = decode(dtype, a), decode(dtype, b)
                    bits = (int(compare(op, x, y)) if op in ("lt", "le", "eq", "ne")
                            else encode(dtype, float_op(op, x, y)))
                    check_numpy(dtype, op, a, b, bits)
                    out.append(bits)
            emit("binary", op, dtype, hexes(out))
        for op in ("neg", "abs", "sqrt", "trunc", "floor", "ceil", "round", "isnan", "isinf",
                   "isfinite"):
            out = []
            for a in values:
                x = decode(dtype, a)
                if op == "neg":
                    bits = encode(dtype, (1 - x[0], x[1]))
                elif op == "abs":
                    bits = encode(dtype, (0, x[1]))
                elif op == "sqrt":
                    bits = encode(dtype, sqrt(x))
                elif op in ("isnan", "isinf", "isfinite"):
                    bits = int({"isnan": x[1] == NAN, "isinf": x[1] == INF,
                                "isfinite": x[1] not in (NAN, INF)}[op])
                else:
                    bits = encode(dtype, rounding(op, x))
                check_numpy(dtype, op, a, a, bits)
                out.append(bits)
            emit("unary", op, dtype, hexes(out))
    for dtype in INTS:
        values = [from_bits(dtype, b) for b in grid(dtype)]
        for op in ("add", "sub", "mul", "div", "mod", "floordiv", "floormod", "min", "max", "and",
                   "or", "xor", "shl", "shr"):
            emit("binary", op, dtype,
                 hexes(to_bits(dtype, int_op(op, dtype, a, b)) for a in values for b in values))
        for op, f in (("lt", lambda a, b: a < b), ("le", lambda a, b: a <= b),
                      ("eq", lambda a, b: a == b), ("ne", lambda a, b: a != b)):
            emit("binary", op, dtype, hexes(int(f(a, b)) for a in values for b in values))
        for op, f in (("neg", lambda a: -a), ("abs", abs), ("not", lambda a: ~a)):
            emit("unary", op, dtype, hexes(to_bits(dtype, f(a)) for a in values))
    for op, f in (("min", min), ("max", max), ("and", lambda a, b: a & b),
                  ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b),
                  ("lt", lambda a, b: a < b), ("le", lambda a, b: a <= b),
                  ("eq", lambda a, b: a == b), ("ne", lambda a, b: a != b)):
        emit("binary", op, "i1", hexes(int(f(a, b)) for a in (0, 1) for b in (0, 1)))
    emit("unary not i1 1 0")
    for src in list(FLOATS) + list(INTS) + ["i1"]:
        for dst in list(FLOATS) + list(INTS) + ["i1"]:
            emit("cast", src, dst, hexes(cast(src, dst, b) for b in grid(src)))
    xs = np.array([0.3, -0.7, 1.0, 2.5, -3.75, 10.0, 1e-3, -1e-6, 20.5, 0.999], np.float32)
    emit("points", "f32", hexes(xs.view(np.uint32).tolist()))
    wide = xs.astype(np.float64)
    bounded = {"exp2": np.exp2, "log2": lambda x: np.log2(np.abs(x)), "sin": np.sin, "exp": np.exp,
               "log": lambda x: np.log(np.abs(x)), "cos": np.cos, "tan": np.tan, "tanh": np.tanh,
               "sigmoid": lambda x: 1 / (1 + np.exp(-x))}
    for op, f in bounded.items():  # log and log2: of the magnitude
        emit("bounded", op, "f32", hexes(f(wide).astype(np.float32).view(np.uint32).tolist()))


main()
