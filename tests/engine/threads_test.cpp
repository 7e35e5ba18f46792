// Several threads realise at once: the same graph, different ones, and assigns that must run once.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "tenon/engine/events.h"
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

/// Two kernels, others for each size: sums over rows, and what is built on them.
Node two_kernels(const Node& x) {
  const int64_t axes[] = {1};
  const Node sums = tensor_contiguous(tensor_reduce(Op::kAdd, x, axes, DType::kI32));
  return tensor_binary(Op::kSub, x, tensor_expand(sums, x.shape()));
}

TEST_F(Threads, AKernelIsCompiledByOneOfThem) {
  constexpr int kThreads = 16;
  constexpr size_t kRows = 7;
  const std::vector<size_t> widths = {13, 14, 15, 16};
  std::atomic<int64_t> compiled = 0;
  std::atomic<int64_t> lowered = 0;
  std::atomic<int> wrong = 0;
  set_event_hook(
      [&](const EngineEvent& event) { lowered += event.kind == EngineEvent::Kind::kLowered; });
  run_threads(kThreads, [&](int thread) {
    std::vector<Node> nodes;
    std::vector<std::vector<int32_t>> expected;
    for (const size_t width : widths) {
      std::vector<int32_t> values(kRows * width);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<int32_t>(i % 11) * (thread + 1) - 5;
      nodes.push_back(two_kernels(buffer_of(values, {kRows, static_cast<int64_t>(width)})));
      expected.push_back(values);
      for (size_t i = 0; i < values.size(); ++i) {
        const auto row = values.begin() + static_cast<int64_t>(i / width * width);
        expected.back()[i] -= std::accumulate(row, row + static_cast<int64_t>(width), 0);
      }
    }
    RealizeStats stats;
    realize(nodes, nullptr, &stats);
    for (size_t i = 0; i < nodes.size(); ++i)
      wrong += values_of<int32_t>(nodes[i]) != expected[i];
    wrong += stats.kernels != 8;
    compiled += stats.compiled;
  });
  set_event_hook({});
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(compiled, 8);
  EXPECT_EQ(lowered, 8);
}

TEST_F(Threads, ARealisationSeesAllAssignsOfAnotherOrNone) {
  constexpr int kBuffers = 24;
  constexpr int kRounds = 400;
  constexpr int kMost = 50000;
  std::vector<Node> buffers;
  for (int i = 0; i < kBuffers; ++i)
    buffers.push_back(buffer_of<int32_t>({0, 0, 0}, {3}));
  const auto sum_minus_copies = [&] {
    // Of all buffers less as many times the first one: 0 whenever all hold the same.
    Node sum = tensor_binary(Op::kMul, buffers[0], buffer_of<int32_t>({-23, -23, -23}, {3}));
    for (int i = 1; i < kBuffers; ++i)
      sum = tensor_binary(Op::kAdd, sum, buffers[static_cast<size_t>(i)]);
    return sum;
  };
  std::atomic<bool> is_over = false;
  std::atomic<int> wrong = 0;
  std::atomic<int> looks = 0;
  run_threads(2, [&](int thread) {
    if (thread == 0) {
      // More where the other thread has hardly begun: cores may be few.
      for (int32_t round = 1; round <= kRounds || (looks <= 10 && round <= kMost); ++round) {
        const Node value = buffer_of<int32_t>({round, 2 * round, 3 * round}, {3});
        std::vector<Node> assigns;
        for (const Node& buffer : buffers)
          assigns.push_back(tensor_assign(buffer, value));
        realize(assigns);
      }
      is_over = true;
      return;
    }
    while (!is_over) {
      wrong += realized<int32_t>(sum_minus_copies()) != std::vector<int32_t>{0, 0, 0};
      ++looks;
    }
  });
  EXPECT_EQ(wrong, 0) << "of " << looks;
  EXPECT_GT(looks, 10);
}

// Building, compiling, running and reading, on the host's device and on one with a queue.
TEST_F(Threads, EightOnTwoDevices) {
  Device* const devices[] = {&Device::get("CPU"), &Device::get("INTERP")};
  std::atomic<int> wrong = 0;
  const Node shared = buffer_of<int32_t>({1, 2, 3, 4, 5, 6}, {2, 3}, *devices[1]);
  run_threads(8, [&](int thread) {
    for (int round = 0; round < 6; ++round) {
      Device& first = *devices[static_cast<size_t>(thread + round) % 2];
      Device& second = *devices[static_cast<size_t>(round / 2) % 2];
      const int64_t size = 50 + 3 * ((thread + round) % 5);
      std::vector<int32_t> x(static_cast<size_t>(size));
      for (size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<int32_t>(i) * (thread + 3) - round;
      const Node node = buffer_of(x, {size}, first);
      const Node square = tensor_binary(Op::kMul, node, node);
      const Node there = &first == &second ? square : tensor_copy(square, second.number());
      const Node nodes[] = {tensor_binary(Op::kAdd, there, there), square,
                            tensor_binary(Op::kAdd, shared, shared)};
      std::ranges::fill(x, 0);
      realize(nodes);
      const auto got = values_of<int32_t>(nodes[0]);
      const auto squares = values_of<int32_t>(square);
      for (size_t i = 0; i < x.size(); ++i) {
        const int32_t value = static_cast<int32_t>(i) * (thread + 3) - round;
        wrong += squares[i] != value * value || got[i] != 2 * value * value;
      }
      wrong += values_of<int32_t>(nodes[2]) != std::vector<int32_t>{2, 4, 6, 8, 10, 12};
      if (round % 3 == 2) synchronize(second);
    }
  });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tenon
