// The text form of kernels (.tk): printer, parser, canonical numbering, structural equality.
// Print -> parse -> print is the identity, and parsing gives what renumber_axes gives, so the text
// of a kernel with canonical names is a cache key. Grammar: docs/ir.md.
// SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <string_view>

#include "tenon/ir/kernel.h"

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
