// Shapes that are drawn must be the same for everyone who knows the digits: expected values are
// those of a program in Python, and of splitmix64's published test. SPDX-License-Identifier: MIT

#include "bench/draw.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tenon::bench {
namespace {

TEST(Draw, NumbersAreThoseOfSplitmix64) {
  uint64_t state = 1234567;
  EXPECT_EQ(next_random(state), 6457827717110365317U);
  EXPECT_EQ(next_random(state), 3203168211198807973U);
  EXPECT_EQ(next_random(state), 9817491932198370423U);
}

TEST(Draw, ShapesOfDeadbeef) {
  const std::vector<MatmulShape> expected = {
      {11, 1372, 1},  {44, 7, 260},  {19, 336, 1},   {4, 1557, 3538}, {2, 848, 2969},
      {9, 2, 128},    {611, 2, 118}, {1455, 15, 20}, {494, 10, 65},   {19, 9, 5},
      {11, 428, 10},  {636, 1, 5},   {3, 83, 86},    {283, 74, 2948}, {3, 3212, 682},
      {469, 58, 294}, {8, 5, 377},   {65, 150, 578}, {60, 5, 2130},   {74, 673, 2602}};
  EXPECT_EQ(drawn_shapes(draw_seed("deadbeef")), expected);
}

TEST(Draw, SizesAreLogUniform) {
  // As many below 64 as above, none outside of 1 to 4096.
  int num_small = 0;
  for (const MatmulShape& shape : drawn_shapes(7, 4000)) {
    for (const int64_t size : {shape.m, shape.n, shape.k}) {
      ASSERT_GE(size, 1);
      ASSERT_LE(size, kLargestDrawn);
      num_small += size < 64 ? 1 : 0;
    }
  }
  EXPECT_NEAR(num_small, 6000, 300);  // five standard deviations: 274
}

TEST(Draw, OnlyTheFirstEightDigitsCount) {
  EXPECT_EQ(draw_seed("0123abcd"), 0x0123abcdU);
  EXPECT_EQ(draw_seed("0123ABCDffffffff"), 0x0123abcdU);
}

TEST(Draw, RefusesWhatIsNoHash) {
  for (const char* text :
       {"", "123", "0123abc", "0123abcg", "0x123abc", "-123abcd", "hello, all"}) {
    EXPECT_TRUE(testing::throws_error([&] { draw_seed(text); }, ErrorCode::kInvalidArgument,
                                      {"8 hex digits", text}))
        << text;
  }
}

}  // namespace
}  // namespace tenon::bench
