// The promotion table against the Array API's (2023.12, "Type Promotion Rules"), written out here,
// and our answers where it leaves the choice open. SPDX-License-Identifier: MIT

#include "tenon/tensor/promotion.h"

#include <map>

#include "tenon/tensor/creation.h"
#include "tests/support/expect_error.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

DType named(std::string_view name) {
  return find_dtype(name).value();
}

TEST(Promotion, AgreesWithTheTableOfTheArrayApi) {
  // Rows of the standard's three tables: left, top, result.
  const char* const kTable[][3] = {
      {"i8", "i8", "i8"},    {"i8", "i16", "i16"},  {"i8", "i32", "i32"},  {"i8", "i64", "i64"},
      {"i16", "i16", "i16"}, {"i16", "i32", "i32"}, {"i16", "i64", "i64"}, {"i32", "i32", "i32"},
      {"i32", "i64", "i64"}, {"i64", "i64", "i64"}, {"u8", "u8", "u8"},    {"u8", "u16", "u16"},
      {"u8", "u32", "u32"},  {"u8", "u64", "u64"},  {"u16", "u16", "u16"}, {"u16", "u32", "u32"},
      {"u16", "u64", "u64"}, {"u32", "u32", "u32"}, {"u32", "u64", "u64"}, {"u64", "u64", "u64"},
      {"i8", "u8", "i16"},   {"i8", "u16", "i32"},  {"i8", "u32", "i64"},  {"i16", "u8", "i16"},
      {"i16", "u16", "i32"}, {"i16", "u32", "i64"}, {"i32", "u8", "i32"},  {"i32", "u16", "i32"},
      {"i32", "u32", "i64"}, {"i64", "u8", "i64"},  {"i64", "u16", "i64"}, {"i64", "u32", "i64"},
      {"f32", "f32", "f32"}, {"f32", "f64", "f64"}, {"f64", "f64", "f64"}, {"i1", "i1", "i1"}};
  for (const auto& [a, b, result] : kTable) {
    EXPECT_EQ(promote_types(named(a), named(b)), named(result)) << a << " " << b;
    EXPECT_EQ(promote_types(named(b), named(a)), named(result)) << b << " " << a;
  }
}

TEST(Promotion, OurChoicesWhereTheStandardHasNone) {
  const char* const kTable[][3] = {
      {"i1", "i8", "i8"},          {"i1", "u64", "u64"},       {"i1", "f16", "f16"},
      {"i64", "f32", "f32"},       {"u64", "f32", "f32"},      {"i8", "f16", "f16"},
      {"i32", "bf16", "bf16"},     {"i32", "f64", "f64"},      {"f16", "bf16", "f32"},
      {"f16", "f32", "f32"},       {"bf16", "f32", "f32"},     {"bf16", "f64", "f64"},
      {"f8e4m3", "f16", "f16"},    {"f8e4m3", "bf16", "bf16"}, {"f8e5m2", "f32", "f32"},
      {"f8e4m3", "f8e5m2", "f16"}, {"i8", "f8e5m2", "f8e5m2"}};
  for (const auto& [a, b, result] : kTable) {
    EXPECT_EQ(promote_types(named(a), named(b)), named(result)) << a << " " << b;
    EXPECT_EQ(promote_types(named(b), named(a)), named(result)) << b << " " << a;
  }
}

TEST(Promotion, SignedWithUint64HasNoCommonDtype) {
  for (const DType dtype : {DType::kI8, DType::kI16, DType::kI32, DType::kI64}) {
    EXPECT_FALSE(find_common_dtype(dtype, DType::kU64).has_value());
    EXPECT_FALSE(find_common_dtype(DType::kU64, dtype).has_value());
  }
  EXPECT_ERROR(promote_types(DType::kU64, DType::kI32), kInvalid, "uint64", "int32");
  const Tensor a({uint64_t{1}});
  EXPECT_ERROR(a + Tensor({1}), kInvalid, "uint64", "int32");
  EXPECT_ERROR(a < Tensor({1}), kInvalid, "less", "int32");
}

TEST(Promotion, HoldsForEveryPairOfDtypes) {
  for (const DType a : storage_dtypes()) {
    EXPECT_EQ(find_common_dtype(a, a), a);
    for (const DType b : storage_dtypes()) {
      EXPECT_EQ(find_common_dtype(a, b), find_common_dtype(b, a));
      const auto common = find_common_dtype(a, b);
      if (!common) continue;
      EXPECT_EQ(find_common_dtype(a, *common), *common) << dtype_name(a) << " " << dtype_name(b);
    }
  }
}

TEST(Promotion, ScalarsAreWeak) {
  const Tensor i8({int8_t{1}});
  const Tensor f16 = i8.astype(DType::kF16);
  const Tensor flag({true});
  EXPECT_EQ((i8 + 1).dtype(), DType::kI8);
  EXPECT_EQ((1 + i8).dtype(), DType::kI8);
  EXPECT_EQ((i8 * int64_t{3}).dtype(), DType::kI8);
  EXPECT_EQ((i8 + true).dtype(), DType::kI8);
  EXPECT_EQ((i8 + 1.5).dtype(), DType::kF32);
  EXPECT_EQ((f16 + 1).dtype(), DType::kF16);
  EXPECT_EQ((f16 + 1.5).dtype(), DType::kF16);
  EXPECT_EQ((flag + 1).dtype(), DType::kI64);
  EXPECT_EQ((flag + 1.0F).dtype(), DType::kF32);
  EXPECT_EQ((flag + true).dtype(), DType::kBool);
  EXPECT_EQ(where(flag, 1, 0).dtype(), DType::kI64);
  EXPECT_EQ(where(flag, 1.0, 0).dtype(), DType::kF32);
  EXPECT_EQ(where(flag, i8, 0).dtype(), DType::kI8);
}

TEST(Promotion, ScalarsThatDoNotFitAreErrors) {
  const Tensor u8({uint8_t{1}});
  EXPECT_ERROR(u8 + 256, kInvalid, "256", "uint8");
  EXPECT_ERROR(u8 + -1, kInvalid, "-1", "uint8");
  EXPECT_ERROR(Tensor({1}) * int64_t{2147483648}, kInvalid, "2147483648", "int32");
  EXPECT_ERROR(Tensor({int64_t{1}}) + ~uint64_t{0}, kInvalid, "18446744073709551615", "int64");
  EXPECT_ERROR(full({2}, 2.5, {.dtype = DType::kI32}), kInvalid, "2.5", "int32");
  EXPECT_ERROR(full({2}, 1e19, {.dtype = DType::kI64}), kInvalid, "full", "int64");
  EXPECT_EQ(full({}, 2.0, {.dtype = DType::kI32}).item<int32_t>(), 2);
  EXPECT_EQ(full({}, 1e19, {.dtype = DType::kU64}).item<uint64_t>(), 10000000000000000000U);
  EXPECT_EQ(full({}, -128, {.dtype = DType::kI8}).item<int8_t>(), -128);
}

TEST(Promotion, MixedArraysHavePromotedValues) {
  testing::expect_table(testing::table_tensor("u8") + testing::table_tensor("i8"), "u8_add_i8");
  testing::expect_table(testing::table_tensor("u8") + Tensor({0.5F}), "u8_add_f32");
}

}  // namespace
}  // namespace tenon
