// Linear programs on host memory: values against hand-made ones, and every refusal.
// SPDX-License-Identifier: MIT

#include "tenon/interp/interpret.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/ir/linear_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_argument;
using testing::poisoned;
using testing::scalar_argument;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;

// One group, one lane; y is i32[n], written by the statements.
std::vector<int32_t> run_ints(std::string_view statements, size_t count) {
  const std::string text = concat(
      "tir 1 func f grid(1) lanes(1) scratch 0 { arg 0 y i32[", count, "] readwrite\n",
      "%y = param 0 %i0 = const i32 0 %i1 = const i32 1 %i2 = const i32 2 %i7 = const i32 7\n",
      statements, "}");
  std::vector<int32_t> y = poisoned<int32_t>(count);
  interpret(parse_linear(text), std::array{buffer_argument(DType::kI32, y)});
  return y;
}

using Ints = std::vector<int32_t>;
constexpr int32_t kPoison = static_cast<int32_t>(0xeeeeeeeeU);

TEST(Interpret, CarriedValuesMayChangePlaces) {
  // Fibonacci, and a swap in one yield.
  EXPECT_EQ(run_ints(R"(%a, %b = for %k = %i0..%i7 carry %p = %i0, %q = %i1 {
                          %s = add i32 %p, %q yield %q, %s }
                        store %y[%i0], %a store %y[%i1], %b)",
                     2),
            (Ints{13, 21}));
  EXPECT_EQ(run_ints(R"(%a, %b = for %k = %i0..%i7 carry %p = %i1, %q = %i2 { yield %q, %p }
                        store %y[%i0], %a store %y[%i1], %b)",
                     2),
            (Ints{2, 1}));
}

TEST(Interpret, LoopsWithoutIterationsGiveTheirStarts) {
  EXPECT_EQ(run_ints(R"(%a = for %k = %i7..%i2 carry %p = %i1 { store %y[%i1], %k yield %k }
                        store %y[%i0], %a)",
                     2),
            (Ints{1, kPoison}));
}

TEST(Interpret, BranchesGiveWhatTheTakenOneYields) {
  EXPECT_EQ(run_ints(R"(for %k = %i0..%i2 {
                          %c = eq i32 %k, %i0
                          %v = if %c -> i32 { yield %i7 } else { store %y[%i2], %k yield %i2 }
                          store %y[%k], %v })",
                     3),
            (Ints{7, 2, 1}));
}

TEST(Interpret, VectorOpsPlaceTheirLanes) {
  EXPECT_EQ(run_ints(R"(%r = ramp i32x4 %i7, %i2
                        %s = splat i32x4 %i1
                        %m = first_n i1x4 %i2
                        %w = where i32x4 %m, %r, %s
                        %h = shuffle i32x6 %r, %s [7, 3, 3, 0, 4, 1]
                        %e = extract i32 %r, 2
                        store %y[%i0], %w
                        store %y[%i0 + 4], %h
                        store %y[%i0 + 10], %e)",
                     11),
            (Ints{7, 9, 1, 1, 1, 13, 13, 7, 1, 9, 11}));
}

TEST(Interpret, FirstNTakesAnyCount) {
  EXPECT_EQ(run_ints(R"(%low = const i32 -3 %high = const i64 9223372036854775807
                        %a = first_n i1x2 %low %b = first_n i1x2 %high %c = first_n i1x2 %i1
                        %d = cast i32x2 %a store %y[%i0], %d
                        %e = cast i32x2 %b store %y[%i2], %e
                        %f = cast i32x2 %c store %y[%i2 + 2], %f)",
                     6),
            (Ints{0, 0, 1, 1, 1, 0}));
}

TEST(Interpret, GatesKeepMemoryUntouched) {
  // The masked lanes lie outside the buffer: they must not even be looked at.
  EXPECT_EQ(run_ints(R"(%m = first_n i1x4 %i2 %v = ramp i32x4 %i1, %i1 %off = const i1 false
                        %s = splat i32x4 %i7
                        store %y[%i2], %v gate %m
                        %l = load i32x4 %y[%i2] gate %m alt %s
                        %e = extract i32 %l, 3
                        store %y[%i1], %e
                        %far = load i32 %y[%i2 + 1000] gate %off alt %i7
                        store %y[%i0], %far
                        store %y[%i0 - 5], %far gate %off)",
                     4),
            (Ints{7, 7, 1, 2}));
}

TEST(Interpret, VectorIndicesGatherAndScatter) {
  EXPECT_EQ(run_ints(R"(%r = ramp i32x3 %i0, %i2
                        %v = ramp i32x3 %i1, %i1
                        store %y[%r + 1], %v
                        %two = splat i32x3 %i1
                        %b = mul i32x3 %r, %two
                        %g = load i32x3 %y[%b + 1]
                        %s = add i32x3 %g, %g
                        %e = extract i32 %s, 2
                        store %y[%i0], %e)",
                     6),
            (Ints{6, 1, kPoison, 2, kPoison, 3}));
}

TEST(Interpret, MemoryHasTheWidthOfItsDType) {
  const std::string text = R"(tir 1 func f grid(1) lanes(1) scratch 0 {
    arg 0 b i1[4] readwrite arg 1 s i8[4] readwrite arg 2 h f16[2] write arg 3 k f64
    %b = param 0 %s = param 1 %h = param 2 %k = param 3 %i = const i32 0
    %v = load i1x2 %b[%i] %n = not i1x2 %v store %b[%i + 2], %n
    %c = load i8 %s[%i] %w = cast i32 %c %one = const i32 -128 %sum = add i32 %w, %one
    %back = cast i8 %sum store %s[%i + 1], %back
    %narrow = cast f16 %k store %h[%i + 1], %narrow })";
  std::vector<uint8_t> b{1, 0, 0xee, 0xee};
  std::vector<int8_t> s{-3, 99, 99, 99};
  std::vector<uint16_t> h{7, 7};
  const double k = -1.5;
  interpret(parse_linear(text),
            std::array{buffer_argument(DType::kBool, b), buffer_argument(DType::kI8, s),
                       buffer_argument(DType::kF16, h),
                       scalar_argument(DType::kF64, std::bit_cast<uint64_t>(k))});
  EXPECT_EQ(b, (std::vector<uint8_t>{1, 0, 0, 1}));
  EXPECT_EQ(s, (std::vector<int8_t>{-3, 125, 99, 99}));
  EXPECT_EQ(h, (std::vector<uint16_t>{7, 0xbe00}));
}

TEST(Interpret, GroupsAndLanesHaveTheirCoordinates) {
  const std::string text = R"(tir 1 func f grid(2,3) lanes(2,2,2) scratch 0 {
    arg 0 y i32[48] write
    %y = param 0 %gx = grid_id 0 i32 %gy = grid_id 1 i32
    %lx = lane_id 0 i32 %ly = lane_id 1 i32 %lz = lane_id 2 i32
    %c2 = const i32 2 %c8 = const i32 8 %c10 = const i32 10 %c100 = const i32 100
    %a = mul i32 %gy, %c2 %b = add i32 %a, %gx %c = mul i32 %b, %c8
    %d = mul i32 %lz, %c2 %e = add i32 %d, %ly %f = mul i32 %e, %c2 %g = add i32 %f, %lx
    %at = add i32 %c, %g
    %h = mul i32 %gy, %c100 %i = mul i32 %gx, %c10 %j = add i32 %h, %i %k = add i32 %j, %g
    store %y[%at], %k })";
  Ints y = poisoned<int32_t>(48);
  interpret(parse_linear(text), std::array{buffer_argument(DType::kI32, y)});
  for (int i = 0; i < 48; ++i) {
    EXPECT_EQ(y[static_cast<size_t>(i)], i / 16 * 100 + i / 8 % 2 * 10 + i % 8) << i;
  }
}

TEST(Interpret, PrivateMemoryIsPrivateAndAtomicsCount) {
  const std::string text = R"(tir 1 func f grid(3) lanes(4) scratch 8 {
    arg 0 y i32[12] write arg 1 count u32[1] readwrite
    %y = param 0 %count = param 1 %mine = alloc i32 2 reg %ours = alloc i32 2 group
    %g = grid_id 0 i32 %l = lane_id 0 i32 %zero = const i32 0 %four = const i32 4
    %step = const u32 5
    store %mine[%zero + 1], %l
    %first = eq i32 %l, %zero
    store %ours[%zero + 1], %g gate %first
    barrier
    %old = atomic add %count[%zero], %step
    %a = load i32 %mine[%zero + 1] %b = load i32 %ours[%zero + 1]
    %r = mul i32 %g, %four %at = add i32 %r, %l
    %h = mul i32 %b, %four %s = add i32 %h, %a
    store %y[%at], %s })";
  Ints y = poisoned<int32_t>(12);
  std::vector<uint32_t> count{7};
  interpret(parse_linear(text),
            std::array{buffer_argument(DType::kI32, y), buffer_argument(DType::kU32, count)});
  EXPECT_EQ(y, (Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(count[0], 67U);
}

TEST(Interpret, LoopsWithBarriersCarryPerLane) {
  // Three rounds of passing a value to the next lane around a ring, double buffered.
  const std::string text = R"(tir 1 func f grid(1) lanes(4) scratch 32 {
    arg 0 y i32[4] write
    %y = param 0 %ring = alloc i32 8 group %l = lane_id 0 i32
    %zero = const i32 0 %one = const i32 1 %three = const i32 3 %four = const i32 4
    %next = add i32 %l, %one %to = and i32 %next, %three
    %last = for %k = %zero..%three carry %v = %l {
      %parity = and i32 %k, %one %half = mul i32 %parity, %four
      %dst = add i32 %half, %to %src = add i32 %half, %l
      store %ring[%dst], %v
      %always = le i32 %k, %three
      %got = if %always -> i32 { barrier %x = load i32 %ring[%src] yield %x } else { yield %v }
      yield %got
    }
    store %y[%l], %last })";
  Ints y = poisoned<int32_t>(4);
  interpret(parse_linear(text), std::array{buffer_argument(DType::kI32, y)});
  EXPECT_EQ(y, (Ints{1, 2, 3, 0}));
}

TEST(Interpret, FusedMulAccRoundsOnce) {
  const std::string text = R"(tir 1 func f grid(1) lanes(1) scratch 0 {
    arg 0 y f32[1] write arg 1 a f32 arg 2 c f32
    %y = param 0 %a = param 1 %c = param 2 %i = const i32 0
    %r = mulacc f32 %a, %a, %c store %y[%i], %r })";
  const float a = 1 + 0x1p-12F;
  const float c = -(1 + 0x1p-11F);  // the product rounded to f32
  for (const bool fused : {false, true}) {
    std::vector<float> y = poisoned<float>(1);
    interpret(parse_linear(text),
              std::array{buffer_argument(DType::kF32, y),
                         scalar_argument(DType::kF32, std::bit_cast<uint32_t>(a)),
                         scalar_argument(DType::kF32, std::bit_cast<uint32_t>(c))},
              {.fuses_mulacc = fused});
    EXPECT_EQ(y[0], fused ? 0x1p-24F : 0.0F);
  }
}

TEST(Interpret, WhatCannotRunIsRefused) {
  const std::string unit = "tir 1 func f grid(1) lanes(1) scratch 0 { unit_setup 0 }";
  EXPECT_ERROR(interpret(parse_linear(unit), {}), ErrorCode::kUnsupported, "matrix unit");
  const std::string wide =
      "tir 1 func f grid(1) lanes(65536) scratch 0 { %a = alloc f32 1000000 reg }";
  EXPECT_ERROR(interpret(parse_linear(wide), {}), ErrorCode::kUnsupported, "allocates more");
  const std::string broken = "tir 1 func f grid(1) lanes(1) scratch 4 { }";
  EXPECT_ERROR(interpret(parse_linear(broken), {}), kInvalid, "scratch is 4 bytes");
  const std::string one = "tir 1 func f grid(1) lanes(1) scratch 0 { arg 0 y i32[4] read }";
  Ints y(3);
  EXPECT_ERROR(interpret(parse_linear(one), {}), kInvalid, "0 arguments", "takes 1");
  EXPECT_ERROR(interpret(parse_linear(one), std::array{buffer_argument(DType::kI32, y)}), kInvalid,
               "12", "16");
}

}  // namespace
}  // namespace tenon
