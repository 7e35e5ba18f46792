// The round trip of `tenon devices` finds what a first driver gets wrong (small_device.cpp).
// SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run_tenon.h"

namespace tenon {
namespace {

using ::testing::ContainsRegex;
using testing::run_tenon;

TEST(RoundTrip, TheRightDevicePassesAndNoneWithAFault) {
  const testing::TenonResult result = run_tenon({"devices"}, {{"DEV", "SMALL"}});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, ContainsRegex("round trip: INTERP:0:[^\n]*: all right\n"));
  EXPECT_THAT(result.out, ContainsRegex("round trip: SMALL:0:[^\n]*: all right\n"));
  for (const std::string name : {"KEEPS_POINTER", "MISSES_COPY", "MISSES_WAIT"}) {
    EXPECT_THAT(result.out, ContainsRegex("round trip: " + name +
                                          ":0:[^\n]*: 1000 of 1000 elements are wrong"));
  }
}

}  // namespace
}  // namespace tenon
