// The machine's limits, measured by small loops of our own beside whatever is compared with them:
// peak multiply-adds, read bandwidth, both copy bandwidths. They are not behind any tensor op.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tenon::bench {

enum class LimitKind : uint8_t { kNone, kFmaF32, kDotBf16, kDotI8, kRead, kCopy };

/// One probe; the best of those of a kind is the limit.
struct Probe {
  std::string name;              ///< "f32 FMA AVX-512F", "copy NT"
  double work = 0;               ///< of one run: flops, or bytes (a copy: read and written)
  std::function<int64_t()> run;  ///< returns the nanoseconds that it took
};

/// The probes of a kind on `num_threads` threads, each run about a millisecond or one pass over
/// memory: `size_bytes` are read (kRead), or copied (kCopy). Empty where the CPU has no such unit.
std::vector<Probe> make_probes(LimitKind kind, int num_threads, int64_t size_bytes);

/// Only writes, non-temporal, `size_bytes` per thread.
Probe make_store_probe(int num_threads, int64_t size_bytes);

/// Calls `body(thread)` on threads that start together; the nanoseconds from their start to the end
/// of the last. The calling thread is number 0.
int64_t time_on_threads(int num_threads, const std::function<void(int)>& body);

/// Nanoseconds for one cache line to go from one thread to another and back, the best of several
/// batches: about 70 where two cores share an L3, about 300 where they do not (Zen 4).
double ping_pong_ns();

}  // namespace tenon::bench
