// Large reductions, which the oracle evaluates in blocks: the same values as plain loops give.
// SPDX-License-Identifier: MIT

#include "tenon/conform/oracle_blocks.h"

#include <gtest/gtest.h>

#include "tenon/conform/oracle.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

using List = std::vector<int64_t>;

std::vector<std::byte> bytes_of(const std::vector<int32_t>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(int32_t)};
}

std::vector<int32_t> coded(int64_t count, int32_t start) {
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int32_t>((static_cast<size_t>(start) + i * 7919) % 2001) - 1000;
  return values;
}

OracleValue run(const Node& output, const std::vector<Node>& buffers,
                const std::vector<std::vector<int32_t>>& data) {
  std::vector<std::vector<std::byte>> bytes;
  for (const std::vector<int32_t>& values : data)
    bytes.push_back(bytes_of(values));
  return evaluate_oracle({&output, 1}, bind_inputs(buffers, bytes))[0];
}

// a (M,K), b (K,N) -> sum over K of a[m,k] * b[k,n], shape (M,N,1)
Node matmul(const Node& a, const Node& b) {
  const int64_t m = a.shape()[0];
  const int64_t k = a.shape()[1];
  const int64_t n = b.shape()[1];
  const Node left = tensor_expand(tensor_reshape(a, Shape{m, 1, k}), Shape{m, n, k});
  const Node turned = tensor_reshape(tensor_permute(b, List{1, 0}), Shape{1, n, k});
  const Node product = tensor_binary(Op::kMul, left, tensor_expand(turned, Shape{m, n, k}));
  return tensor_reduce(Op::kAdd, product, List{2}, DType::kI32);
}

TEST(OracleBlocks, MatrixProductsEqualPlainLoops) {
  const int64_t m = 203;
  const int64_t n = 150;
  const int64_t k = 300;  // 9.1 million products
  const Node a = tensor_buffer(DType::kI32, Shape{m, k});
  const Node b = tensor_buffer(DType::kI32, Shape{k, n});
  const Node c = matmul(a, b);
  const auto plan = detail::plan_blocks(c);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->boundary.size(), 2U);
  const std::vector<int32_t> x = coded(m * k, 5);
  const std::vector<int32_t> y = coded(k * n, 77);
  std::vector<int32_t> expected;
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t column = 0; column < n; ++column) {
      int32_t sum = 0;
      for (int64_t i = 0; i < k; ++i)
        sum += x[static_cast<size_t>(row * k + i)] * y[static_cast<size_t>(i * n + column)];
      expected.push_back(sum);
    }
  }
  const Comparison comparison = compare(run(c, {a, b}, {x, y}), bytes_of(expected));
  EXPECT_EQ(comparison.failed, 0) << comparison.text;
  EXPECT_EQ(comparison.compared, m * n);
}

// x (3000,1) over x turned (1,3000): each node is cut along one axis and read whole along the
// other; a flip, a window, an index, an inner reduction and a where stand between.
TEST(OracleBlocks, EveryKindOfNodeBetweenIsCut) {
  const int64_t n = 1500;
  const Node x = tensor_buffer(DType::kI32, Shape{n, 1});
  const Shape square{n, n};
  const Node rows = tensor_expand(x, square);
  const Node columns = tensor_permute(rows, List{1, 0});
  const Node sum = tensor_binary(Op::kAdd, rows, tensor_flip(columns, List{0, 1}));
  const Node windows = tensor_window(sum, 1, 3, 1, 1);  // (n, n-2, 3)
  const Node largest = tensor_reduce(Op::kMax, windows, List{2}, DType::kI32);
  const Node index = tensor_index(DType::kI32, Shape{n, n - 2, 1}, 1);
  const Node is_less = tensor_binary(Op::kLt, index, largest);
  const Node chosen = tensor_where(is_less, index, tensor_contiguous(largest));
  const Node flat = tensor_reshape(chosen, Shape{n, n - 2});
  const Node stacked = tensor_expand(tensor_reshape(flat, Shape{n, 1, n - 2}), Shape{n, 2, n - 2});
  const Node cut = tensor_shrink(tensor_pad(stacked, List{0, 1, 0}, List{0, 0, 0}, 4),
                                 List{0, 1, 0}, List{n, 3, n - 2});
  const Node out = tensor_reduce(Op::kAdd, cut, List{1, 2}, DType::kI32);
  ASSERT_TRUE(detail::plan_blocks(out));
  EXPECT_EQ(detail::plan_blocks(out)->axis, 0);
  const std::vector<int32_t> data = coded(n, 11);
  std::vector<int32_t> expected;
  for (int64_t row = 0; row < n; ++row) {
    int32_t total = 0;
    for (int64_t j = 0; j < n - 2; ++j) {
      int32_t top = -1'000'000;
      for (int64_t w = 0; w < 3; ++w) {
        const auto mirrored = static_cast<size_t>(n - 1 - (j + w));
        top = std::max(top, data[static_cast<size_t>(row)] + data[mirrored]);
      }
      total += 2 * (j < top ? static_cast<int32_t>(j) : top);
    }
    expected.push_back(total);
  }
  const Comparison comparison = compare(run(out, {x}, {data}), bytes_of(expected));
  EXPECT_EQ(comparison.failed, 0) << comparison.text;
  EXPECT_EQ(comparison.compared, n);
}

TEST(OracleBlocks, SmallOrUncuttableReductionsAreLeftWhole) {
  const Node x = tensor_buffer(DType::kI32, Shape{100, 1});
  const Node small =
      tensor_reduce(Op::kAdd, tensor_expand(x, Shape{100, 100}), List{1}, DType::kI32);
  EXPECT_FALSE(detail::plan_blocks(small));
  const Node wide = tensor_expand(x, Shape{100, 100'000});
  EXPECT_FALSE(detail::plan_blocks(tensor_reduce(Op::kAdd, wide, List{0, 1}, DType::kI32)));
  EXPECT_FALSE(detail::plan_blocks(wide));
  const Node buffer = tensor_buffer(DType::kI32, Shape{3000, 3000});
  EXPECT_FALSE(detail::plan_blocks(tensor_reduce(Op::kAdd, buffer, List{1}, DType::kI32)));
}

}  // namespace
}  // namespace tenon
