// The dtype table against facts written down here by hand. SPDX-License-Identifier: MIT

#include "tenon/types/dtype.h"

#include <gtest/gtest.h>

#include <limits>

namespace tenon {
namespace {

TEST(DType, NumbersAreThoseStoredInFiles) {
  EXPECT_EQ(static_cast<int>(DType::kBool), 1);
  EXPECT_EQ(static_cast<int>(DType::kI64), 5);
  EXPECT_EQ(static_cast<int>(DType::kU64), 9);
  EXPECT_EQ(static_cast<int>(DType::kF8E4M3), 10);
  EXPECT_EQ(static_cast<int>(DType::kBF16), 13);
  EXPECT_EQ(static_cast<int>(DType::kF64), 15);
  EXPECT_EQ(static_cast<int>(DType::kIdx), 16);
  EXPECT_EQ(dtype_from_number(0), std::nullopt);
  EXPECT_EQ(dtype_from_number(17), std::nullopt);
  EXPECT_EQ(dtype_from_number(255), std::nullopt);
}

TEST(DType, BothNamesAndTheNumberFindIt) {
  ASSERT_EQ(storage_dtypes().size(), 15U);
  for (const DType dtype : storage_dtypes()) {
    EXPECT_EQ(find_dtype(dtype_name(dtype)), dtype);
    EXPECT_EQ(find_dtype(dtype_long_name(dtype)), dtype);
    EXPECT_EQ(dtype_from_number(static_cast<uint8_t>(dtype)), dtype);
    EXPECT_GT(dtype_bits(dtype), 0);
  }
  EXPECT_EQ(find_dtype("float32"), DType::kF32);
  EXPECT_EQ(find_dtype("bf16"), DType::kBF16);
  EXPECT_EQ(find_dtype("idx"), DType::kIdx);
  EXPECT_EQ(find_dtype("float"), std::nullopt);
  EXPECT_EQ(find_dtype(""), std::nullopt);
  EXPECT_EQ(dtype_bits(DType::kIdx), 0);
}

TEST(DType, IntegerLimitsAreTheLanguages) {
  EXPECT_EQ(static_cast<int64_t>(int_min_bits(DType::kI8)), -128);
  EXPECT_EQ(int_max_bits(DType::kI8), 127U);
  EXPECT_EQ(static_cast<int64_t>(int_min_bits(DType::kI64)), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(int_max_bits(DType::kI64), uint64_t{std::numeric_limits<int64_t>::max()});
  EXPECT_EQ(int_min_bits(DType::kU16), 0U);
  EXPECT_EQ(int_max_bits(DType::kU16), 65535U);
  EXPECT_EQ(int_max_bits(DType::kU64), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(int_max_bits(DType::kBool), 1U);
}

TEST(DType, FloatFormatsFillTheirWidth) {
  int num_floats = 0;
  for (const DType dtype : storage_dtypes()) {
    if (!is_float(dtype)) continue;
    ++num_floats;
    const FloatFormat format = float_format(dtype);
    EXPECT_EQ(1 + format.exponent_bits + format.mantissa_bits, dtype_bits(dtype));
    EXPECT_EQ(format.bias, (1 << (format.exponent_bits - 1)) - 1);
    EXPECT_EQ(format.finite_only, dtype == DType::kF8E4M3);
    EXPECT_TRUE(is_unsigned_int(unsigned_of_same_width(dtype)));
    EXPECT_TRUE(is_signed_int(signed_of_same_width(dtype)));
    EXPECT_EQ(dtype_bits(unsigned_of_same_width(dtype)), dtype_bits(dtype));
    EXPECT_EQ(dtype_bits(signed_of_same_width(dtype)), dtype_bits(dtype));
  }
  EXPECT_EQ(num_floats, 6);
  EXPECT_EQ(float_format(DType::kF32).mantissa_bits, std::numeric_limits<float>::digits - 1);
  EXPECT_EQ(float_format(DType::kF64).mantissa_bits, std::numeric_limits<double>::digits - 1);
}

}  // namespace
}  // namespace tenon
