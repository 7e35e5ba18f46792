// Time: the monotonic clock in nanoseconds and a timer that adds into a counter.
// Used for the timings that `tenon bench` and profiling print; no test asserts one.
// SPDX-License-Identifier: MIT
#pragma once

#include <chrono>
#include <cstdint>

namespace tenon {

/// Nanoseconds of a clock that never goes backwards; only differences mean something.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Adds the time it lived to a total that outlives it. Not for a total shared by threads.
class ScopedTimer {
 public:
  explicit ScopedTimer(int64_t& total_ns) : total_ns_(total_ns), start_ns_(now_ns()) {}
  ~ScopedTimer() { total_ns_ += now_ns() - start_ns_; }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  int64_t& total_ns_;
  int64_t start_ns_;
};

}  // namespace tenon
