// The pool gives each group to exactly one call, whatever the number of workers and callers.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "tenon/backend/cpu/cpu_features.h"
#include "tenon/base/settings.h"
#include "tests/support/expect_error.h"

namespace tenon::cpu {
namespace {

class ThreadPoolWorkers : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, ThreadPoolWorkers, ::testing::Values(1, 2, 3, 8),
                         ::testing::PrintToStringParamName());

TEST_P(ThreadPoolWorkers, EveryGroupRunsOnce) {
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.num_workers(), GetParam());
  for (const int64_t groups : {0, 1, 2, 3, 7, 8, 9, 64, 1000, 4096}) {
    std::vector<int> runs(static_cast<size_t>(groups), 0);  // plain: tsan would see a double run
    pool.run(groups, [&](int64_t begin, int64_t end, int) noexcept {
      for (int64_t group = begin; group < end; ++group)
        ++runs[static_cast<size_t>(group)];
    });
    for (size_t group = 0; group < runs.size(); ++group)
      ASSERT_EQ(runs[group], 1) << group;
  }
}

TEST_P(ThreadPoolWorkers, SumsPerWorkerAreExactOverManyLaunches) {
  ThreadPool pool(GetParam());
  const int64_t groups = 100;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> sums(static_cast<size_t>(pool.num_workers()), 0);
    pool.run(groups, [&](int64_t begin, int64_t end, int worker) noexcept {
      for (int64_t group = begin; group < end; ++group)
        sums[static_cast<size_t>(worker)] += group;
    });
    int64_t total = 0;
    for (const int64_t sum : sums)
      total += sum;
    ASSERT_EQ(total, groups * (groups - 1) / 2) << round;
  }
}

TEST_P(ThreadPoolWorkers, HugeRangesAreCoveredWithoutGaps) {
  ThreadPool pool(GetParam());
  for (const int64_t groups : {(int64_t{1} << 31) + 5, (int64_t{1} << 40) + 12345,
                               std::numeric_limits<int64_t>::max() / 2}) {
    std::atomic<uint64_t> covered = 0;
    std::atomic<bool> in_range = true;
    pool.run(groups, [&](int64_t begin, int64_t end, int) noexcept {
      if (begin < 0 || begin >= end || end > groups) in_range = false;
      covered += static_cast<uint64_t>(end - begin);
    });
    EXPECT_TRUE(in_range);
    EXPECT_EQ(covered, static_cast<uint64_t>(groups));
  }
}

TEST_P(ThreadPoolWorkers, NestedLaunchesRunInline) {
  ThreadPool pool(GetParam());
  std::atomic<int64_t> total = 0;
  std::atomic<bool> same_thread = true;
  pool.run(20, [&](int64_t begin, int64_t end, int) noexcept {
    const std::thread::id outer = std::this_thread::get_id();
    for (int64_t group = begin; group < end; ++group) {
      pool.run(30, [&](int64_t inner_begin, int64_t inner_end, int) noexcept {
        if (end - begin < 20 && std::this_thread::get_id() != outer) same_thread = false;
        total += inner_end - inner_begin;
      });
    }
  });
  EXPECT_EQ(total, 600);
  EXPECT_TRUE(same_thread);
}

TEST_P(ThreadPoolWorkers, SeveralCallersAtOnce) {
  ThreadPool pool(GetParam());
  std::vector<std::thread> callers;
  std::atomic<int> right = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 200; ++round) {
        const int64_t groups = 1 + (round * 7 + caller) % 50;
        std::vector<int> runs(static_cast<size_t>(groups), 0);
        pool.run(groups, [&](int64_t begin, int64_t end, int) noexcept {
          for (int64_t group = begin; group < end; ++group)
            ++runs[static_cast<size_t>(group)];
        });
        bool is_right = true;
        for (const int count : runs)
          is_right = is_right && count == 1;
        right += is_right ? 1 : 0;
      }
    });
  }
  for (std::thread& caller : callers)
    caller.join();
  EXPECT_EQ(right, 800);
}

TEST(ThreadPool, WorkersShareALaunch) {
  // Each of two groups waits for the other: done only if two threads run them at once.
  ThreadPool pool(2);
  std::atomic<int> arrived = 0;
  pool.run(2, [&](int64_t begin, int64_t end, int) noexcept {
    for (int64_t group = begin; group < end; ++group) {
      ++arrived;
      while (arrived < 2)
        std::this_thread::yield();
    }
  });
  EXPECT_EQ(arrived, 2);
}

TEST(ThreadPool, AnIdleWorkerStealsFromABusyOne) {
  // Worker 0's first group waits until all others have run: others must take its home range.
  ThreadPool pool(2);
  constexpr int64_t kGroups = 64;
  std::atomic<int64_t> others = 0;
  pool.run(kGroups, [&](int64_t begin, int64_t end, int) noexcept {
    for (int64_t group = begin; group < end; ++group) {
      if (group != 0) {
        ++others;
        continue;
      }
      // Groups in this very call cannot be stolen any more.
      while (others < kGroups - (end - begin))
        std::this_thread::yield();
    }
  });
  EXPECT_EQ(others, kGroups - 1);
}

TEST(ThreadPool, HomeRangesAreTheSameInEveryLaunch) {
  // Nobody steals before all have had a part of their own range.
  constexpr int kWorkers = 3;
  ThreadPool pool(kWorkers);
  std::array<std::thread::id, kWorkers> threads;
  for (int launch = 0; launch < 5; ++launch) {
    std::array<int64_t, kWorkers> first;
    first.fill(-1);
    std::atomic<int> arrived = 0;
    pool.run(60, [&](int64_t begin, int64_t, int worker) noexcept {
      const auto number = static_cast<size_t>(worker);
      if (first[number] >= 0) return;
      first[number] = begin;
      if (launch == 0) threads[number] = std::this_thread::get_id();
      EXPECT_EQ(threads[number], std::this_thread::get_id());
      ++arrived;
      while (arrived < kWorkers)
        std::this_thread::yield();
    });
    EXPECT_EQ(first, (std::array<int64_t, kWorkers>{0, 20, 40})) << launch;
  }
}

double process_cpu_ms() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

// As many workers as there are cores spin for 40 us and then sleep; one more, and they never spin.
TEST(ThreadPool, IdleWorkersSleep) {
  for (const int workers : {std::max(2, num_available_cores()), num_available_cores() + 1}) {
    ThreadPool pool(workers);
    // All threads are up and in the launch.
    std::atomic<int> arrived = 0;
    pool.run(workers, [&](int64_t begin, int64_t end, int) noexcept {
      arrived += static_cast<int>(end - begin);
      while (arrived < workers)
        std::this_thread::yield();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const double before = process_cpu_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_LT(process_cpu_ms() - before, 20) << workers << " workers";
  }
}

cpu_set_t affinity_of_this_thread() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  EXPECT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  return cores;
}

/// A launch that both workers of `pool` take part in; `body` is called with the worker's number.
template <typename Body>
void run_on_both(ThreadPool& pool, Body body) {
  std::atomic<int> arrived = 0;
  pool.run(2, [&](int64_t begin, int64_t end, int worker) noexcept {
    arrived += static_cast<int>(end - begin);
    while (arrived < 2)
      std::this_thread::yield();
    body(worker);
  });
}

// A helper that Linux left on its caller's core took turns with it, launch after launch.
TEST(ThreadPool, AHelperLeavesItsCallersCore) {
  const cpu_set_t before = affinity_of_this_thread();
  if (CPU_COUNT(&before) < 2)
    GTEST_SKIP() << "this process may use one core only: no other to go to";
  ThreadPool pool(2);
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &here);
  ASSERT_EQ(sched_setaffinity(0, sizeof here, &here), 0);
  int apart = 0;
  constexpr int kRounds = 40;
  for (int round = 0; round < kRounds; ++round) {
    std::array<int, 2> cores{};
    std::array<cpu_set_t, 2> sets{};
    // Onto the caller's core, from where it may go.
    run_on_both(pool, [&](int worker) {
      if (worker == 0) return;
      sched_setaffinity(0, sizeof here, &here);
      sched_setaffinity(0, sizeof before, &before);
    });
    run_on_both(pool, [&](int worker) {
      cores.at(static_cast<size_t>(worker)) = sched_getcpu();
      sched_getaffinity(0, sizeof(cpu_set_t), &sets.at(static_cast<size_t>(worker)));
    });
    apart += cores[0] != cores[1] ? 1 : 0;
    EXPECT_TRUE(CPU_EQUAL(&sets[1], &before)) << "a helper keeps its affinity";
  }
  EXPECT_GE(apart, kRounds / 2);  // the scheduler may bring one back; 0 without the move

  // One that may go nowhere else works all the same.
  run_on_both(pool, [&](int worker) {
    if (worker == 1) sched_setaffinity(0, sizeof here, &here);
  });
  std::atomic<int> calls = 0;
  run_on_both(pool, [&](int) { ++calls; });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(ThreadPool, OneGroupRunsOnTheCaller) {
  ThreadPool pool(4);
  std::thread::id thread;
  pool.run(1, [&](int64_t, int64_t, int worker) noexcept {
    EXPECT_EQ(worker, 0);
    thread = std::this_thread::get_id();
  });
  EXPECT_EQ(thread, std::this_thread::get_id());
}

TEST(ThreadPool, DefaultIsTheSettingThenTheCores) {
  EXPECT_EQ(ThreadPool(0).num_workers(), setting_int(Setting::kThreads) > 0
                                             ? setting_int(Setting::kThreads)
                                             : num_available_cores());
  const ScopedSetting three(Setting::kThreads, "3");
  EXPECT_EQ(ThreadPool(0).num_workers(), 3);
  const ScopedSetting many(Setting::kThreads, "99999999999");
  EXPECT_ERROR(ThreadPool(0), ErrorCode::kInvalidArgument, "TENON_THREADS", "4096");
  EXPECT_ERROR(ThreadPool(-1), ErrorCode::kInvalidArgument, "workers is -1");
}

TEST(ThreadPool, DenormalsAreKeptWhateverTheCallersMode) {
  ThreadPool pool(2);
  constexpr unsigned kFlushToZero = 0x8040;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kFlushToZero);
  std::atomic<int> flushed = 0;
  for (const int64_t groups : {1, 16}) {
    pool.run(groups, [&](int64_t, int64_t, int) noexcept {
      if ((_mm_getcsr() & kFlushToZero) != 0) ++flushed;
    });
  }
  EXPECT_EQ(_mm_getcsr() & kFlushToZero, kFlushToZero);  // the caller's own is back
  _mm_setcsr(before);
  EXPECT_EQ(flushed, 0);
}

TEST(ThreadPool, HelpersTakeNoSignalsOfTheHost) {
  ThreadPool pool(2);
  std::atomic<bool> blocks_usr1 = false;
  std::atomic<int> arrived = 0;
  pool.run(2, [&](int64_t begin, int64_t end, int worker) noexcept {
    if (worker == 1) {
      sigset_t mask;
      pthread_sigmask(SIG_SETMASK, nullptr, &mask);
      blocks_usr1 = sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGSEGV) == 0;
    }
    arrived += static_cast<int>(end - begin);
    while (arrived < 2)
      std::this_thread::yield();
  });
  EXPECT_TRUE(blocks_usr1);
}

/// Runs `body` in a forked child and returns its exit code; a hang is cut off by an alarm.
template <typename Body>
int run_forked(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

TEST(ThreadPool, AForkedChildGetsAnErrorAndNoHang) {
  auto pool = std::make_unique<ThreadPool>(3);
  const auto nothing = [](int64_t, int64_t, int) noexcept {};
  // All threads are up: one that starts while the process forks may hold the lock of a sanitizer's
  // allocator, and the child would wait for it.
  std::atomic<int> arrived = 0;
  pool->run(3, [&](int64_t begin, int64_t end, int) noexcept {
    for (int64_t group = begin; group < end; ++group) {
      ++arrived;
      while (arrived < 3)
        std::this_thread::yield();
    }
  });
  const int code = run_forked([&] {
    int result = 1;
    try {
      pool->run(100, nothing);
    } catch (const Error& error) {
      result = error.code() == ErrorCode::kDeviceFailed ? 42 : 2;
    }
    pool.reset();  // must not wait for threads that the child does not have
    return result;
  });
  EXPECT_EQ(code, 42);
  pool->run(100, nothing);  // the parent is as before
}

TEST(ThreadPool, APoolWithoutThreadsSurvivesAFork) {
  ThreadPool pool(1);
  EXPECT_EQ(run_forked([&] {
              int count = 0;
              pool.run(5, [&](int64_t begin, int64_t end, int) noexcept {
                count += static_cast<int>(end - begin);
              });
              return count;
            }),
            5);
}

}  // namespace
}  // namespace tenon::cpu
