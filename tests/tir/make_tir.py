#!/usr/bin/env python3
"""Writes the linear programs of this folder whose registers are too many to write by hand.

Run it in this folder after a change; the .tir files are committed. Each is what code generation is
meant to make of a kernel, said directly, so that renderers and evaluators can be tested without it.
SPDX-License-Identifier: MIT
"""

import textwrap


class Writer:
    def __init__(self, about, header, args):
        self.lines = ["# " + line for line in about] + [f"tir 1 func {header} {{"]
        self.depth = 1
        for number, arg in enumerate(args):
            self.put(f"arg {number} {arg}")

    def put(self, text):
        indent = "  " * self.depth
        self.lines += textwrap.wrap(text, 98, initial_indent=indent,
                                    subsequent_indent=indent + "    ", break_long_words=False,
                                    break_on_hyphens=False)

    def comment(self, text):
        self.lines.append("  " * self.depth + "# " + text)

    def open(self, text):
        self.put(text + " {")
        self.depth += 1

    def close(self, text="}"):
        self.depth -= 1
        self.put(text)
        if text.endswith("{"):
            self.depth += 1

    def save(self, name):
        with open(name, "w", encoding="ascii") as file:
            file.write("\n".join(self.lines + ["}", ""]))


def listed(names):
    return ", ".join(names)


def matmul():
    """y (M,N) = max(a (M,K) @ b (K,N) + bias (N), 0); tile 6 x 64, K blocks of 32, b packed."""
    M, N, K, MR, NV, KC = 31, 100, 70, 6, 4, 32
    w = Writer([f"y ({M},{N}) = max(a ({M},{K}) @ b ({K},{N}) + bias ({N}), 0): tiles of {MR} x 64,",
                f"K in blocks of {KC}, b packed into group memory. Made by make_tir.py.",
                "SPDX-License-Identifier: MIT"],
               f"mm_bias_relu grid({-(-N // 64)}) lanes(1) scratch {KC * 64 * 4}",
               [f"a f32[{M * K}] read", f"b f32[{K * N}] read", f"bias f32[{N}] read",
                f"y f32[{M * N}] write"])
    for number, name in enumerate(["a", "b", "bias", "y"]):
        w.put(f"%{name} = param {number}")
    w.put(f"%bp = alloc f32 {KC * 64} group align 64")
    for value in sorted({0, 1, MR, 16, 32, 48, KC, 64, M - 1, M, N, K, -(-K // KC), -(-M // MR)}):
        w.put(f"%k{value} = const i32 {value}")
    w.put("%z = const f32x16 0")
    w.comment("This group's columns: 64 from %col on, or what is left of them.")
    w.put("%g = grid_id 0 i32")
    w.put("%col = mul i32 %g, %k64")
    w.put(f"%left = sub i32 %k{N}, %col")
    for j in range(NV):
        w.put(f"%left{j} = sub i32 %left, %k{16 * j}")
        w.put(f"%mask{j} = first_n i1x16 %left{j}")
    w.put(f"%last = sub i32 %k{-(-K // KC)}, %k1")
    w.open(f"for %kc = %k0..%k{-(-K // KC)}")
    w.put(f"%depth0 = mul i32 %kc, %k{KC}")
    w.put(f"%depth_left = sub i32 %k{K}, %depth0")
    w.put(f"%depth = min i32 %depth_left, %k{KC}")
    w.comment("Pack: bp[k][64], columns past the end are zero.")
    w.open("for %pk = %k0..%depth")
    w.put("%brow = add i32 %depth0, %pk")
    w.put(f"%brow_start = mul i32 %brow, %k{N}")
    w.put("%bfrom = add i32 %brow_start, %col")
    w.put("%bto = mul i32 %pk, %k64")
    for j in range(NV):
        w.put(f"%packed{j} = load f32x16 %b[%bfrom + {16 * j}] gate %mask{j} alt %z")
        w.put(f"store %bp[%bto + {16 * j}], %packed{j} align 64")
    w.close()
    w.put("%is_first = eq i32 %kc, %k0")
    w.put("%is_last = eq i32 %kc, %last")
    w.open(f"for %i0 = %k0..%k{-(-M // MR)}")
    w.comment("Rows of the tile; those past the end read the last row again and are not stored.")
    w.put(f"%row0 = mul i32 %i0, %k{MR}")
    for i in range(MR):
        w.put(f"%step{i} = const i32 {i}")
        w.put(f"%row{i}_ = add i32 %row0, %step{i}")
        w.put(f"%row_ok{i} = lt i32 %row{i}_, %k{M}")
        w.put(f"%clamped{i} = min i32 %row{i}_, %k{M - 1}")
        w.put(f"%arow_start{i} = mul i32 %clamped{i}, %k{K}")
        w.put(f"%arow{i} = add i32 %arow_start{i}, %depth0")
        w.put(f"%yrow_start{i} = mul i32 %clamped{i}, %k{N}")
        w.put(f"%yrow{i} = add i32 %yrow_start{i}, %col")
        w.put(f"%row_mask{i} = splat i1x16 %row_ok{i}")
    tile = [f"{i}_{j}" for i in range(MR) for j in range(NV)]
    types = listed(["f32x16"] * len(tile))
    w.open(f"{listed('%start' + t for t in tile)} = if %is_first -> {types}")
    w.put(f"yield {listed(['%z'] * len(tile))}")
    w.close("} else {")
    for i in range(MR):
        for j in range(NV):
            w.put(f"%partial{i}_{j} = load f32x16 %y[%yrow{i} + {16 * j}] gate %mask{j} alt %z")
    w.put(f"yield {listed('%partial' + t for t in tile)}")
    w.close()
    carry = listed(f"%acc{t} = %start{t}" for t in tile)
    w.open(f"{listed('%sum' + t for t in tile)} = for %k = %k0..%depth carry {carry}")
    w.put("%bk = mul i32 %k, %k64")
    for j in range(NV):
        w.put(f"%b{j} = load f32x16 %bp[%bk + {16 * j}] align 64")
    for i in range(MR):
        w.put(f"%apos{i} = add i32 %arow{i}, %k")
        w.put(f"%a{i} = load f32 %a[%apos{i}]")
        w.put(f"%av{i} = splat f32x16 %a{i}")
        for j in range(NV):
            w.put(f"%next{i}_{j} = mulacc f32x16 %av{i}, %b{j}, %acc{i}_{j}")
    w.put(f"yield {listed('%next' + t for t in tile)}")
    w.close()
    w.open("if %is_last")
    for j in range(NV):
        w.put(f"%bias{j} = load f32x16 %bias[%col + {16 * j}] gate %mask{j} alt %z")
    for i in range(MR):
        for j in range(NV):
            w.put(f"%biased{i}_{j} = add f32x16 %sum{i}_{j}, %bias{j}")
            w.put(f"%relu{i}_{j} = max f32x16 %biased{i}_{j}, %z")
            w.put(f"%store_ok{i}_{j} = and i1x16 %mask{j}, %row_mask{i}")
            w.put(f"store %y[%yrow{i} + {16 * j}], %relu{i}_{j} gate %store_ok{i}_{j}")
    w.close("} else {")
    for i in range(MR):
        for j in range(NV):
            w.put(f"%keep_ok{i}_{j} = and i1x16 %mask{j}, %row_mask{i}")
            w.put(f"store %y[%yrow{i} + {16 * j}], %sum{i}_{j} gate %keep_ok{i}_{j}")
    w.close()
    w.close()
    w.close()
    w.save("matmul.tir")


def fold(w, op, name, vector):
    """All 16 lanes of a vector folded by the halving tree; gives the name of the scalar."""
    for h in [8, 4, 2, 1]:
        table = listed(str((i + h) % 16) for i in range(16))
        w.put(f"%{name}_from{h} = shuffle f32x16 {vector}, {vector} [{table}]")
        w.put(f"%{name}_half{h} = {op} f32x16 {vector}, %{name}_from{h}")
        vector = f"%{name}_half{h}"
    w.put(f"%{name} = extract f32 {vector}, 0")


def exp(w, suffix, x):
    """exp of a vector at or below 0: 2^n * p(r), n the nearest integer to x / ln 2."""
    s = suffix
    w.put(f"%low{s} = max f32x16 {x}, %lowest")
    w.put(f"%scaled{s} = mul f32x16 %low{s}, %log2e")
    w.put(f"%shifted{s} = sub f32x16 %scaled{s}, %half")
    w.put(f"%n{s} = cast i32x16 %shifted{s}")
    w.put(f"%nf{s} = cast f32x16 %n{s}")
    w.put(f"%r1{s} = mulacc f32x16 %nf{s}, %minus_ln2_high, %low{s}")
    w.put(f"%r{s} = mulacc f32x16 %nf{s}, %minus_ln2_low, %r1{s}")
    value = "%poly6"
    for degree in range(5, -1, -1):
        w.put(f"%p{degree}{s} = mulacc f32x16 {value}, %r{s}, %poly{degree}")
        value = f"%p{degree}{s}"
    w.put(f"%biased{s} = add i32x16 %n{s}, %exponent_bias")
    w.put(f"%bits{s} = shl i32x16 %biased{s}, %mantissa_bits")
    w.put(f"%power{s} = bitcast f32x16 %bits{s}")
    w.put(f"%e{s} = mul f32x16 {value}, %power{s}")
    return f"%e{s}"


def softmax():
    """y (R,C) = softmax(x (R,C)) along C, one row a group; C is not a multiple of 16."""
    R, C = 7, 100
    w = Writer([f"y ({R},{C}) = softmax of x ({R},{C}) along its rows, a row a group.",
                "Made by make_tir.py. SPDX-License-Identifier: MIT"],
               f"softmax grid({R}) lanes(1) scratch 0",
               [f"x f32[{R * C}] read", f"y f32[{R * C}] write"])
    w.put("%x = param 0")
    w.put("%y = param 1")
    full, tail = C // 16, C % 16
    for name, value in [("zero", 0), ("full", full), ("sixteen", 16), ("columns", C),
                        ("tail_start", 16 * full), ("tail_count", tail)]:
        w.put(f"%{name} = const i32 {value}")
    floats = [("minus_inf", "-inf"), ("zeros", "0"), ("lowest", "-87"), ("log2e", "1.442695"),
              ("half", "0.5"), ("minus_ln2_high", "-0.693359375"),
              ("minus_ln2_low", "0.00021219444")]
    floats += [(f"poly{i}", str(c)) for i, c in enumerate(
        ["1", "1", "0.5", "0.16666667", "0.041666668", "0.008333334", "0.0013888889"])]
    for name, value in floats:
        w.put(f"%{name} = const f32x16 {value}")
    w.put("%exponent_bias = const i32x16 127")
    w.put("%mantissa_bits = const i32x16 23")
    w.put("%one = const f32 1")
    w.put("%mask = first_n i1x16 %tail_count")
    w.put("%g = grid_id 0 i32")
    w.put("%row = mul i32 %g, %columns")
    w.put("%tail = add i32 %row, %tail_start")
    w.comment("The row's largest value.")
    w.open("%max_full = for %c0 = %zero..%full carry %max_so_far = %minus_inf")
    w.put("%step0 = mul i32 %c0, %sixteen")
    w.put("%at0 = add i32 %row, %step0")
    w.put("%x0 = load f32x16 %x[%at0]")
    w.put("%max_next = max f32x16 %max_so_far, %x0")
    w.put("yield %max_next")
    w.close()
    w.put("%x_tail = load f32x16 %x[%tail] gate %mask alt %minus_inf")
    w.put("%max_all = max f32x16 %max_full, %x_tail")
    fold(w, "max", "largest", "%max_all")
    w.put("%m = splat f32x16 %largest")
    w.comment("Exponentials, kept in y, and their sum.")
    w.open("%sum_full = for %c1 = %zero..%full carry %sum_so_far = %zeros")
    w.put("%step1 = mul i32 %c1, %sixteen")
    w.put("%at1 = add i32 %row, %step1")
    w.put("%x1 = load f32x16 %x[%at1]")
    w.put("%d1 = sub f32x16 %x1, %m")
    e = exp(w, "_full", "%d1")
    w.put(f"store %y[%at1], {e}")
    w.put(f"%sum_next = add f32x16 %sum_so_far, {e}")
    w.put("yield %sum_next")
    w.close()
    w.put("%x2 = load f32x16 %x[%tail] gate %mask alt %m")
    w.put("%d2 = sub f32x16 %x2, %m")
    e = exp(w, "_tail", "%d2")
    w.put(f"store %y[%tail], {e} gate %mask")
    w.put(f"%e_or_zero = where f32x16 %mask, {e}, %zeros")
    w.put("%sum_all = add f32x16 %sum_full, %e_or_zero")
    fold(w, "add", "sum", "%sum_all")
    w.put("%reciprocal = div f32 %one, %sum")
    w.put("%scale = splat f32x16 %reciprocal")
    w.open("for %c2 = %zero..%full")
    w.put("%step2 = mul i32 %c2, %sixteen")
    w.put("%at2 = add i32 %row, %step2")
    w.put("%e2 = load f32x16 %y[%at2]")
    w.put("%y2 = mul f32x16 %e2, %scale")
    w.put("store %y[%at2], %y2")
    w.close()
    w.put("%e3 = load f32x16 %y[%tail] gate %mask alt %zeros")
    w.put("%y3 = mul f32x16 %e3, %scale")
    w.put("store %y[%tail], %y3 gate %mask")
    w.save("softmax.tir")


def transpose():
    """y (C,R) = x (R,C) by blocks of 16 x 16: vector loads, shuffles, vector stores."""
    R, C = 37, 50
    w = Writer([f"y ({C},{R}) = transpose of x ({R},{C}), 16 x 16 elements a group.",
                "Made by make_tir.py. SPDX-License-Identifier: MIT"],
               f"transpose grid({-(-C // 16)},{-(-R // 16)}) lanes(1) scratch 0",
               [f"x f32[{R * C}] read", f"y f32[{R * C}] write"])
    w.put("%x = param 0")
    w.put("%y = param 1")
    w.put("%sixteen = const i64 16")
    w.put(f"%rows = const i64 {R}")
    w.put(f"%columns = const i64 {C}")
    w.put("%zeros = const f32x16 0")
    w.put("%block_column = grid_id 0 i64")
    w.put("%block_row = grid_id 1 i64")
    w.put("%column = mul i64 %block_column, %sixteen")
    w.put("%row = mul i64 %block_row, %sixteen")
    w.put("%columns_left = sub i64 %columns, %column")
    w.put("%rows_left = sub i64 %rows, %row")
    w.put("%column_mask = first_n i1x16 %columns_left")
    w.put("%row_mask = first_n i1x16 %rows_left")
    w.comment("Lane k of %v<i> is x[row + i][column + k].")
    for i in range(16):
        w.put(f"%i{i} = const i64 {i}")
        w.put(f"%r{i} = add i64 %row, %i{i}")
        w.put(f"%r_ok{i} = lt i64 %r{i}, %rows")
        w.put(f"%r_start{i} = mul i64 %r{i}, %columns")
        w.put(f"%r_at{i} = add i64 %r_start{i}, %column")
        w.put(f"%r_mask{i} = splat i1x16 %r_ok{i}")
        w.put(f"%load_ok{i} = and i1x16 %column_mask, %r_mask{i}")
        w.put(f"%v{i} = load f32x16 %x[%r_at{i}] gate %load_ok{i} alt %zeros")
    names = [f"%v{i}" for i in range(16)]
    for d in [8, 4, 2, 1]:
        w.comment(f"Swap the off-diagonal {d} x {d} blocks.")
        low = listed(str(k if k & d == 0 else 16 + k - d) for k in range(16))
        high = listed(str(k + d if k & d == 0 else 16 + k) for k in range(16))
        for i in range(16):
            if i & d:
                continue
            a, b = names[i], names[i + d]
            names[i], names[i + d] = f"%t{d}_{i}", f"%t{d}_{i + d}"
            w.put(f"{names[i]} = shuffle f32x16 {a}, {b} [{low}]")
            w.put(f"{names[i + d]} = shuffle f32x16 {a}, {b} [{high}]")
    for i in range(16):
        w.put(f"%c{i} = add i64 %column, %i{i}")
        w.put(f"%c_ok{i} = lt i64 %c{i}, %columns")
        w.put(f"%c_start{i} = mul i64 %c{i}, %rows")
        w.put(f"%c_at{i} = add i64 %c_start{i}, %row")
        w.put(f"%c_mask{i} = splat i1x16 %c_ok{i}")
        w.put(f"%store_ok{i} = and i1x16 %row_mask, %c_mask{i}")
        w.put(f"store %y[%c_at{i}], {names[i]} gate %store_ok{i}")
    w.save("transpose.tir")


if __name__ == "__main__":
    matmul()
    softmax()
    transpose()
