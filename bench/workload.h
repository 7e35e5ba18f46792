// The computations that `tenon bench` measures, each written as a user of Tensor writes it, with
// the same job for other libraries, and a check of any result against sums of our own in double.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/draw.h"
#include "bench/host_array.h"
#include "bench/limits.h"
#include "bench/peer.h"
#include "tenon/tensor/tensor.h"

namespace tenon::bench {

/// A workload with its inputs in memory, on the default device and on the host.
struct Case {
  std::vector<std::shared_ptr<HostArray>> arrays;  ///< what `job` points to
  /// The expression, anew; inputs are realised already.
  std::function<Tensor()> build;
  Job job;  ///< without `out`
  DType out_dtype = DType::kF32;
  int64_t out_size = 0;  ///< elements of the output
  /// What is wrong with an output, if anything: elements at the edges and drawn ones, compared with
  /// a bound that follows from the roundings.
  std::function<std::optional<std::string>(const std::byte* out)> why_wrong;
};

/// Tenon itself under another setting, as if it were a peer.
struct Variant {
  std::string name;      ///< "simple"
  std::string variable;  ///< of settings.def; a variant of one that is not there takes no part
  std::string value;
};

struct Workload {
  std::string name;
  std::string group;  ///< rows whose ratios belong together
  std::string unit;   ///< "GFLOP/s": `work` is in billions of it
  double work = 0;    ///< of one run
  LimitKind limit = LimitKind::kNone;
  int64_t limit_bytes = 0;
  /// The ratio is to the limit where no library does the same, else to the best peer.
  bool is_against_limit = false;
  double goal = 0;       ///< of the ratio; 0: none
  double mean_goal = 0;  ///< of the group's geometric mean
  std::vector<Variant> variants = {};
  std::function<Case()> prepare;
};

// Sizes that a person waits for, or (`is_quick`) small ones that show that all works.
std::vector<Workload> matmul_workloads(bool is_quick, std::optional<uint32_t> draw);
std::vector<Workload> stream_workloads(bool is_quick);  ///< elementwise, sum, rows, transpose
std::vector<Workload> conv_workloads(bool is_quick);
std::vector<Workload> attention_workloads(bool is_quick);
Workload digits_workload(bool is_quick);

/// All of them, in the order of the table.
std::vector<Workload> all_workloads(bool is_quick, std::optional<uint32_t> draw);

/// Those that `names` ask for, by name or group; all without names. Throws kInvalidArgument for a
/// word that is neither, with the nearest.
std::vector<Workload> chosen_workloads(std::vector<Workload> all,
                                       const std::vector<std::string>& names);

/// A Tensor with the values of an array, realised.
Tensor tensor_of(const HostArray& array);

/// 0, the last, and `count` drawn positions below `size`, sorted: where results are looked at.
std::vector<int64_t> sampled(int64_t size, int count, uint64_t seed);

/// One element against its reference; sets `why` at the first that differs by more than `bound`.
void compare(double found, double expected, double bound, const std::string& where,
             std::optional<std::string>& why);

/// Half the distance of 1 and the next number of the dtype; 0 for integers.
double unit_roundoff(DType dtype);

}  // namespace tenon::bench
