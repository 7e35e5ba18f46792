// Several threads realise at once: the same graph, different ones, and assigns that must run once.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/engine/engine_support.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using testing::realized;
using testing::values_of;

class Threads : public EngineTest {};

void run_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < count; ++thread)
    threads.emplace_back(body, thread);
  for (std::thread& thread : threads)
    thread.join();
}

TEST_F(Threads, DifferentGraphs) {
  std::atomic<int> wrong = 0;
  run_threads(4, [&](int thread) {
    for (int round = 0; round < 5; ++round) {
      const int64_t size = 100 + 7 * round;  // the threads share kernels, not nodes
      std::vector<int32_t> x(static_cast<size_t>(size));
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<int32_t>(i) * (thread + 3);
      const Node node = buffer_of(x, {size});
      const auto got = realized<int32_t>(tensor_binary(Op::kMul, node, node));
      for (size_t i = 0; i < x.size(); ++i)
        wrong += got[i] != x[i] * x[i];
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(Threads, OneGraph) {
  std::vector<int32_t> x(5000);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<int32_t>(i) - 2500;
  const Node node = buffer_of(x, {5000});
  const int64_t axes[] = {0};
  const Node product = tensor_contiguous(tensor_binary(Op::kMul, node, node));
  const Node sum = tensor_reduce(Op::kAdd, product, axes, DType::kI32);
  uint32_t sum_of_squares = 0;  // wraps, as int32 does on devices
  for (const int32_t value : x)
    sum_of_squares += static_cast<uint32_t>(value * value);
  const auto expected = static_cast<int32_t>(sum_of_squares);
  std::atomic<int> wrong = 0;
  run_threads(4, [&](int thread) {
    // Some want the intermediate as well, so that it may get its value in the middle of others.
    const Node nodes[] = {thread % 2 == 0 ? sum : product, sum};
    realize(nodes);
    wrong += values_of<int32_t>(sum)[0] != expected;
  });
  EXPECT_EQ(wrong, 0);
}

TEST_F(Threads, AnAssignRunsOnce) {
  for (int round = 0; round < 10; ++round) {
    const Node x = buffer_of<int32_t>({1, 2, 3}, {3});
    const Node one = buffer_of<int32_t>({1, 1, 1}, {3});
    const Node assigned = tensor_assign(x, tensor_binary(Op::kAdd, x, one));
    run_threads(4, [&](int) {
      const Node nodes[] = {assigned};
      realize(nodes);
    });
    ASSERT_EQ(values_of<int32_t>(x), (std::vector<int32_t>{2, 3, 4}));
  }
}

}  // namespace
}  // namespace tenon
