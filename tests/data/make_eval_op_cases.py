#!/usr/bin/env python3
"""Writes eval_op_cases.txt, what tests/ir/eval_op_test.cpp expects of float ops and casts.

Exact rational arithmetic (fractions.Fraction) and one rounding written here; nothing is shared with
the library. Rows: op dtype args... result, or: cast from to arg result; all bits in hex, canonical
64-bit form. Rerun: python3 make_eval_op_cases.py > eval_op_cases.txt
SPDX-License-Identifier: MIT
"""

import math
import random
import struct
from fractions import Fraction

# exponent bits, mantissa bits, bias, finite only
FLOATS = {
    "f8e4m3": (4, 3, 7, True),
    "f8e5m2": (5, 2, 15, False),
    "f16": (5, 10, 15, False),
    "bf16": (8, 7, 127, False),
    "f32": (8, 23, 127, False),
    "f64": (11, 52, 1023, False),
}
INTS = {"i8": (8, True), "i16": (16, True), "i32": (32, True), "i64": (64, True),
        "u8": (8, False), "u16": (16, False), "u32": (32, False), "u64": (64, False)}
NAN, INF = "nan", "inf"


def width(fmt):
    return 1 + fmt[0] + fmt[1]


def decode(bits, fmt):
    """(sign, Fraction or NAN or INF)"""
    ebits, mbits, bias, finite_only = fmt
    sign = bits >> (ebits + mbits)
    field = bits >> mbits & ((1 << ebits) - 1)
    mantissa = bits & ((1 << mbits) - 1)
    top = (1 << ebits) - 1
    if finite_only:
        if field == top and mantissa == (1 << mbits) - 1:
            return sign, NAN
    elif field == top:
        return sign, NAN if mantissa else INF
    if field == 0:
        value = Fraction(mantissa) * Fraction(2) ** (1 - bias - mbits)
    else:
        value = Fraction(mantissa + (1 << mbits)) * Fraction(2) ** (field - bias - mbits)
    return sign, -value if sign else value


def nan_bits(fmt):
    ebits, mbits, _, finite_only = fmt
    if finite_only:
        return (1 << (ebits + mbits)) - 1
    return ((1 << ebits) - 1) << mbits | 1 << (mbits - 1)


def inf_bits(sign, fmt):
    ebits, mbits, _, finite_only = fmt
    body = nan_bits(fmt) if finite_only else ((1 << ebits) - 1) << mbits
    return sign << (ebits + mbits) | body


def floor_log2(x):
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def encode(x, fmt, zero_sign=0):
    """Nearest, ties to even; overflow to infinity or, without infinities, to NaN of that sign."""
    ebits, mbits, bias, finite_only = fmt
    sign = (1 if x < 0 else 0) if x != 0 else zero_sign
    if x == 0:
        return sign << (ebits + mbits)
    x = abs(x)
    e = max(floor_log2(x), 1 - bias)
    n = x / Fraction(2) ** (e - mbits)
    q = n.numerator // n.denominator
    rest = n - q
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and q % 2 == 1):
        q += 1
    if q == 1 << (mbits + 1):
        q, e = 1 << mbits, e + 1
    if q < 1 << mbits:
        code = q
    else:
        code = (e + bias) << mbits | (q - (1 << mbits))
    limit = nan_bits(fmt) if finite_only else ((1 << ebits) - 1) << mbits
    if code >= limit:
        return inf_bits(sign, fmt)
    return sign << (ebits + mbits) | code


def add(a, b, fmt):
    (sa, x), (sb, y) = decode(a, fmt), decode(b, fmt)
    if NAN in (x, y) or (x == INF and y == INF and sa != sb):
        return nan_bits(fmt)
    if x == INF:
        return a
    if y == INF:
        return b
    both_negative = 1 if sa and sb else 0
    return encode(x + y, fmt, both_negative if x == 0 and y == 0 else 0)


def negate(a, fmt):
    return a ^ 1 << (width(fmt) - 1)


def mul(a, b, fmt):
    (sa, x), (sb, y) = decode(a, fmt), decode(b, fmt)
    sign = sa ^ sb
    if NAN in (x, y) or (x == INF and y == 0) or (y == INF and x == 0):
        return nan_bits(fmt)
    if INF in (x, y):
        return inf_bits(sign, fmt)
    return encode(x * y, fmt, sign)


def div(a, b, fmt):
    (sa, x), (sb, y) = decode(a, fmt), decode(b, fmt)
    sign = sa ^ sb
    if NAN in (x, y) or (x == INF and y == INF) or (x == 0 and y == 0):
        return nan_bits(fmt)
    if x == INF or y == 0:
        return inf_bits(sign, fmt)
    return encode(Fraction(0) if y == INF else x / y, fmt, sign)


def fma(a, b, c, fmt):
    (sa, x), (sb, y), (sc, z) = decode(a, fmt), decode(b, fmt), decode(c, fmt)
    sign = sa ^ sb
    if NAN in (x, y, z) or (x == INF and y == 0) or (y == INF and x == 0):
        return nan_bits(fmt)
    if INF in (x, y):
        if z == INF and sc != sign:
            return nan_bits(fmt)
        return inf_bits(sign, fmt)
    if z == INF:
        return c
    both_negative = 1 if sign and sc else 0
    return encode(x * y + z, fmt, both_negative if x * y == 0 and z == 0 else 0)


def sqrt(a, fmt):
    sign, x = decode(a, fmt)
    if x == 0:
        return a
    if x == NAN or sign:
        return nan_bits(fmt)
    if x == INF:
        return a
    k = 1400  # far below any distance between a root and a midpoint that it does not equal
    scaled = x * Fraction(4) ** k
    root = math.isqrt(scaled.numerator // scaled.denominator)
    if Fraction(root) ** 2 == scaled:
        return encode(Fraction(root, 1 << k), fmt)
    return encode(Fraction(2 * root + 1, 1 << (k + 1)), fmt)


def convert(a, source, to):
    sign, x = decode(a, source)
    if x == NAN:
        return nan_bits(to)
    if x == INF:
        return inf_bits(sign, to)
    return encode(x, to, sign)


def to_int(a, source, bits, signed):
    sign, x = decode(a, source)
    low = -(1 << (bits - 1)) if signed else 0
    high = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    if x == NAN:
        return 0
    value = (low if sign else high) if x == INF else math.trunc(x)
    return min(max(value, low), high) & (1 << 64) - 1


def check_encode():
    """The rounding above against the struct module's, which Python takes from C."""
    rng = random.Random(1)
    for _ in range(20000):
        x = math.ldexp(rng.uniform(-1, 1), rng.randint(-160, 120))
        assert encode(Fraction(x), FLOATS["f32"], 0) == struct.unpack("<I", struct.pack("<f", x))[0]
        y = math.ldexp(rng.uniform(-1, 1), rng.randint(-30, 15))
        assert encode(Fraction(y), FLOATS["f16"], 0) == struct.unpack("<H", struct.pack("<e", y))[0]
        assert encode(Fraction(x), FLOATS["f64"], 0) == struct.unpack("<Q", struct.pack("<d", x))[0]


def specials(fmt):
    """+0, smallest denormal, largest denormal, smallest normal, 1, 1 + ulp, largest, inf, NaN."""
    ebits, mbits, bias, finite_only = fmt
    one = bias << mbits
    largest = nan_bits(fmt) - 1 if finite_only else inf_bits(0, fmt) - 1
    codes = [0, 1, (1 << mbits) - 1, 1 << mbits, one, one + 1, largest]
    codes += [] if finite_only else [inf_bits(0, fmt)]
    return codes + [negate(code, fmt) for code in codes] + [nan_bits(fmt)]


def near(rng, code, fmt, spread):
    """A code a few binades from `code` with another mantissa, of any sign."""
    ebits, mbits, _, _ = fmt
    field = code >> mbits & ((1 << ebits) - 1)
    field = min(max(field + rng.randint(-spread, spread), 0), (1 << ebits) - 1)
    return rng.getrandbits(1) << (ebits + mbits) | field << mbits | rng.getrandbits(mbits)


def emit(*parts):
    print(*[part if isinstance(part, str) else f"{part:x}" for part in parts])


def arithmetic(name, fmt, rng):
    binary = {"add": add, "mul": mul, "div": div}
    pairs = [(a, b) for a in specials(fmt) for b in rng.sample(specials(fmt), 5)]
    for _ in range(45):
        a = rng.getrandbits(width(fmt))
        pairs.append((a, near(rng, a, fmt, 2 * fmt[1] // 3 + 2)))
    for _ in range(15):
        pairs.append((rng.getrandbits(width(fmt)), rng.getrandbits(width(fmt))))
    for op, function in binary.items():
        for a, b in pairs:
            emit(op, name, a, b, function(a, b, fmt))
    for a, b in pairs[::6]:
        emit("sub", name, a, b, add(a, negate(b, fmt), fmt) if decode(b, fmt)[1] != NAN
             else nan_bits(fmt))
    triples = [tuple(rng.choice(specials(fmt)) for _ in range(3)) for _ in range(40)]
    while len(triples) < 130:
        a = near(rng, fmt[2] << fmt[1], fmt, 6)
        b = near(rng, fmt[2] << fmt[1], fmt, 6)
        product = negate(mul(a, b, fmt), fmt)
        if len(triples) % 3 == 0:  # what is left is the rounding error of the product
            triples.append((a, b, product))
        else:
            triples.append((a, b, near(rng, product, fmt, fmt[1] + 3)))
    for a, b, c in triples:
        emit("fma", name, a, b, c, fma(a, b, c, fmt))
    for a, b, c in triples[::3]:
        emit("mulacc", name, a, b, c, add(mul(a, b, fmt), c, fmt))
    for a in specials(fmt) + [rng.getrandbits(width(fmt) - 1) for _ in range(50)]:
        emit("sqrt", name, a, sqrt(a, fmt))


def hard_f64():
    """Results that only the last of more than 100 bits decides."""
    fmt = FLOATS["f64"]
    # Roots a hair above the midpoint n of two floats: n is odd and n * n + r = x * 2^k, so the root
    # of x * 2^k is n + r / 2n. Solved modulo 2^k bit by bit.
    count = 0
    for r in range(7, 400, 8):
        for k in (54, 55):
            n = 1
            for j in range(3, k):
                if (n * n + r) % (1 << (j + 1)):
                    n += 1 << (j - 1)
            for root in {n % (1 << k), -n % (1 << k), (n + (1 << (k - 1))) % (1 << k)}:
                x, rest = divmod(root * root + r, 1 << k)
                if root >> 53 == 1 and x >> 52 == 1 and rest == 0 and root % 4 == 1:
                    a = encode(Fraction(x << k), fmt)
                    emit("sqrt", "f64", a, sqrt(a, fmt))
                    count += 1
    assert count > 10
    # Products 2^102 + 1 and 2^104 - 1: half a unit of c and a tail far below.
    for left, right in ((2**51 + 2**26 + 1, 2**51 - 2**26 + 1), (2**52 - 1, 2**52 + 1)):
        for sign in (1, -1):
            for c in (Fraction(3, 2), 1 + Fraction(1, 2**52), Fraction(1), Fraction(-3, 2)):
                for power in (53, 54):
                    scale = Fraction(sign, 2 ** ((left * right).bit_length() - 1 + power - 40))
                    values = (left * scale, right / Fraction(2**40), c)
                    words = [encode(value, fmt) for value in values]
                    emit("fma", "f64", *words, fma(*words, fmt))


def float_casts(source, fmt, to, to_fmt, rng):
    """Values of `fmt` around the midpoints, the overflow threshold and the denormals of `to`."""
    codes = specials(fmt)
    largest = decode(specials(to_fmt)[6], to_fmt)[1]
    step = Fraction(2) ** (floor_log2(largest) - to_fmt[1])
    for x in (largest + step / 2, largest + step):
        codes += [encode(x, fmt) + i for i in (-1, 0, 1) if encode(x, fmt) + i <= inf_bits(0, fmt)]
    for _ in range(8):
        low = rng.getrandbits(width(to_fmt) - 1)
        a, b = decode(low, to_fmt)[1], decode(low + 1, to_fmt)[1]
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            middle = encode((a + b) / 2, fmt)
            codes += [max(middle - 1, 0), middle, middle + 1, negate(middle, fmt)]
    for _ in range(4):
        middle = encode(Fraction(2 * rng.randint(0, 3) + 1, 2) *
                        Fraction(2) ** (1 - to_fmt[2] - to_fmt[1]), fmt)
        codes += [max(middle - 1, 0), middle, middle + 1, negate(middle, fmt)]
    for a in dict.fromkeys(codes):
        emit("cast", source, to, a, convert(a, fmt, to_fmt))


def to_int_casts(name, fmt, rng):
    for int_name, (bits, signed) in INTS.items():
        codes = specials(fmt)[::2]
        high = (1 << (bits - 1)) if signed else (1 << bits)
        for x in map(Fraction, (high, high - Fraction(1, 2), Fraction(3, 2), Fraction(255, 2))):
            code = encode(x, fmt)
            codes += [code, code - 1, negate(code, fmt), negate(code, fmt) + 1]
        for a in dict.fromkeys(codes):
            emit("cast", name, int_name, a, to_int(a, fmt, bits, signed))


def from_int_casts(name, fmt, rng):
    for int_name in ("i64", "u64", "i32", "u16", "i8"):
        bits, signed = INTS[int_name]
        top = bits - 1 if signed else bits
        values = {0, 1, (1 << top) - 1, -(1 << top), -1, 3}
        for _ in range(10):
            # A midpoint between neighbours of the format, and the integers beside it.
            length = rng.randint(min(fmt[1] + 2, top), top)
            drop = max(length - fmt[1] - 1, 0)
            middle = rng.getrandbits(length - drop) << drop | (1 << drop >> 1)
            values |= {middle - 1, middle, middle + 1, -middle, -middle - 1}
        low, high = (-(1 << top), (1 << top) - 1) if signed else (0, (1 << top) - 1)
        for value in sorted(v for v in values if low <= v <= high):
            emit("cast", int_name, name, value & (1 << 64) - 1, encode(Fraction(value), fmt))


def main():
    check_encode()
    rng = random.Random(20240)
    for name, fmt in FLOATS.items():
        arithmetic(name, fmt, rng)
        for to, to_fmt in FLOATS.items():
            if to != name:
                float_casts(name, fmt, to, to_fmt, rng)
        to_int_casts(name, fmt, rng)
        from_int_casts(name, fmt, rng)
    hard_f64()


main()
