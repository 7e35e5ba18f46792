// What the benchmark asks of other libraries. Each peer is a shared object of its own, loaded only
// by `tenon bench`, so that nothing else in Tenon meets it or its threads. Plain data and std types
// only: both sides are compiled by one compiler. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tenon/types/dtype.h"

namespace tenon::bench {

enum class JobKind : uint8_t { kNone, kMatmul, kSoftmax, kLayernorm, kConv, kTranspose };

/// One computation over arrays in host memory, row-major and dense. Fields that a kind does not
/// name are not read.
struct Job {
  JobKind kind = JobKind::kNone;
  DType dtype = DType::kF32;      ///< of the inputs
  DType out_dtype = DType::kF32;  ///< of the output
  const void* a = nullptr;
  const void* b = nullptr;
  void* out = nullptr;

  // kMatmul: (batch,m,k) x (batch,k,n) -> (batch,m,n); a transposed side is stored (k,m), (n,k).
  // kSoftmax, kLayernorm (no weights): (m,n) over n. kTranspose: (m,n) -> (n,m).
  // kConv, stride 1: (batch,channels,height,width), (m,channels/groups,size,size) -> (batch,m,...).
  int64_t batch = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool a_is_transposed = false;
  bool b_is_transposed = false;
  bool b_is_constant = false;  ///< it may be laid out once, before the first call
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t groups = 1;
  int64_t size = 0;     ///< of the kernel, both ways
  int64_t padding = 0;  ///< on all four sides
  double epsilon = 0;   ///< kLayernorm
};

class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  virtual ~Peer() = default;

  virtual std::string name() const = 0;
  /// Version, kernels, threads: what makes its figures mean something.
  virtual std::string description() const = 0;
  /// Does everything that can be done once, and returns the call to repeat; empty: not offered. The
  /// arrays of the job must outlive it.
  virtual std::function<void()> prepare(const Job& job) = 0;
};

/// Exported by each peer's shared object under kMakePeer; the caller owns the result.
using MakePeer = Peer* (*)(int num_threads);
inline constexpr const char* kMakePeer = "tenon_make_peer";

}  // namespace tenon::bench
