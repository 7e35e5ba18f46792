// Constants and ranges. SPDX-License-Identifier: MIT

#include "tenon/tensor/creation.h"

#include <limits>

#include "tests/support/expect_error.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

using testing::array_of;
using testing::expect_array;
using testing::expect_table;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(Creation, Constants) {
  expect_array(zeros({2}), array_of({2}, {0.0F, 0.0F}));
  expect_array(ones({2}, {.dtype = DType::kI8}), array_of<int8_t>({2}, {1, 1}));
  expect_array(full({1, 2}, 7), array_of<int64_t>({1, 2}, {7, 7}));
  expect_array(full({}, true), array_of({}, {true}));
  expect_array(full({2}, -2.5), array_of({2}, {-2.5F, -2.5F}));
  EXPECT_EQ(zeros({0, 3}).to_vector<float>().size(), 0U);
  EXPECT_ERROR(zeros({-1}), kInvalid, "negative", "(-1)");
  EXPECT_ERROR(full({2}, 300, {.dtype = DType::kU8}), kInvalid, "300", "uint8");
}

TEST(Creation, RangesAsNumpy) {
  expect_table(arange(3, 20, 4), "arange_int");
  expect_table(arange(10, -5, -3, {.dtype = DType::kI8}), "arange_down");
  expect_table(arange(0.5, 3.25, 0.25), "arange_float");
  expect_table(linspace(-1, 2, 7), "linspace");
  expect_table(linspace(-1, 2, 7, false), "linspace_open");
  expect_table(eye(3, 5, 1), "eye");
  expect_array(arange(3), array_of<int64_t>({3}, {0, 1, 2}));
  expect_array(arange(3.0), array_of({3}, {0.0F, 1.0F, 2.0F}));
  expect_array(arange(2, 5, 1, {.dtype = DType::kF64}), array_of({3}, {2.0, 3.0, 4.0}));
  expect_array(eye(2, {}, -1, {.dtype = DType::kI32}), array_of({2, 2}, {0, 0, 1, 0}));
  EXPECT_EQ(arange(5, 5).shape(), Shape{0});
  EXPECT_EQ(arange(5, 0).shape(), Shape{0});
  EXPECT_EQ(linspace(0, 1, 0).shape(), Shape{0});
  expect_array(linspace(3, 5, 1), array_of({1}, {3.0F}));
}

TEST(Creation, RangesReachTheEndsOfTheirDtype) {
  expect_array(arange(kMax - 2, kMax), array_of<int64_t>({2}, {kMax - 2, kMax - 1}));
  expect_array(arange(kMin, kMax, kMax), array_of<int64_t>({3}, {kMin, -1, kMax - 1}));
  const Tensor bytes = arange(-128, 128, 1, {.dtype = DType::kI8});
  expect_array(bytes.getitem({Slice{{}, {}, 85}}), array_of<int8_t>({4}, {-128, -43, 42, 127}));
  const uint64_t top = ~uint64_t{0};
  expect_array(arange(top - 2, top, 1, {.dtype = DType::kU64}),
               array_of<uint64_t>({2}, {top - 2, top - 1}));
}

TEST(Creation, RangeErrors) {
  EXPECT_ERROR(arange(0, 5, 0), kInvalid, "step is 0", "stop is 5");
  EXPECT_ERROR(arange(0, 300, 1, {.dtype = DType::kU8}), kInvalid, "299", "uint8");
  EXPECT_ERROR(arange(-1, 3, 1, {.dtype = DType::kU32}), kInvalid, "-1", "uint32");
  EXPECT_ERROR(arange(0, 1, 1, {.dtype = DType::kBool}), kInvalid, "arange", "bool");
  EXPECT_ERROR(arange(0.0, 1e30, 1), kInvalid, "arange", "too many");
  EXPECT_ERROR(linspace(0, 1, -1), kInvalid, "linspace", "-1");
}

}  // namespace
}  // namespace tenon
