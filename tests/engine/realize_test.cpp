// From tensor graphs to values on the CPU: expected values are computed here with plain loops.
// SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using testing::realized;
using testing::values_of;

class Realize : public EngineTest {};

/// Values that differ from each other and are exact in f32.
std::vector<float> ramp(size_t count, float scale, float start) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i) values.push_back(start + scale * static_cast<float>(i % 509));
  return values;
}

TEST_F(Realize, AddsArraysOfEverySizeAroundTheVectorWidth) {
  for (const int64_t size : {1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 127, 1000, 4099}) {
    const auto a = ramp(static_cast<size_t>(size), 0.5f, -3.0f);
    const auto b = ramp(static_cast<size_t>(size), -2.25f, 100.0f);
    const Shape shape{size};
    const Node sum = tensor_binary(Op::kAdd, buffer_of(a, shape), buffer_of(b, shape));
    RealizeStats stats;
    const auto got = realized<float>(sum, &stats);
    ASSERT_EQ(got.size(), a.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], a[i] + b[i]) << size << ", " << i;
    EXPECT_EQ(stats.kernels, 1);
  }
}

}  // namespace
}  // namespace tenon
