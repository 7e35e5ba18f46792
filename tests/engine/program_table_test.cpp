// The bounded table of loaded programs and who makes one that several ask for.
// SPDX-License-Identifier: MIT

#include "tenon/engine/program_table.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tenon/base/text.h"
#include "tenon/engine/program_store.h"
#include "tenon/schedule/schedule.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using testing::values_of;

class Programs : public EngineTest {};

/// x + y over `sizes` elements, one kernel for each size.
Schedule schedule_of(Device& device, const std::vector<int64_t>& sizes) {
  std::vector<Node> sums;
  for (const int64_t size : sizes) {
    const std::vector<int32_t> values(static_cast<size_t>(size), 3);
    const Node x = buffer_of(values, {size}, device);
    sums.push_back(tensor_binary(Op::kAdd, x, x));
  }
  return schedule_graph(sums, {});
}

std::vector<const Kernel*> kernels_of(const Schedule& schedule) {
  std::vector<const Kernel*> kernels;
  for (const ScheduledCall& call : schedule.calls)
    kernels.push_back(&call.kernel);
  return kernels;
}

std::vector<int64_t> sizes_from(int64_t first, int64_t count) {
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < count; ++i)
    sizes.push_back(first + i);
  return sizes;
}

TEST_F(Programs, WhatWasUsedLongestAgoIsDropped) {
  const auto device = make_device(2);
  const Schedule schedule = schedule_of(*device, {3, 4, 5});
  const auto kernels = kernels_of(schedule);
  const ScopedSetting no_cache(Setting::kCache, "0");
  const auto num_compiled = [&](size_t number) {
    RealizeStats stats;
    find_programs(*device, {&kernels[number], 1}, stats);
    EXPECT_LE(device->programs().size(), 2u);
    return stats.compiled;
  };
  EXPECT_EQ(num_compiled(0), 1);
  EXPECT_EQ(num_compiled(1), 1);
  EXPECT_EQ(num_compiled(0), 0);
  EXPECT_EQ(num_compiled(2), 1);  // 1 is dropped
  EXPECT_EQ(num_compiled(0), 0);
  EXPECT_EQ(num_compiled(1), 1);  // 2 is dropped
  EXPECT_EQ(num_compiled(2), 1);
}

TEST_F(Programs, ARealisationOfMoreProgramsThanAreKeptIsRight) {
  const auto device = make_device(2);
  std::vector<Node> nodes;
  for (const int64_t size : sizes_from(2, 6)) {
    const std::vector<int32_t> values(static_cast<size_t>(size), static_cast<int32_t>(size));
    const Node x = buffer_of(values, {size}, *device);
    nodes.push_back(tensor_binary(Op::kMul, x, x));
  }
  RealizeStats stats;
  realize(nodes, nullptr, &stats);
  EXPECT_EQ(stats.kernels, 6);
  EXPECT_EQ(device->programs().size(), 2u);
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto size = static_cast<int32_t>(i) + 2;
    EXPECT_EQ(values_of<int32_t>(nodes[i]),
              std::vector<int32_t>(static_cast<size_t>(size), size * size));
  }
}

TEST_F(Programs, OverlappingSetsAreCompiledOnceAndNobodyWaitsForEver) {
  constexpr int kThreads = 8;
  const auto device = make_device();
  const Schedule schedule = schedule_of(*device, sizes_from(3, 10));
  const std::vector<const Kernel*> kernels = kernels_of(schedule);
  std::atomic<int64_t> compiled = 0;
  std::atomic<int> missing = 0;
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      // Four of them from a place of its own, some backwards.
      std::vector<const Kernel*> wanted;
      for (size_t i = 0; i < 4; ++i)
        wanted.push_back(kernels[(thread + (thread % 2 == 0 ? i : 4 - i)) % kernels.size()]);
      RealizeStats stats;
      for (const ProgramPtr& program : find_programs(*device, wanted, stats))
        missing += program == nullptr;
      compiled += stats.compiled;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(missing, 0);
  EXPECT_EQ(compiled, static_cast<int64_t>(device->programs().size()));
}

TEST_F(Programs, EachThreadThatWaitsForAFailureGetsAnError) {
  const std::string broken = folder_ / "clang";
  std::ofstream(broken) << "#!/bin/sh\n[ \"$1\" = --version ] && echo 'clang version 22.1.0' && "
                           "exit 0\nsleep 0.1\nexit 3\n";
  chmod(broken.c_str(), 0755);
  Device::get("CPU:CLANG");  // the device of all tests keeps the compiler that it was opened with
  const ScopedSetting clang(Setting::kClang, broken);
  const auto device = make_device(kMaxLoadedPrograms, "CPU:CLANG");
  const Schedule schedule = schedule_of(*device, {11});
  const std::vector<const Kernel*> kernels = kernels_of(schedule);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      RealizeStats stats;
      EXPECT_ERROR(find_programs(*device, kernels, stats), ErrorCode::kCompileFailed, "exit 3");
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(device->programs().size(), 0u);
}

TEST_F(Programs, WithoutMoreThreadsOneCompilesAll) {
  const auto device = make_device();
  const Schedule schedule = schedule_of(*device, sizes_from(20, 40));
  pthread_attr_t before;
  pthread_attr_t huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);  // no thread gets so much
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  RealizeStats stats;
  std::vector<ProgramPtr> programs;
  EXPECT_THROW(std::thread([] {}).join(), std::system_error);
  try {
    programs = find_programs(*device, kernels_of(schedule), stats);
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  pthread_setattr_default_np(&before);
  EXPECT_EQ(stats.compiled, 40);
  EXPECT_EQ(programs.size(), 40u);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&before);
}

/// Kernels are cut for the device that binds least, whichever comes first.
TEST_F(Programs, EachDeviceBindsAsManyBuffersAsItCan) {
  EngineDevice& large = engine_device(Device::get("CPU"));
  Target target = large.target();
  target.max_arguments = 3;
  EngineDevice small("small", 98, large.renderer(), large.lowering_rules(), target,
                     large.renderer().make_compiler(target), find_backend("CPU")->open(0, target));
  const auto sum_of = [](Device& device, int count) {
    Node sum = buffer_of<int32_t>({1, 2}, {2}, device);
    for (int i = 1; i < count; ++i)
      sum = tensor_binary(Op::kAdd, sum, buffer_of<int32_t>({10 * i, 20 * i}, {2}, device));
    return sum;
  };
  const Node sums[] = {sum_of(small, 2), sum_of(large, 4), sum_of(small, 5)};
  RealizeStats stats;
  realize(sums, nullptr, &stats);
  EXPECT_EQ(stats.kernels, 1 + 3 + 4);
  EXPECT_EQ(values_of<int32_t>(sums[0]), (std::vector<int32_t>{11, 22}));
  EXPECT_EQ(values_of<int32_t>(sums[1]), (std::vector<int32_t>{61, 122}));
  EXPECT_EQ(values_of<int32_t>(sums[2]), (std::vector<int32_t>{101, 202}));
  const Node alone = sum_of(large, 5);
  realize(std::span(&alone, 1), nullptr, &stats);
  EXPECT_EQ(stats.kernels, 1 + 3 + 4 + 1);
  const Node x = buffer_of<int32_t>({1, 2}, {2}, small);
  const Node y = buffer_of<int32_t>({3, 4}, {2}, small);
  const Node condition = tensor_binary(Op::kLt, x, buffer_of<int32_t>({5, 6}, {2}, small));
  const Node too_many[] = {tensor_where(condition, x, y)};
  EXPECT_ERROR(realize(too_many), ErrorCode::kUnsupported, "needs 4 buffers");
}

}  // namespace
}  // namespace tenon
