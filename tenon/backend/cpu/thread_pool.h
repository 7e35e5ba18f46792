// The CPU's worker threads: a launch is a range of groups that workers share. Used by the CPU
// device's queues. Which worker runs a group never changes a result, only when it is ready.
// SPDX-License-Identifier: MIT

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

namespace tenon::cpu {

class GroupBody;

/// What a launch may call: never throws, and is not itself a GroupBody (which is just copied).
template <typename Body>
concept LaunchBody = !std::is_same_v<std::remove_cvref_t<Body>, GroupBody> &&
                     std::is_nothrow_invocable_v<Body&, int64_t, int64_t, int>;

/// Borrows a callable `void(int64_t begin, int64_t end, int worker) noexcept` for one launch.
class GroupBody {
 public:
  template <LaunchBody Body>
  GroupBody(Body&& body) noexcept  // NOLINT: implicit, so that a lambda is an argument as it is
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* object, int64_t begin, int64_t end, int worker) noexcept {
          (*static_cast<std::remove_reference_t<Body>*>(object))(begin, end, worker);
        }) {}

  void operator()(int64_t begin, int64_t end, int worker) const noexcept {
    call_(object_, begin, end, worker);
  }

 private:
  void* object_;
  void (*call_)(void*, int64_t, int64_t, int) noexcept;
};

/// Threads start with the first launch that can use them and sleep, after a short spin, between
/// launches. Safe from any thread: launches of several threads run one after the other.
class ThreadPool {
 public:
  /// `num_workers` counts the calling thread; 0 is the setting TENON_THREADS, and without it one
  /// for each core that this process may use.
  explicit ThreadPool(int num_workers = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_workers() const { return num_workers_; }

  /// Calls `body` until it has had each group of [0, groups) exactly once, and returns when all
  /// calls are over; their writes are visible then. `worker` is in [0, num_workers) and no two
  /// calls of one launch run at once with the same one (calls of different launches may). Each
  /// worker starts with a home range that depends on `groups` alone and, when that is done,
  /// takes from the far end of others'. One group, or a launch from inside a body, runs on the
  /// calling thread. Denormals are kept whatever the calling thread's floating-point mode.
  /// Throws kDeviceFailed in a process that was forked after the threads had started.
  void run(int64_t groups, GroupBody body);

  /// The pool of the process, made on first use and never destroyed.
  static ThreadPool& shared();

 private:
  struct Shared;

  void start_helpers();
  bool is_forked() const;

  int num_workers_;
  std::mutex launch_mutex_;          // held during a launch that uses helpers
  std::unique_ptr<Shared> shared_;   // what helpers see
  std::atomic<int64_t> start_fork_;  // fork count when helpers started; -1: not yet
};

}  // namespace tenon::cpu
