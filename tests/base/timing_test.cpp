// The clock goes forward and the timer adds. No times are asserted.
// SPDX-License-Identifier: MIT
#include "tenon/base/timing.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

TEST(Timing, TheClockNeverGoesBack) {
  int64_t last = now_ns();
  for (int i = 0; i < 1000; ++i) {
    const int64_t next = now_ns();
    ASSERT_GE(next, last);
    last = next;
  }
}

TEST(Timing, ScopedTimerAddsToWhatWasThere) {
  int64_t total = 5;
  const int64_t outer_start = now_ns();
  {
    const ScopedTimer timer(total);
    const int64_t start = now_ns();
    while (now_ns() == start) {
    }
  }
  const int64_t outer = now_ns() - outer_start;
  EXPECT_GT(total, 5);
  EXPECT_LE(total - 5, outer);
}

}  // namespace
}  // namespace tenon
