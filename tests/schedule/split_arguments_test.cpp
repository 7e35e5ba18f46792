// Kernels that read more buffers than a device binds are cut into kernels that do not, and only
// those. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/schedule/schedule.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

Node input(ShapeView shape) {
  return tensor_buffer(DType::kF32, shape);
}

Node sum_of(int count, ShapeView shape) {
  Node sum = input(shape);
  for (int i = 1; i < count; ++i)
    sum = tensor_binary(Op::kAdd, sum, input(shape));
  return sum;
}

// As a tree: ((a + b) + (c + d)) + ...
Node tree_of(int count, ShapeView shape) {
  if (count == 1) return input(shape);
  return tensor_binary(Op::kAdd, tree_of(count / 2, shape), tree_of(count - count / 2, shape));
}

Schedule scheduled(const Node& output, int max_arguments) {
  ScheduleOptions options = schedule_options(vector_target());
  options.max_arguments = max_arguments;
  return schedule_graph(std::span(&output, 1), options);
}

// Each buffer that is read is given or was written by an earlier call, and the last call writes the
// output.
void check_order(const Schedule& schedule, int max_arguments) {
  std::vector<bool> is_written;
  for (const ScheduledBuffer& buffer : schedule.buffers)
    is_written.push_back(buffer.is_given);
  for (const ScheduledCall& call : schedule.calls) {
    EXPECT_LE(call.buffers.size(), static_cast<size_t>(max_arguments)) << call.kernel.name;
    for (size_t i = 1; i < call.buffers.size(); ++i)
      EXPECT_TRUE(is_written[static_cast<size_t>(call.buffers[i])]);
    is_written[static_cast<size_t>(call.buffers[0])] = true;
  }
  EXPECT_EQ(schedule.calls.back().buffers[0], schedule.outputs[0]);
}

TEST(SplitArguments, SumsOfManyNeedAsFewKernelsAsThereCanBe) {
  for (const int max_arguments : {3, 4, 5, 9}) {
    for (int count = 2; count < 40; ++count) {
      SCOPED_TRACE(concat(count, " buffers, ", max_arguments, " arguments"));
      const Schedule schedule = scheduled(sum_of(count, Shape{7}), max_arguments);
      check_order(schedule, max_arguments);
      // Each kernel takes max_arguments - 1 values and gives one.
      const int less = max_arguments - 2;
      EXPECT_EQ(schedule.calls.size(), static_cast<size_t>((count - 1 + less - 1) / less));
    }
  }
}

TEST(SplitArguments, TreesAreCutWhereTheyAreWide) {
  for (const int count : {5, 16, 31}) {
    const Schedule schedule = scheduled(tree_of(count, Shape{7}), 4);
    check_order(schedule, 4);
    EXPECT_LE(schedule.calls.size(), static_cast<size_t>(count - 1));
  }
}

TEST(SplitArguments, OthersStayAsTheyAre) {
  for (int count = 2; count < 20; ++count) {
    EXPECT_EQ(scheduled(sum_of(count, Shape{7}), count + 1).calls.size(), 1U);
    EXPECT_EQ(scheduled(sum_of(count, Shape{7}), 0).calls.size(), 1U);
  }
}

TEST(SplitArguments, ReasonsSayWhy) {
  const Schedule schedule = scheduled(sum_of(5, Shape{7}), 4);
  std::string reasons;
  for (const ScheduledBuffer& buffer : schedule.buffers)
    append(reasons, buffer.reason, "\n");
  EXPECT_NE(reasons.find("a kernel binds 4 buffers"), std::string::npos) << reasons;
}

// A value behind movement is stored as it is, not moved: one buffer for all its views.
TEST(SplitArguments, ValuesAreStoredBeforeTheyAreMoved) {
  const Node many = sum_of(3, Shape{4, 5});
  const std::vector<int64_t> turned{1, 0};
  const Node view = tensor_permute(many, turned);
  const Node more = tensor_binary(Op::kMul, view, sum_of(2, Shape{5, 4}));
  const Schedule schedule = scheduled(more, 5);
  check_order(schedule, 5);
  ASSERT_EQ(schedule.calls.size(), 2U);
  const auto stored = static_cast<size_t>(schedule.calls[0].buffers[0]);
  EXPECT_EQ(schedule.buffers[stored].shape, (Shape{4, 5}));
}

// Rows that are reduced, then used: what comes before may be cut off.
TEST(SplitArguments, RowsWithManyOperands) {
  const Shape shape{64, 100};
  const Node x = sum_of(6, shape);
  const std::vector<int64_t> axes{1};
  const Node mean = tensor_expand(
      tensor_reshape(tensor_reduce(Op::kAdd, x, axes, DType::kF32), Shape{64, 1}), shape);
  const Node scaled = tensor_binary(Op::kMul, tensor_binary(Op::kSub, x, mean), input(shape));
  EXPECT_EQ(scheduled(scaled, 0).calls.size(), 1U);
  check_order(scheduled(scaled, 4), 4);
  check_order(scheduled(scaled, 8), 8);
}

TEST(SplitArguments, AnOperationWithMoreOperandsIsRefused) {
  const Node output =
      tensor_where(tensor_buffer(DType::kBool, Shape{5}), input(Shape{5}), input(Shape{5}));
  EXPECT_EQ(scheduled(output, 4).calls.size(), 1U);
  EXPECT_ERROR(scheduled(output, 3), ErrorCode::kUnsupported, "needs 4 buffers",
               "at most 3 (max_arguments)");
}

}  // namespace
}  // namespace tenon::test
