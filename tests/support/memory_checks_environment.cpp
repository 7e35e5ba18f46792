// Poisoned outputs and guard zones during the whole of a test program: every program whose tests
// compare values lists this file among its sources. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/engine/memory_checks.h"

namespace tenon {
namespace {

// No test may end with fewer checks than it began with.
class MemoryChecksEnvironment final : public ::testing::Environment {
 public:
  void TearDown() override {
    EXPECT_TRUE(memory_checks().poison_outputs);
    EXPECT_EQ(memory_checks().guard_bytes, kAllMemoryChecks.guard_bytes);
  }

 private:
  const ScopedMemoryChecks checks_;  // from before main, for what tests compute before they start
};

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): GoogleTest owns it
::testing::Environment* const environment =
    ::testing::AddGlobalTestEnvironment(new MemoryChecksEnvironment);

}  // namespace
}  // namespace tenon
