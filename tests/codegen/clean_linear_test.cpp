// What clean_linear takes away, hoists, shares and leaves alone, on programs written by hand.
// SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/codegen/clean_linear.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"
#include "tests/codegen/linear_counts.h"
#include "tests/codegen/nest_runs.h"

namespace tenon::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LinearProgram cleaned(std::string_view body) {
  const std::string text = concat(
      "tir 1 func f grid(2) lanes(1) scratch 0 {\n  arg 0 x f32[64] read\n  arg 1 y f32[64] "
      "readwrite\n  arg 2 z f32[64] write\n  %x = param 0\n  %y = param 1\n  %z = param 2\n"
      "  %i = grid_id 0 i32\n  %zero = const i32 0\n  %ten = const i32 10\n  %one = const f32 1\n",
      body, "}\n");
  const LinearProgram program = parse_linear(text, "test");
  check_linear(program);
  LinearProgram result = clean_linear(program);
  check_linear(result);
  return result;
}

TEST(CleanLinear, CarriedValuesThatNothingNeedsGo) {
  // %b only counts for itself; %a is stored; the inner loop has no effect at all.
  const LinearProgram program = cleaned(R"(
  %p, %q = for %k = %zero..%ten carry %a = %one, %b = %one {
    %c = add f32 %a, %one
    %d = mul f32 %b, %b
    %e = for %l = %zero..%ten carry %f = %d {
      %g = add f32 %f, %one
      yield %g
    }
    yield %c, %e
  }
  store %z[%i], %p
)");
  EXPECT_EQ(count_ops(program, 0, Op::kFor), 1) << to_text(program);
  EXPECT_EQ(count_ops(program, 0, Op::kMul), 0);
  const RegionId loop = innermost_loop_with(program, Op::kAdd);
  EXPECT_EQ(program.regions[loop].args.size(), 2U);
}

TEST(CleanLinear, YieldsOfBranchesThatNothingNeedsGo) {
  const LinearProgram program = cleaned(R"(
  %first = eq i32 %i, %zero
  %p, %q = if %first -> f32, f32 {
    %a = load f32 %x[%i]
    %b = load f32 %y[%i]
    yield %a, %b
  } else {
    yield %one, %one
  }
  store %z[%i], %q
)");
  EXPECT_EQ(count_ops(program, 0, Op::kLoad), 1) << to_text(program);
}

TEST(CleanLinear, LoadsAreSharedUntilTheirBufferIsWritten) {
  // The second load of %y is the first; the third comes after a store.
  const LinearProgram program = cleaned(R"(
  %a = load f32 %y[%i]
  store %z[%i + 1], %a
  %b = load f32 %y[%i]
  %c = add f32 %a, %b
  store %y[%i + 1], %c
  %d = load f32 %y[%i]
  store %z[%i], %d
)");
  EXPECT_EQ(count_ops(program, 0, Op::kLoad), 2) << to_text(program);
}

TEST(CleanLinear, LoadsInALoopSeeWhatItStores) {
  const LinearProgram program = cleaned(R"(
  %a = load f32 %y[%zero]
  %s = load f32 %x[%zero]
  for %k = %zero..%ten {
    %b = load f32 %y[%zero]
    %t = load f32 %x[%zero]
    %c = add f32 %b, %t
    store %y[%k], %c
  }
  %d = load f32 %y[%zero]
  %e = add f32 %d, %a
  %f = add f32 %e, %s
  store %z[%zero], %f
)");
  EXPECT_EQ(count_ops(program, 0, Op::kLoad), 4) << to_text(program);
  EXPECT_EQ(count_ops(program, innermost_loop_with(program, Op::kStore), Op::kLoad), 1);
}

TEST(CleanLinear, LoadsAfterABranchSeeWhatItStores) {
  const LinearProgram program = cleaned(R"(
  %a = load f32 %y[%zero]
  %first = eq i32 %i, %zero
  if %first {
    store %y[%zero], %one
    yield
  } else {
    %e = load f32 %y[%zero]
    store %z[%ten], %e
    yield
  }
  %d = load f32 %y[%zero]
  %f = add f32 %d, %a
  store %z[%zero], %f
)");
  EXPECT_EQ(count_ops(program, 0, Op::kLoad), 3) << to_text(program);
}

TEST(CleanLinear, GatesAndMasksThatAreKnownGo) {
  const LinearProgram program = cleaned(R"(
  %four = const i32 4
  %all = first_n i1x4 %four
  %none = first_n i1x4 %zero
  %alt = const f32x4 3
  %a = load f32x4 %x[%i] gate %all alt %alt
  %b = load f32x4 %x[%i + 4] gate %none alt %alt
  %both = and i1x4 %all, %none
  store %z[%i], %a gate %all
  store %z[%i + 4], %b gate %all
  store %z[%i + 8], %b gate %both
)");
  EXPECT_THAT(to_text(program), Not(HasSubstr("gate")));
  EXPECT_EQ(count_ops(program, 0, Op::kLoad), 1) << to_text(program);
  EXPECT_EQ(count_ops(program, 0, Op::kStore), 2);
}

TEST(CleanLinear, AGateOfAllLanesIsAScalar) {
  const LinearProgram program = cleaned(R"(
  %first = eq i32 %i, %zero
  %mask = splat i1x4 %first
  %v = splat f32x4 %one
  store %z[%i], %v gate %mask
)");
  EXPECT_EQ(count_ops(program, 0, Op::kSplat), 0) << to_text(program);
  EXPECT_THAT(to_text(program), HasSubstr("const f32x4 1"));
}

}  // namespace
}  // namespace tenon::test
