// SPDX-License-Identifier: MIT

#include "tests/support/row_graphs.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tenon/ir/tensor_ops.h"
#include "tests/support/random.h"

namespace tenon::testing {
namespace {

Node wide(const Node& x, ShapeView shape) {
  return tensor_expand(x, shape);
}

Node scalar(float value, ShapeView shape) {
  const Node bits = tensor_const(DType::kF32, std::bit_cast<uint32_t>(value));
  return wide(tensor_reshape(bits, Shape(shape.size(), 1)), shape);
}

Node binary(Op op, const Node& a, const Node& b, bool is_turned = false) {
  return is_turned ? tensor_binary(op, b, a) : tensor_binary(op, a, b);
}

Node reduced(Op op, const Node& x, std::vector<int64_t> axes) {
  return tensor_reduce(op, x, axes, DType::kF32);
}

/// Ops on (rows, columns) or, `axis` 0, on (columns, rows).
struct Rows {
  int64_t axis = 1;
  bool is_turned = false;

  Node reduce(Op op, const Node& x) const { return reduced(op, x, {axis}); }
  Node with(Op op, const Node& x, const Node& row) const {
    return binary(op, x, wide(row, x.shape()), is_turned && op != Op::kSub && op != Op::kDiv);
  }
  Node mean(const Node& x) const {
    const Node sum = reduce(Op::kAdd, x);
    const auto count = static_cast<float>(x.shape()[static_cast<size_t>(axis)]);
    return binary(Op::kMul, sum, scalar(1.0F / count, sum.shape()), is_turned);
  }
  Node shifted(const Node& x) const { return with(Op::kSub, x, reduce(Op::kMax, x)); }
  Node inverse_root(const Node& x) const {
    const Node sum = binary(Op::kAdd, x, scalar(1e-3F, x.shape()), is_turned);
    return tensor_binary(Op::kDiv, scalar(1, x.shape()), tensor_unary(Op::kSqrt, sum));
  }

  Node softmax(const Node& x) const {
    const Node e = tensor_unary(Op::kExp, shifted(x));
    const Node sum = reduce(Op::kAdd, e);
    return with(Op::kMul, e, tensor_binary(Op::kDiv, scalar(1, sum.shape()), sum));
  }
  Node softmax_by_division(const Node& x) const {
    const Node e = tensor_unary(Op::kExp, shifted(x));
    return with(Op::kDiv, e, reduce(Op::kAdd, e));
  }
  Node softmax_by_log(const Node& x) const { return tensor_unary(Op::kExp, log_softmax(x)); }
  Node log_softmax(const Node& x) const {
    const Node moved = shifted(x);
    const Node sum = reduce(Op::kAdd, tensor_unary(Op::kExp, moved));
    return with(Op::kSub, moved, tensor_unary(Op::kLog, sum));
  }
  // Scale and bias have the length of a row.
  Node scaled(const Node& x, const Node& scale, const Node& bias) const {
    Shape line(2, 1);
    line[static_cast<size_t>(axis)] = x.shape()[static_cast<size_t>(axis)];
    const Node product = with(Op::kMul, x, tensor_reshape(scale, line));
    return bias ? with(Op::kAdd, product, tensor_reshape(bias, line)) : product;
  }
  Node layernorm(const Node& x, const Node& scale, const Node& bias) const {
    const Node moved = with(Op::kSub, x, mean(x));
    const Node variance = mean(binary(Op::kMul, moved, moved));
    return scaled(with(Op::kMul, moved, inverse_root(variance)), scale, bias);
  }
  // Variance as mean(x * x) - mean(x)^2.
  Node layernorm_of_squares(const Node& x, const Node& scale, const Node& bias) const {
    const Node middle = mean(x);
    const Node squares = mean(binary(Op::kMul, x, x));
    const Node variance = tensor_binary(Op::kSub, squares, binary(Op::kMul, middle, middle));
    const Node root = inverse_root(tensor_unary(Op::kAbs, variance));
    return scaled(with(Op::kMul, with(Op::kSub, x, middle), root), scale, bias);
  }
  Node rmsnorm(const Node& x, const Node& scale) const {
    return scaled(with(Op::kMul, x, inverse_root(mean(binary(Op::kMul, x, x)))), scale, Node());
  }
};

Node turned(const Node& x) {
  return tensor_permute(x, std::vector<int64_t>{1, 0});
}

// Rows as two dims, if they can be.
Shape split(int64_t rows, int64_t columns) {
  const int64_t inner = rows % 4 == 0 ? 4 : 1;
  return {rows / inner, inner, columns};
}

}  // namespace

std::vector<RowGraph> named_row_graphs(const MakeInput& input, int64_t rows, int64_t columns) {
  std::vector<RowGraph> graphs;
  for (const bool is_turned : {false, true}) {
    // Rows as they lie, of a transposed input, and along the first axis.
    for (const char* const form : {"", " of transposed", " over axis 0"}) {
      const bool is_column = form == std::string_view(" over axis 0");
      const Rows ops{is_column ? 0 : 1, is_turned};
      const auto x = [&] {
        const Shape shape = *form == '\0' ? Shape{rows, columns} : Shape{columns, rows};
        const Node node = input(shape);
        return form == std::string_view(" of transposed") ? turned(node) : node;
      };
      const auto line = [&] { return input(Shape{columns}); };
      const auto add = [&](const char* name, Node node) {
        graphs.push_back({std::string(name) + form + (is_turned ? ", turned" : ""), node});
      };
      add("softmax", ops.softmax(x()));
      add("softmax by division", ops.softmax_by_division(x()));
      add("softmax by log", ops.softmax_by_log(x()));
      add("log_softmax", ops.log_softmax(x()));
      add("layernorm", ops.layernorm(x(), line(), line()));
      add("layernorm of squares", ops.layernorm_of_squares(x(), line(), line()));
      add("rmsnorm", ops.rmsnorm(x(), line()));
      // Rows seen in another shape and the other way round behind it.
      const Node flipped =
          tensor_flip(ops.softmax(x()), std::vector<int64_t>{ops.axis, 1 - ops.axis});
      add("softmax, reshaped", is_column ? flipped : tensor_reshape(flipped, split(rows, columns)));
    }
  }
  return graphs;
}

Node random_row_graph(const MakeInput& input, uint64_t seed, bool is_long) {
  Random random(seed);
  const auto rank = static_cast<size_t>(random.between(2, 4));
  Shape shape(rank);
  for (int64_t& dim : shape)
    dim = random.between(2, is_long ? 24 : 6);
  const auto kept = random.percent(50) ? 0 : random.below(static_cast<int64_t>(rank));
  if (is_long) shape[static_cast<size_t>(kept)] = random.between(40, 90);
  Node x = input(shape);
  const int64_t num_reductions = random.between(1, 4);
  for (int64_t i = 0; i < num_reductions; ++i) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < static_cast<int64_t>(rank); ++axis) {
      if (axis != kept && random.percent(60)) axes.push_back(axis);
    }
    if (axes.empty()) axes.push_back(kept == 0 ? static_cast<int64_t>(rank) - 1 : 0);
    Node value = x;
    if (random.percent(40)) value = tensor_unary(random.pick({Op::kSin, Op::kAbs, Op::kTanh}), x);
    Node row = reduced(random.pick({Op::kAdd, Op::kMax, Op::kMin}), value, axes);
    if (random.percent(40)) row = tensor_unary(Op::kTanh, row);
    if (random.percent(50)) x = value;
    const Op use = random.pick({Op::kAdd, Op::kSub, Op::kMax});
    x = binary(use, x, wide(row, shape), random.percent(50));
  }
  return random.percent(50) ? tensor_unary(Op::kTanh, x) : x;
}

Node matmul_bias_relu(const MakeInput& input, int64_t m, int64_t n, int64_t k, bool is_turned) {
  const Shape box{m, n, k};
  const Node a = wide(tensor_reshape(input(Shape{m, k}), Shape{m, 1, k}), box);
  const Node b = wide(tensor_reshape(turned(input(Shape{k, n})), Shape{1, n, k}), box);
  const Node sum = reduced(Op::kAdd, binary(Op::kMul, a, b, is_turned), {2});
  const Node product = tensor_reshape(sum, Shape{m, n});
  const Node bias = wide(tensor_reshape(input(Shape{n}), Shape{1, n}), Shape{m, n});
  const Node y = binary(Op::kAdd, product, bias, is_turned);
  return binary(Op::kMax, y, scalar(0, y.shape()), is_turned);
}

Node conv_bias_relu(const MakeInput& input, int64_t channels, int64_t size, bool is_turned) {
  const Shape shape{2, channels, size, size};
  const std::vector<int64_t> edge{0, 0, 1, 1};
  const Node padded = tensor_pad(input(shape), edge, edge, 0);
  // (batch, input channel, y, x, window y, window x)
  const Node windows = tensor_window(tensor_window(padded, 2, 3, 1, 1), 3, 3, 1, 1);
  const Shape box{2, channels, channels, size, size, 3, 3};
  const Node x = wide(tensor_reshape(windows, Shape{2, 1, channels, size, size, 3, 3}), box);
  const Node kernel = input(Shape{channels, channels, 3, 3});
  const Node w = wide(tensor_reshape(kernel, Shape{1, channels, channels, 1, 1, 3, 3}), box);
  const Node sum = reduced(Op::kAdd, binary(Op::kMul, x, w, is_turned), {2, 5, 6});
  const Node result = tensor_reshape(sum, shape);
  const Node bias = wide(tensor_reshape(input(Shape{channels}), Shape{1, channels, 1, 1}), shape);
  const Node y = binary(Op::kAdd, result, bias, is_turned);
  return binary(Op::kMax, y, scalar(0, y.shape()), is_turned);
}

namespace {

// (heads, size, width), as it lies in memory.
Node drawn_heads(const MakeInput& input, Random& random, int64_t heads, int64_t size,
                 int64_t width) {
  switch (random.below(4)) {
    case 0: return tensor_permute(input(Shape{size, heads, width}), std::vector<int64_t>{1, 0, 2});
    case 1: return tensor_permute(input(Shape{heads, width, size}), std::vector<int64_t>{0, 2, 1});
    case 2: {
      // Two groups of heads share what is stored once.
      if (heads % 2 != 0) break;
      const Node stored = input(Shape{heads / 2, 1, size, width});
      const Node shared = wide(stored, Shape{heads / 2, 2, size, width});
      return tensor_reshape(shared, Shape{heads, size, width});
    }
    default: break;
  }
  return input(Shape{heads, size, width});
}

// (heads, m, k) x (heads, k, n)
Node product(const Node& a, const Node& b, bool is_turned) {
  const int64_t heads = a.shape()[0];
  const int64_t m = a.shape()[1];
  const int64_t k = a.shape()[2];
  const int64_t n = b.shape()[2];
  const Shape box{heads, m, n, k};
  const Node left = wide(tensor_reshape(a, Shape{heads, m, 1, k}), box);
  const Node turned_b = tensor_permute(b, std::vector<int64_t>{0, 2, 1});
  const Node right = wide(tensor_reshape(turned_b, Shape{heads, 1, n, k}), box);
  const Node sum = reduced(Op::kAdd, binary(Op::kMul, left, right, is_turned), {3});
  return tensor_reshape(sum, Shape{heads, m, n});
}

// Where the key is not behind the query, else -inf.
Node causal(const Node& scores, bool is_turned) {
  const Node query = tensor_index(DType::kI32, scores.shape(), 1);
  const Node key = tensor_index(DType::kI32, scores.shape(), 2);
  const Node outside = scalar(-INFINITY, scores.shape());
  if (is_turned) return tensor_where(tensor_binary(Op::kLt, query, key), outside, scores);
  return tensor_where(tensor_binary(Op::kLe, key, query), scores, outside);
}

}  // namespace

Node random_attention(const MakeInput& input, uint64_t seed, int64_t heads, int64_t size,
                      int64_t width) {
  Random random(seed);
  const Node q = drawn_heads(input, random, heads, size, width);
  const Node k = drawn_heads(input, random, heads, size, width);
  const Node v = drawn_heads(input, random, heads, size, width);
  const bool is_turned = random.percent(50);
  const Rows ops{2, is_turned};
  Node scores = product(q, tensor_permute(k, std::vector<int64_t>{0, 2, 1}), is_turned);
  scores = random.percent(50) ? binary(Op::kMul, scores, scalar(0.25F, scores.shape()), is_turned)
                              : tensor_binary(Op::kDiv, scores, scalar(4, scores.shape()));
  if (random.percent(50)) scores = causal(scores, is_turned);
  if (random.percent(30)) {
    const Node bias = wide(input(Shape{1, size, size}), scores.shape());
    scores = binary(Op::kAdd, scores, bias, is_turned);
  }
  Node weights;
  switch (random.below(3)) {
    case 0: weights = ops.softmax(scores); break;
    case 1: weights = ops.softmax_by_division(scores); break;
    default: weights = ops.softmax_by_log(scores); break;
  }
  const Node result = product(weights, v, random.percent(50));
  if (random.percent(50)) return result;
  return tensor_permute(result, std::vector<int64_t>{1, 0, 2});
}

Node attention_block(const MakeInput& input, int64_t heads, int64_t size, int64_t width) {
  const int64_t columns = heads * width;
  const std::vector<int64_t> heads_first{1, 0, 2};
  const Node x = input(Shape{size, columns});
  const auto times_weights = [&](const Node& a) {
    const Node rows = tensor_reshape(a, Shape{1, size, columns});
    return product(rows, tensor_reshape(input(Shape{columns, columns}), Shape{1, columns, columns}),
                   false);
  };
  const Node norm = Rows{}.rmsnorm(x, input(Shape{columns}));
  const auto in_heads = [&] {
    const Node split = tensor_reshape(times_weights(norm), Shape{size, heads, width});
    return tensor_permute(split, heads_first);
  };
  const Node q = in_heads();
  const Node k = in_heads();
  const Node v = in_heads();
  const Node scores = product(q, tensor_permute(k, std::vector<int64_t>{0, 2, 1}), false);
  const Rows ops{2};
  const Node result = product(ops.softmax(scores), v, false);
  const Node joined = tensor_reshape(tensor_permute(result, heads_first), Shape{size, columns});
  const Node y = tensor_reshape(times_weights(joined), Shape{size, columns});
  return tensor_binary(Op::kAdd, x, y);
}

Node summed_product(const MakeInput& input, int64_t size, int64_t width) {
  const Node x = input(Shape{1, size, width});
  const Node y = input(Shape{1, size, width});
  const Node scores = product(x, tensor_permute(y, std::vector<int64_t>{0, 2, 1}), false);
  const Node small = binary(Op::kMul, scores, scalar(0.0625F, scores.shape()));
  return tensor_reshape(reduced(Op::kAdd, tensor_unary(Op::kExp, small), {2}), Shape{size, 1});
}

Node random_movement_chain(const MakeInput& input, uint64_t seed) {
  Random random(seed);
  // Each dim of the input is split in two.
  const auto rank = static_cast<size_t>(random.between(1, 3));
  Shape whole;
  Shape split;
  for (size_t i = 0; i < rank; ++i) {
    split.push_back(random.between(2, 5));
    split.push_back(random.between(2, 5));
    whole.push_back(split[2 * i] * split[2 * i + 1]);
  }
  Node x = tensor_reshape(input(whole), split);
  // Both halves of a dim that stays together are flipped, or none.
  std::vector<int64_t> order;
  std::vector<int64_t> flips(2 * rank, 0);
  for (size_t i = 0; i < rank; ++i)
    order.push_back(static_cast<int64_t>(i));
  for (size_t i = rank; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  std::vector<int64_t> axes;
  Shape joined;
  const bool is_joined = random.percent(50);
  for (const int64_t dim : order) {
    const bool is_swapped = !is_joined && random.percent(50);
    axes.push_back(2 * dim + (is_swapped ? 1 : 0));
    axes.push_back(2 * dim + (is_swapped ? 0 : 1));
    joined.push_back(whole[static_cast<size_t>(dim)]);
  }
  x = tensor_permute(x, axes);
  for (size_t i = 0; i < rank; ++i) {
    flips[2 * i] = random.below(2);
    flips[2 * i + 1] = is_joined ? flips[2 * i] : random.below(2);
  }
  x = tensor_flip(x, flips);
  if (is_joined) x = tensor_reshape(x, joined);
  const size_t count = x.shape().size();
  for (int64_t round = random.between(1, 2); round > 0; --round) {
    std::vector<int64_t> before;
    std::vector<int64_t> after;
    for (size_t i = 0; i < count; ++i) {
      before.push_back(random.between(0, 2));
      after.push_back(random.between(0, 2));
    }
    x = tensor_pad(x, before, after, 0);
    std::vector<int64_t> begin;
    std::vector<int64_t> end;
    for (const int64_t dim : x.shape()) {
      begin.push_back(random.between(0, dim > 2 ? 1 : 0));
      end.push_back(dim - random.between(0, dim > 3 ? 1 : 0));
    }
    x = tensor_shrink(x, begin, end);
    flips.assign(count, 0);
    for (int64_t& flag : flips)
      flag = random.below(2);
    x = tensor_flip(x, flips);
  }
  return x;
}

}  // namespace tenon::testing
