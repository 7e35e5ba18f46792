// Sorting against std::stable_sort, with ties, special floats and sizes around powers of two.
// SPDX-License-Identifier: MIT

#include "tenon/tensor/sorting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/expect_error.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

// Whether a stands before b among ascending values: NaN last.
template <typename T>
bool is_less(T a, T b) {
  if constexpr (std::floating_point<T>) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
  }
  return a < b;
}

template <typename T>
std::vector<int64_t> sorted_positions(const std::vector<T>& values, bool descending) {
  std::vector<int64_t> positions(values.size());
  std::iota(positions.begin(), positions.end(), 0);
  std::stable_sort(positions.begin(), positions.end(), [&](int64_t i, int64_t j) {
    const T a = values[static_cast<size_t>(i)];
    const T b = values[static_cast<size_t>(j)];
    return descending ? is_less(b, a) : is_less(a, b);
  });
  return positions;
}

template <typename T>
void expect_sorted(const std::vector<T>& values) {
  const Tensor x = Tensor::from_data(values, {std::ssize(values)});
  for (const bool descending : {false, true}) {
    const std::vector<int64_t> want = sorted_positions(values, descending);
    const Sorted got = sort_with_indices(x, 0, descending);
    EXPECT_EQ(got.indices.to_vector<int64_t>(), want) << values.size() << " values";
    const std::vector<T> sorted = got.values.to_vector<T>();
    for (size_t i = 0; i < want.size(); ++i) {
      const T wanted = values[static_cast<size_t>(want[i])];
      EXPECT_EQ(std::memcmp(&sorted[i], &wanted, sizeof(T)), 0) << "position " << i;
    }
  }
}

TEST(Sort, IsStableForEverySize) {
  for (const int64_t size : {0, 1, 2, 3, 4, 5, 8, 13, 33}) {
    std::vector<int32_t> values;
    for (int64_t i = 0; i < size; ++i)
      values.push_back(static_cast<int32_t>(i * 7919 % 11 - 5));
    expect_sorted(values);
  }
}

TEST(Sort, OrdersSpecialFloats) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  expect_sorted<float>({0.0F, kNan, -0.0F, kInf, kTiny, -kInf, -kTiny, 0.0F, kNan, 3.0F, -3.0F});
}

TEST(Sort, OrdersEachDType) {
  expect_sorted<uint8_t>({3, 255, 0, 128, 127, 3});
  expect_sorted<uint64_t>({1, ~uint64_t{0}, uint64_t{1} << 63, 0, 1});
  expect_sorted<int64_t>({INT64_MIN, 5, INT64_MAX, -1, 5});
  expect_sorted<double>({1e300, -1e-300, 0.0, 1e-300});
}

TEST(Sort, GoesAlongAnyAxis) {
  const Tensor x({{3, 1, 2}, {1, 2, 3}, {2, 3, 1}, {0, 0, 0}});
  EXPECT_EQ(sort(x, 0).to_vector<int32_t>(),
            (std::vector<int32_t>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}));
  EXPECT_EQ(argsort(x, 1).to_vector<int64_t>(),
            (std::vector<int64_t>{1, 2, 0, 0, 1, 2, 2, 0, 1, 0, 1, 2}));
  EXPECT_EQ(sort(Tensor::from_data(std::vector<float>{4}, {})).item<float>(), 4);
}

TEST(TopK, TakesTheLowestPositionsOfEquals) {
  const Tensor x({{2, 7, 1, 7, 3, 7}, {0, 0, 0, 0, 0, -1}});
  const Sorted got = topk(x, 3);
  EXPECT_EQ(got.values.to_vector<int32_t>(), (std::vector<int32_t>{7, 7, 7, 0, 0, 0}));
  EXPECT_EQ(got.indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 3, 5, 0, 1, 2}));
  EXPECT_EQ(topk(x, 1, 0).values.to_vector<int32_t>(), (std::vector<int32_t>{2, 7, 1, 7, 3, 7}));
  EXPECT_EQ(topk(x, 0).values.shape(), (Shape{2, 0}));
  EXPECT_ERROR(topk(x, 7), kInvalid, "k is 7", "(2,6)");
  EXPECT_ERROR(sort(x, 2), kInvalid, "axis 2", "(2,6)");
}

}  // namespace
}  // namespace tenon
