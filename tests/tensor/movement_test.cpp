// Movement, concatenate and stack. Expected values by hand. SPDX-License-Identifier: MIT

#include <bit>
#include <limits>

#include "tenon/tensor/creation.h"
#include "tests/support/expect_error.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

using testing::array_of;
using testing::expect_array;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;

Tensor iota(const Shape& shape) {
  int64_t count = 1;
  for (const int64_t dim : shape)
    count *= dim;
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<int32_t>(i);
  return Tensor::from_data(values, shape);
}

TEST(Movement, ReshapeFindsOneDim) {
  const Tensor x = iota({2, 6});
  EXPECT_EQ(x.reshape({-1}).shape(), (Shape{12}));
  EXPECT_EQ(x.reshape({3, -1, 2}).shape(), (Shape{3, 2, 2}));
  EXPECT_EQ(x.flatten().shape(), (Shape{12}));
  EXPECT_EQ(x.reshape({2, -1}).node(), x.node());
  EXPECT_EQ(zeros({0, 3}).reshape({-1, 3}).shape(), (Shape{0, 3}));
  EXPECT_ERROR(x.reshape({-1, -1}), kInvalid, "more than one", "(2,6)");
  EXPECT_ERROR(x.reshape({-1, 5}), kInvalid, "(2,6)", "(-1,5)");
  EXPECT_ERROR(x.reshape({5}), kInvalid, "(2,6)", "(5)");
  EXPECT_ERROR(zeros({0, 3}).reshape({-1, 0}), kInvalid, "-1", "(0,3)");
}

TEST(Movement, PermutationsMoveAxes) {
  const Tensor x = iota({2, 3});
  expect_array(x.transpose(), array_of({3, 2}, {0, 3, 1, 4, 2, 5}));
  expect_array(x.permute({1, 0}), array_of({3, 2}, {0, 3, 1, 4, 2, 5}));
  expect_array(x.swapaxes(0, -1), array_of({3, 2}, {0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(iota({2, 3, 4}).permute({-1, 0, 1}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(iota({2, 3, 4}).transpose().shape(), (Shape{4, 3, 2}));
  EXPECT_EQ(iota({2, 3, 4}).matrix_transpose().shape(), (Shape{2, 4, 3}));
  EXPECT_EQ(x.permute({0, 1}).node(), x.node());
  EXPECT_ERROR(x.permute({0}), kInvalid, "permute", "(2,3)");
  EXPECT_ERROR(x.permute({0, -2}), kInvalid, "twice", "(2,3)");
  EXPECT_ERROR(x.permute({0, 2}), kInvalid, "axis 2", "(2,3)");
  EXPECT_ERROR(x.swapaxes(0, 2), kInvalid, "swapaxes", "(2,3)");
  EXPECT_ERROR(iota({2}).matrix_transpose(), kInvalid, "matrix_transpose", "(2)");
}

TEST(Movement, AxesOfSizeOneComeAndGo) {
  const Tensor x = iota({1, 3, 1});
  EXPECT_EQ(x.squeeze().shape(), (Shape{3}));
  EXPECT_EQ(x.squeeze(0).shape(), (Shape{3, 1}));
  EXPECT_EQ(x.squeeze({0, -1}).shape(), (Shape{3}));
  EXPECT_EQ(x.expand_dims(0).shape(), (Shape{1, 1, 3, 1}));
  EXPECT_EQ(x.expand_dims(-1).shape(), (Shape{1, 3, 1, 1}));
  EXPECT_EQ(full({}, 1).expand_dims(0).shape(), (Shape{1}));
  EXPECT_ERROR(x.squeeze(1), kInvalid, "size 3", "(1,3,1)");
  EXPECT_ERROR(x.expand_dims(4), kInvalid, "expand_dims", "out of range");
}

TEST(Movement, BroadcastRepeats) {
  expect_array(iota({3}).broadcast_to({2, 3}), array_of({2, 3}, {0, 1, 2, 0, 1, 2}));
  expect_array(iota({2, 1}).broadcast_to({2, 3}), array_of({2, 3}, {0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(full({}, 5.0).broadcast_to({2, 0}).shape(), (Shape{2, 0}));
  EXPECT_ERROR(iota({3}).broadcast_to({2}), kInvalid, "(3)", "(2)");
  EXPECT_ERROR(iota({2, 3}).broadcast_to({3}), kInvalid, "(2,3)", "(3)");
  EXPECT_ERROR(iota({3}).broadcast_to({1}), kInvalid, "(3)", "(1)");
}

TEST(Movement, FlipPadShrinkWindow) {
  const Tensor x = iota({2, 3});
  expect_array(x.flip(), array_of({2, 3}, {5, 4, 3, 2, 1, 0}));
  expect_array(x.flip(-1), array_of({2, 3}, {2, 1, 0, 5, 4, 3}));
  expect_array(x.pad({{1, 0}, {0, 1}}, 9), array_of({3, 4}, {9, 9, 9, 9, 0, 1, 2, 9, 3, 4, 5, 9}));
  expect_array(x.shrink({{1, 2}, {0, 2}}), array_of({1, 2}, {3, 4}));
  expect_array(iota({5}).window(0, 3), array_of({3, 3}, {0, 1, 2, 1, 2, 3, 2, 3, 4}));
  expect_array(iota({6}).window(-1, 2, 2, 3), array_of({2, 2}, {0, 3, 2, 5}));
  EXPECT_ERROR(x.flip(2), kInvalid, "flip", "(2,3)");
  EXPECT_ERROR(x.pad({{1, 0}}), kInvalid, "pad", "(2,3)");
  EXPECT_ERROR(x.pad({{-1, 0}, {0, 0}}), kInvalid, "negative", "(2,3)");
  EXPECT_ERROR(x.pad({{1, 0}, {0, 0}}, 0.5), kInvalid, "0.5", "int32");
  EXPECT_ERROR(x.shrink({{0, 3}, {0, 1}}), kInvalid, "0..3", "(2,3)");
  EXPECT_ERROR(x.window(2, 1), kInvalid, "window", "(2,3)");
  EXPECT_ERROR(x.window(0, 0), kInvalid, "at least 1", "(2,3)");
}

TEST(Movement, ConcatenateKeepsEveryBit) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor a({{-0.0F, nan}});
  const Tensor b({{1.0F, -0.0F}, {nan, 2.0F}});
  const Tensor rows = concatenate({a, b, a});
  expect_array(rows, array_of({4, 2}, {-0.0F, nan, 1.0F, -0.0F, nan, 2.0F, -0.0F, nan}));
  expect_array(concatenate({b, a.reshape({2, 1})}, -1),
               array_of({2, 3}, {1.0F, -0.0F, -0.0F, nan, 2.0F, nan}));
  expect_array(concatenate({zeros({0, 2}), a, zeros({0, 2})}), array_of({1, 2}, {-0.0F, nan}));
  EXPECT_EQ(concatenate({zeros({0, 2}), zeros({0, 2})}).shape(), (Shape{0, 2}));
  EXPECT_EQ(concatenate({a, Tensor({{1, 2}})}).dtype(), DType::kF32);
  EXPECT_ERROR(concatenate({a, zeros({1, 3})}), kInvalid, "(1,2)", "(1,3)");
  EXPECT_ERROR(concatenate({a, zeros({2})}), kInvalid, "(1,2)", "(2)");
  EXPECT_ERROR(concatenate({a}, 2), kInvalid, "concatenate", "axis 2");
  EXPECT_ERROR(concatenate({}), kInvalid, "concatenate", "no tensors");
}

TEST(Movement, StackAddsAnAxis) {
  const Tensor a({1, 2, 3});
  const Tensor b({4, 5, 6});
  expect_array(stack({a, b}), array_of({2, 3}, {1, 2, 3, 4, 5, 6}));
  expect_array(stack({a, b, a}, 1), array_of({3, 3}, {1, 4, 1, 2, 5, 2, 3, 6, 3}));
  expect_array(stack({a, b}, -1), array_of({3, 2}, {1, 4, 2, 5, 3, 6}));
  EXPECT_ERROR(stack({a, Tensor({1, 2})}), kInvalid, "(3)", "(2)");
  EXPECT_ERROR(stack({a}, 2), kInvalid, "stack", "axis 2");
  EXPECT_ERROR(stack({}), kInvalid, "stack", "no tensors");
}

TEST(Movement, LongConcatenations) {
  std::vector<Tensor> parts;
  for (int32_t i = 0; i < 40; ++i)
    parts.push_back(Tensor({i, -i}));
  std::vector<int32_t> expected;
  for (int32_t i = 0; i < 40; ++i)
    expected.insert(expected.end(), {i, -i});
  const Tensor joined = concatenate(parts);
  const OracleValue value = testing::oracle_of(joined);
  ASSERT_EQ(value.bits.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(static_cast<int32_t>(value.bits[i]), expected[i]);
  EXPECT_EQ(joined.to_vector<int32_t>(), expected);
}

}  // namespace
}  // namespace tenon
