// Text form of tensor graphs (.tg), for `tenon explain`, `tenon diff`, tests and bug reports.
// Parsing what was printed gives an equal graph (with buffers of its own) and so the same text.
// SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <string_view>

#include "tenon/ir/tensor_ops.h"

namespace tenon {

// The form, by example (`#` starts a comment; a name that is no word stands in quotes):
//   graph scaled_rows {
//     in %x: f32[4,8]
//     %0 = const f32[] 0.5                      # floats round-trip; NaN payloads as raw bits 0x...
//     %1 = reshape f32[1,1] %0
//     %2 = expand f32[4,8] %1
//     %3 = mul f32[4,8] %x, %2
//     %4 = reduce f32[4,1] %3 add axes [1] acc f32
//     out y = %4
//   }

/// One node a line, in topological order: inputs as `in`, other buffers as `%5 = buffer f32[4]`.
/// Throws kInvalidArgument if names and nodes do not pair up, or an input or name appears twice.
std::string to_text(const TensorGraph& graph);
/// Throws kInvalidArgument with source:line:column, what was found and what was expected.
TensorGraph parse_graph(std::string_view text, std::string_view source_name);

}  // namespace tenon
