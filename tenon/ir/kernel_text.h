// The text form of kernels (.tk): printer, parser, canonical numbering, structural equality.
// Print -> parse -> print is the identity, and parsing gives what renumber_axes gives, so the text
// of a kernel with canonical names is a cache key. Grammar below.
// SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <string_view>

#include "tenon/ir/kernel.h"

// clang-format off
// kernel   = ("kernel" | "nest") NAME [groups] "{" decl* stmt* "}"
// groups   = "grid" "(" axes ")" "lanes" "(" axes ")"
// decl     = ("in" | "out" | "inout" | "tmp") NAME ":" type
//          | "scalar" NAME ":" DTYPE "in" INT ".." INT
// type     = DTYPE "[" [NAME ":"] INT, ... "]" [SCOPE] part* ["align" INT]
// part     = "[" DIM [":" EXTENT | "/" INT] ["+" PAD] "]"     DIM: its name in the type, or d0, d1
//            `[n/64][k+16][n:64]`; without an extent: what the parts of that dim inside leave
// stmt     = let* (comp | for | if | alloc | combine | "barrier")       ";" may stand between
// let      = "let" $N "=" expr                                          for the next statement only
// comp     = NAME index assign expr ["over" axes] ["start" const] ["guard" expr, ...] ["nt"]
// assign   = "=" | "+=" | "*=" | "&=" | "|=" | "max=" | "min="
// for      = "for" axis ["to" expr] "{" stmt* "}"
// if       = "if" expr "{" stmt* "}" ["else" "{" stmt* "}"]
// alloc    = "alloc" NAME ":" type
// combine  = "combine" NAME index "=" OP NAME index ["over" axes] ["via" NAME]
// axis     = NAME ":" INT ["red" | "scan"] [ROLE]  |  NAME (mentioned before, in its last role)
// index    = "[" expr, ... "]"                     nothing at all for rank 0 in front of "="
// expr     = operators, loosest first: |  ^  &  < <= == != > >=  << >>  + -  * / // %  prefix -
//            (// and % floor); calls OP(...), DTYPE(x) converts, bitcast_DTYPE(x); NAME[i,j],
//            gated NAME[i,j if gate else alt]; axes and scalars by name; $N; true, false; 1.5f32,
//            -3i64, inf_f32, nan_f32, 0x7fc00001_f32. A number without a dtype takes that of the
//            other operand or of the place, else it is idx. # begins a comment.
// clang-format on

namespace tenon {

/// One statement a line. Names that are reserved, repeated or not identifiers are changed.
std::string to_text(const Kernel& kernel);
/// One line; large or repeated parts come first as "let $0 = ...".
std::string to_text(const Node& expr, const Kernel& kernel);

/// Throws kInvalidArgument "source:line:column: expected ..., got ..." on anything malformed.
/// Checks syntax, names, dtypes and ranks; the rest is verify_kernel's. Text is untrusted: nesting
/// and sizes are bounded.
Kernel parse_kernel(std::string_view text, std::string_view source_name);

/// The same kernel with axes numbered in order of binding in the text, and buffers in order of
/// declaration in it: those without an Alloc first, as numbered, then by their first Alloc.
Kernel renumber_axes(const Kernel& kernel);

/// Equal up to names (of the kernel, buffers, scalars and axes).
bool equal_kernels(const Kernel& a, const Kernel& b);

}  // namespace tenon
