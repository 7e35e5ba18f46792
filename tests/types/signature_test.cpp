// Argument layout against the host compiler's own layout, and each reason to refuse a launch.
// SPDX-License-Identifier: MIT

#include "tenon/types/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Argument buffer(const char* name, DType dtype, int64_t num_elements) {
  return {.name = name, .dtype = dtype, .num_elements = num_elements};
}

Argument scalar(const char* name, DType dtype, int64_t min = 0, int64_t max = 0) {
  return {.name = name, .dtype = dtype, .is_buffer = false, .min = min, .max = max};
}

ArgumentValue scalar_value(DType dtype, int64_t value) {
  return {.is_buffer = false, .dtype = dtype, .bits = static_cast<uint64_t>(value)};
}

TEST(ArgumentLayout, EqualsThatOfAHostStruct) {
  struct Host {
    void* a;
    int8_t b;
    int16_t c;
    int32_t d;
    bool e;
    void* f;
    uint8_t g;
    double h;
    uint16_t i;
  };
  const Signature signature{
      {buffer("a", DType::kF32, 4), scalar("b", DType::kI8), scalar("c", DType::kI16),
       scalar("d", DType::kI32), scalar("e", DType::kBool), buffer("f", DType::kU8, 1),
       scalar("g", DType::kF8E4M3), scalar("h", DType::kF64), scalar("i", DType::kBF16)}};
  const ArgumentLayout layout = layout_arguments(signature);
  const std::vector<uint32_t> expected = {offsetof(Host, a), offsetof(Host, b), offsetof(Host, c),
                                          offsetof(Host, d), offsetof(Host, e), offsetof(Host, f),
                                          offsetof(Host, g), offsetof(Host, h), offsetof(Host, i)};
  EXPECT_EQ(layout.offsets, expected);
  EXPECT_EQ(layout.size_bytes, sizeof(Host));
}

TEST(ArgumentLayout, OfNothingIsEmptyAndOfOneByteIsAWord) {
  EXPECT_EQ(layout_arguments({}).size_bytes, 0U);
  EXPECT_EQ(layout_arguments({{scalar("x", DType::kBool)}}).size_bytes, 8U);
}

TEST(WhyArgumentsDiffer, AcceptsWhatFits) {
  float data[4] = {};
  const Signature signature{{buffer("x", DType::kF32, 4), scalar("n", DType::kI32, -3, 7)}};
  const ArgumentValue x{.address = data, .size_bytes = 16};
  for (const int64_t n : {-3, 0, 7}) {
    EXPECT_EQ(why_arguments_differ(signature, {x, scalar_value(DType::kI32, n)}), std::nullopt);
  }
  EXPECT_EQ(why_arguments_differ({{buffer("e", DType::kF32, 0)}}, {ArgumentValue{}}), std::nullopt);
}

TEST(WhyArgumentsDiffer, SaysWhatDoesNot) {
  float data[4] = {};
  const Signature signature{{buffer("x", DType::kF32, 4), scalar("n", DType::kI32, -3, 7)}};
  const ArgumentValue x{.address = data, .size_bytes = 16};
  const ArgumentValue n = scalar_value(DType::kI32, 1);
  const auto why = [&](const std::vector<ArgumentValue>& values) {
    return why_arguments_differ(signature, values).value_or("nothing");
  };
  EXPECT_THAT(why({x}), AllOf(HasSubstr("1 arguments"), HasSubstr("takes 2")));
  EXPECT_THAT(why({n, x}), AllOf(HasSubstr("'x'"), HasSubstr("is a scalar")));
  ArgumentValue wrong = x;
  wrong.dtype = DType::kI32;
  EXPECT_THAT(why({wrong, n}), AllOf(HasSubstr("int32"), HasSubstr("takes float32")));
  wrong = x;
  wrong.size_bytes = 15;
  EXPECT_THAT(why({wrong, n}), AllOf(HasSubstr("15 bytes"), HasSubstr("16 bytes")));
  wrong = x;
  wrong.address = nullptr;
  EXPECT_THAT(why({wrong, n}), HasSubstr("no address"));
  EXPECT_THAT(why({x, scalar_value(DType::kI32, 8)}),
              AllOf(HasSubstr("'n'"), HasSubstr("is 8"), HasSubstr("-3 to 7")));
  EXPECT_THAT(why({x, scalar_value(DType::kI32, -4)}), HasSubstr("is -4"));
}

TEST(WhyArgumentsDiffer, RefusesSizesBeyond64Bits) {
  const Signature signature{{buffer("x", DType::kF64, std::numeric_limits<int64_t>::max())}};
  const ArgumentValue x{.dtype = DType::kF64, .size_bytes = std::numeric_limits<int64_t>::max()};
  EXPECT_THAT(why_arguments_differ(signature, {x}).value_or(""), HasSubstr("64 bits"));
}

TEST(WhyArgumentsDiffer, TakesUnsignedRangesAsBitPatterns) {
  const Signature signature{{scalar("n", DType::kU64, 5, -1)}};
  const auto accepts = [&](uint64_t bits) {
    const ArgumentValue value{.is_buffer = false, .dtype = DType::kU64, .bits = bits};
    return !why_arguments_differ(signature, {value});
  };
  EXPECT_FALSE(accepts(4));
  EXPECT_TRUE(accepts(5));
  EXPECT_TRUE(accepts(~uint64_t{0}));
}

TEST(WhyArgumentsDiffer, RefusesBitsThatAreNotAValueOfTheDType) {
  const auto accepts = [](DType dtype, uint64_t bits) {
    const Signature signature{{scalar("x", dtype, 0, dtype == DType::kU8 ? 255 : 0)}};
    const ArgumentValue value{.is_buffer = false, .dtype = dtype, .bits = bits};
    return !why_arguments_differ(signature, {value});
  };
  EXPECT_TRUE(accepts(DType::kBool, 1));
  EXPECT_FALSE(accepts(DType::kBool, 2));
  EXPECT_TRUE(accepts(DType::kU8, 255));
  EXPECT_FALSE(accepts(DType::kU8, 256));
  EXPECT_TRUE(accepts(DType::kF16, 0xffff));
  EXPECT_FALSE(accepts(DType::kF16, 0x10000));
  EXPECT_TRUE(accepts(DType::kF64, ~uint64_t{0}));
}

}  // namespace
}  // namespace tenon
