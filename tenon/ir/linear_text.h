// Text form of linear programs (.tir): what `tenon explain` prints and `tenon run kernel.tir`
// reads. parse_linear(to_text(p)) is p again, and to_text(parse_linear(t)) is t for text that
// to_text made. SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <string_view>

#include "tenon/ir/linear.h"

// The form:
//
//   tir 1 func NAME grid(4) lanes(1) scratch 262144 {  # a comment ends with the line
//     arg 0 a f32[2170] read              # or write, readwrite; names: a word or "quoted"
//     arg 1 n i32 in 0..1024              # an integer scalar has a range; others: `arg 2 s f32`
//     %a = param 0                        # types follow from the signature
//     %g = grid_id 0 i32                  # lane_id the same
//     %p = alloc f32 65536 group align 64 # or reg; without align: the element's size
//     %z = const f32x16 0                 # -1.5e-7 inf nan true; 0x7fc00001: the bits of a NaN
//     %s = add i32 %g, %n                 # elementwise: the type of the operands, so that a
//     %c = lt i32 %g, %n                  # comparison has the type of its sources, and a where
//     %w = where f32x16 %m, %x, %y        # that of its two values
//     %f = cast f32 %g                    # the type of the result, as for bitcast, splat, ramp,
//     %h = shuffle f32x4 %v, %w [0, 4, 1, 5]   # shuffle, first_n, extract
//     %e = extract f32 %v, 3
//     %t = load f32x16 %p[%o + 48] align 64 nt gate %m alt %z
//     store %y[%w - 1], %e align 4 nt gate %m
//     prefetch %p[%o + 64]
//     %old = atomic add %p[%o], %v
//     %r0, %r1 = for %k = %lo..%hi carry %c0 = %s0, %c1 = %s1 { ... yield %n0, %n1 }
//     %s = if %c -> f32x16 { ... yield %x } else { ... yield %y }
//     if %c { ... }                       # an empty else and an empty yield are left out
//     barrier
//     unit_setup 0
//     %ta = tile_load 0 tile bf16x512 %p[%o], %stride
//     %td = mma 0 tile f32x256 %ta, %tb, %tc
//     tile_store 0 %p[%o], %stride, %td
//   }
// A value's name is defined once in a program; names of digits only are ordinals, made by the
// printer. Line breaks and `;` separate like spaces.

namespace tenon {

/// Canonical text. The program's regions must form a tree (verify_linear says so if in doubt).
std::string to_text(const LinearProgram& program);

/// One instruction of it on one line, without its regions: "%t = load f32 %p[%i]".
std::string inst_text(const LinearProgram& program, InstId id);

/// "f32x16", "i1", "f32* group", "tile f32x256": types as texts and errors write them.
std::string to_text(const LinearType& type);

/// Names of all values (without %) as to_text prints them, by ValueId; empty if not in the text.
std::vector<std::string> printed_names(const LinearProgram& program);

/// Reads a program; checks form, names, number ranges and what decides the types, and leaves the
/// rest to verify_linear. `source_name` stands in errors. Throws kInvalidArgument
/// "source:line:column: found ..., expected ..." on anything else; safe on hostile text.
LinearProgram parse_linear(std::string_view text, std::string_view source_name = "tir");

}  // namespace tenon
