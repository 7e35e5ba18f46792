#!/usr/bin/env python3
# Writes trig_table.txt: sine, cosine and tangent of float32 values, large ones first of all, from
# rational arithmetic: pi by Machin's formula to 200 digits, the argument reduced exactly, Taylor's
# series, each result rounded once to float64.
#   python3 tests/conform/make_trig_table.py > tests/conform/trig_table.txt
# SPDX-License-Identifier: MIT
import struct
from fractions import Fraction

DIGITS = 200
SCALE = 10 ** DIGITS


def arctan_of_inverse(n):
    total, term, k = 0, SCALE // n, 1
    while term:
        total += term // k if k % 4 == 1 else -(term // k)
        term //= n * n
        k += 2
    return total


PI = Fraction(4 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239)), SCALE)


def to_bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def from_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def series(x, k):
    """x**k / k! - x**(k+2) / (k+2)! + ... for |x| < 1, in fixed point."""
    x = x.numerator * SCALE // x.denominator
    term = SCALE if k == 0 else x
    total = 0
    while abs(term) > 1:
        total += term
        term = -term * x // SCALE * x // SCALE // ((k + 1) * (k + 2))
        k += 2
    return Fraction(total, SCALE)


def sin_cos(x):
    quadrant = round(x / (PI / 2))
    rest = x - quadrant * (PI / 2)
    if abs(rest) < Fraction(1, 10 ** 30):  # beyond the fixed point: x itself is tiny
        s, c = rest, Fraction(1)
    else:
        s, c = series(rest, 1), series(rest, 0)
    return [(s, c), (c, -s), (-s, -c), (-c, s)][quadrant % 4]


values = [1e5, 1e10, 1e22, 3.4e38, from_bits(0x7F7FFFFF), 2.0 ** 127, 2.0 ** 64, 2.0 ** 31, 2.0 ** 23 + 1,
          float(16367173) * 2.0 ** 72,  # of all float32 the one nearest to a multiple of pi / 2
          1.0, 0.1, 0.5, 3.0, 22.0, 355.0, 103993.0, 1e-3, 1e-10, 1e-38, from_bits(1),
          from_bits(0x00800000)]
for k in (1, 2, 3, 4, 5, 8, 100, 12345, 10 ** 7):  # near multiples of pi / 2, from both sides
    bits = to_bits(float(k * PI / 2))
    values += [from_bits(bits + step) for step in (-1, 0, 1)]
state = 1
for exponent in range(1, 255, 4):  # every few binades
    state = state * 1103515245 + 12345 & 0x7FFFFFFF
    values.append(from_bits(exponent << 23 | state & 0x7FFFFF))

for x in values:
    bits = to_bits(x)
    s, c = sin_cos(Fraction(from_bits(bits)))
    print(f"{bits:08x} {float(s).hex()} {float(c).hex()} {float(s / c).hex()}")
