// Expected values worked out by hand. SPDX-License-Identifier: MIT

#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/expect_error.h"

namespace tenon::bench {
namespace {

TEST(Statistics, BestAndMedianOfAnOddNumber) {
  const std::vector<double> times{5, 1, 9, 2, 7};
  const Summary summary = summarize(times);
  EXPECT_EQ(summary.best, 1);
  EXPECT_EQ(summary.median, 5);
  EXPECT_EQ(summary.windows, 5);
}

TEST(Statistics, MedianOfAnEvenNumberIsBetweenTheMiddleTwo) {
  const std::vector<double> times{8, 2, 100, 4};
  EXPECT_EQ(summarize(times).median, 6);
  EXPECT_EQ(summarize(std::vector<double>{3}).median, 3);
}

TEST(Statistics, NoTimesAreABug) {
  EXPECT_TRUE(testing::throws_error([] { summarize({}); }, ErrorCode::kInternal, {"no times"}));
}

TEST(Statistics, GeometricMean) {
  EXPECT_DOUBLE_EQ(geometric_mean(std::vector<double>{0.5, 2}), 1);
  EXPECT_DOUBLE_EQ(geometric_mean(std::vector<double>{1, 10, 100}), 10);
  EXPECT_EQ(geometric_mean({}), 0);
}

}  // namespace
}  // namespace tenon::bench
