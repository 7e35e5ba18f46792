// Long reductions to few results are cut into pieces that follow from the shape; others stay whole.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/schedule/schedule.h"
#include "tests/support/row_graphs.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

using testing::named_row_graphs;

Node input(ShapeView shape) {
  return tensor_buffer(DType::kF32, shape);
}

Node reduced(const Node& x, std::vector<int64_t> axes) {
  return tensor_reduce(Op::kAdd, x, axes, DType::kF32);
}

Schedule scheduled(const Node& output, int threads = 2) {
  ScheduleOptions options = schedule_options(vector_target());
  options.threads = threads;
  return schedule_graph(std::span(&output, 1), options);
}

std::string text_of(const Schedule& schedule) {
  std::string text;
  for (const ScheduledCall& call : schedule.calls)
    text += to_text(call.kernel);
  return text;
}

int64_t num_results(const Schedule& schedule, size_t call) {
  const auto number = static_cast<size_t>(schedule.calls.at(call).buffers[0]);
  return num_elements(schedule.buffers[number].shape);
}

struct Long {
  Shape shape;
  std::vector<int64_t> axes;
};

const Long kLong[] = {{{1 << 26}, {0}},         {{300007}, {0}},
                      {{8192, 8192}, {0, 1}},   {{2, 1 << 20}, {0, 1}},
                      {{3, 1 << 18}, {1}},      {{1 << 20, 64}, {0}},
                      {{1 << 20, 3}, {0}},      {{100, 7, 1000, 5}, {0, 2}},
                      {{1, 1 << 20, 1, 1}, {1}}};

TEST(SplitReductions, LongOnesAreTwoKernels) {
  for (const auto& [shape, axes] : kLong) {
    SCOPED_TRACE(format_shape(shape));
    const Node sum = reduced(input(shape), axes);
    const Schedule schedule = scheduled(sum);
    ASSERT_EQ(schedule.calls.size(), 2U) << text_of(schedule);
    // Some for each thread, of at least some pages each.
    const int64_t results = num_elements(sum.shape());
    EXPECT_GE(num_results(schedule, 0) / results, 4);
    EXPECT_LE(num_results(schedule, 0), num_elements(shape) / 128);
    // The result is the node that was asked for.
    const auto output = static_cast<size_t>(schedule.outputs[0]);
    EXPECT_EQ(schedule.buffers[output].node, sum);
    EXPECT_TRUE(schedule.buffers[output].is_output);
  }
}

TEST(SplitReductions, PiecesAreTheSameForUpTo16Threads) {
  for (const auto& [shape, axes] : kLong) {
    SCOPED_TRACE(format_shape(shape));
    const Node sum = reduced(input(shape), axes);
    const Schedule one = scheduled(sum, 1);
    for (const int threads : {2, 7, 16})
      EXPECT_EQ(text_of(scheduled(sum, threads)), text_of(one)) << threads;
    const bool is_column = shape.back() == 64;
    if (num_elements(shape) < 1 << 26 || is_column) continue;
    EXPECT_GE(num_results(scheduled(sum, 64), 0), 4 * num_results(one, 0));
  }
}

TEST(SplitReductions, OthersStayWhole) {
  const Long whole[] = {{{1 << 17}, {0}},          {{4096, 4096}, {1}}, {{4096, 8192}, {0}},
                        {{64, 1 << 16}, {1}},      {{1, 1 << 20}, {0}}, {{1 << 20, 0}, {0}},
                        {{1 << 12, 3, 4096}, {0}}, {{0, 5}, {0}}};
  for (const auto& [shape, axes] : whole) {
    SCOPED_TRACE(format_shape(shape));
    const Schedule schedule = scheduled(reduced(input(shape), axes));
    EXPECT_LE(schedule.calls.size(), 1U) << text_of(schedule);
  }
}

// A few long rows that are read back fit the group's memory: their kernel keeps them.
TEST(SplitReductions, RowsThatAreUsedStayInTheirKernel) {
  const Schedule schedule = scheduled(named_row_graphs(input, 8, 1 << 16)[0].node);
  EXPECT_EQ(schedule.calls.size(), 1U) << text_of(schedule);
}

// What comes before and after stays with the pieces and with the small reduction.
TEST(SplitReductions, ElementwiseOpsAreFused) {
  const Node x = input(Shape{1 << 20});
  const Node y = tensor_unary(Op::kSqrt, reduced(tensor_binary(Op::kMul, x, x), {0}));
  const Schedule schedule = scheduled(y);
  EXPECT_EQ(schedule.calls.size(), 2U) << text_of(schedule);
}

}  // namespace
}  // namespace tenon::test
