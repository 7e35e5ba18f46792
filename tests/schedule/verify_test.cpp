// A graph that is not sound is reported where it enters the compiler, if TENON_VERIFY_IR is on.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/settings.h"
#include "tenon/schedule/schedule.h"
#include "tests/support/expect_error.h"

namespace tenon::test {
namespace {

TEST(ScheduleVerify, BrokenGraphsAreReported) {
  const int64_t shape[] = {4, 6};
  const int64_t wrong_shape[] = {4, 5};
  const Node x = tensor_buffer(DType::kF32, shape);
  const std::vector<Node> srcs{x, x};
  const Node broken = make_node(Op::kAdd, DType::kF32, wrong_shape, srcs, {});
  const Node output = tensor_unary(Op::kSqrt, broken);
  const std::span<const Node> outputs(&output, 1);
  const ScopedSetting verify(Setting::kVerifyIr, "1");
  EXPECT_ERROR(schedule_graph(outputs, {}), ErrorCode::kInternal, "schedule", "(add)", "(4,5)",
               "its builder gives", "(4,6)");
  // Nothing below a value that is in memory already is looked at.
  const auto is_sqrt = [](const Node& node) { return node.op() == Op::kSqrt; };
  const Node user = tensor_binary(Op::kMul, output, output);
  EXPECT_EQ(schedule_graph({&user, 1}, {.is_known = is_sqrt}).calls.size(), 1U);
  const ScopedSetting no_verify(Setting::kVerifyIr, "0");
  EXPECT_NO_THROW(schedule_graph(outputs, {}));
}

}  // namespace
}  // namespace tenon::test
