// Graphs of row reductions followed by use of the row, written in several ways: what fusion must
// make one kernel of, whatever the order of operands. For tests of schedule/ (counts) and of
// values. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tenon/ir/node.h"

namespace tenon::testing {

struct RowGraph {
  std::string name;
  Node node;
};

/// A new f32 input of this shape.
using MakeInput = std::function<Node(ShapeView)>;

/// softmax, log_softmax, layernorm, rmsnorm on (rows, columns), each in several ways.
std::vector<RowGraph> named_row_graphs(const MakeInput& input, int64_t rows, int64_t columns);

/// One to four reductions over one to three axes, one axis (often the first) never among them, each
/// followed by elementwise use of what it reduced; the same for equal seeds. `is_long`: with rows
/// enough to deal out, else small in all.
Node random_row_graph(const MakeInput& input, uint64_t seed, bool is_long);

/// matmul and convolution (3x3, padded), each with a bias and a relu behind it. `is_turned`: the
/// operands of all commuting ops the other way round.
Node matmul_bias_relu(const MakeInput& input, int64_t m, int64_t n, int64_t k, bool is_turned);
Node conv_bias_relu(const MakeInput& input, int64_t channels, int64_t size, bool is_turned);

/// softmax(q k^T * scale) v of (heads, size, width), drawn: order of operands, how softmax is
/// written, how k and the heads lie, with a causal mask or a bias or without, grouped
/// heads.
Node random_attention(const MakeInput& input, uint64_t seed, int64_t heads, int64_t size,
                      int64_t width);

/// x + softmax(q k^T) v w of all heads, q, k and v linear in the norm of x: (size, heads * width).
Node attention_block(const MakeInput& input, int64_t heads, int64_t size, int64_t width);

/// sum over j of exp(x_i y_j): (size, 1), a product whose rows are reduced.
Node summed_product(const MakeInput& input, int64_t size, int64_t width);

/// reshape, permute, pad, shrink and flip, drawn, on an input; what the result's index is has no
/// div or mod when written directly.
Node random_movement_chain(const MakeInput& input, uint64_t seed);

}  // namespace tenon::testing
