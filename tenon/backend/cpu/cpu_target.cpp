// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/cpu_target.h"

#include <algorithm>

#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/backend/cpu/thread_pool.h"
#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon::cpu {
namespace {

constexpr int kMaxArguments = 4096;  // the argument block stays below a page or two

int vector_bytes_of(const CpuFeatureSet& features) {
  // The renderer's 512-bit masks and integer vectors need all four parts.
  const bool has_avx512 =
      features.has(CpuFeature::kAvx512f) && features.has(CpuFeature::kAvx512bw) &&
      features.has(CpuFeature::kAvx512dq) && features.has(CpuFeature::kAvx512vl);
  if (has_avx512) return 64;
  return features.has(CpuFeature::kAvx2) ? 32 : 16;
}

// Products of pairs of bf16 and of quadruples of bytes, into vectors of 32-bit accumulators. The
// first operand is one group, read by all lanes. Rules: Intel SDM vol. 2C, VDPBF16PS (denormals are
// flushed, one rounding for each product, the odd one first) and VPDPBUSD (sums wrap).
void add_vector_units(const CpuFeatureSet& features, Target& target) {
  const bool has_vl = features.has(CpuFeature::kAvx512vl);
  for (const int lanes : {16, 8, 4}) {
    const bool has_width = lanes * 4 <= target.max_vector_bytes && (lanes == 16 || has_vl);
    if (!has_width || !features.has(CpuFeature::kAvx512bf16)) continue;
    target.units.push_back({.a = DType::kBF16,
                            .b = DType::kBF16,
                            .acc = DType::kF32,
                            .n = lanes,
                            .k = 2,
                            .group = 2,
                            .sum = UnitSum::kOddFirst,
                            .flushes_denormals = true});
  }
  for (const int lanes : {16, 8, 4}) {
    const bool has_evex = features.has(CpuFeature::kAvx512vnni) && (lanes == 16 || has_vl);
    const bool has_vex = features.has(CpuFeature::kAvxVnni) && lanes != 16;
    if (lanes * 4 > target.max_vector_bytes || !(has_evex || has_vex)) continue;
    target.units.push_back({.a = DType::kU8,
                            .b = DType::kI8,
                            .acc = DType::kI32,
                            .n = lanes,
                            .k = 4,
                            .group = 4,
                            .sum = UnitSum::kExact});
  }
}

// AMX. Rules: Intel SDM vol. 2B, TDPBF16PS (two chains of fused steps, denormals flushed) and
// TDPBSSD (sums wrap).
void add_tile_units(const CpuFeatureSet& features, Target& target) {
  MatrixUnit unit{.m = 16, .n = 16, .place = UnitPlace::kTiles, .needs_setup = true};
  if (features.has(CpuFeature::kAmxBf16)) {
    unit.a = unit.b = DType::kBF16;
    unit.acc = DType::kF32;
    unit.k = 32;
    unit.group = 2;
    unit.sum = UnitSum::kTwoSums;
    unit.flushes_denormals = true;
    target.units.push_back(unit);
  }
  if (!features.has(CpuFeature::kAmxInt8)) return;
  for (const DType dtype : {DType::kI8, DType::kU8}) {
    unit.a = dtype;
    unit.b = DType::kI8;
    unit.acc = DType::kI32;
    unit.k = 64;
    unit.group = 4;
    unit.sum = UnitSum::kExact;
    unit.flushes_denormals = false;
    target.units.push_back(unit);
  }
}

}  // namespace

Target make_target(const CpuFeatureSet& features, int64_t local_bytes, int threads) {
  Target target;
  target.arch = "x86_64";
  for (const std::string_view name : features.names())
    target.features.emplace_back(name);
  std::sort(target.features.begin(), target.features.end());
  for (const DType dtype : storage_dtypes()) {
    if (!is_float(dtype) || dtype_bits(dtype) >= 32) target.arithmetic.add(dtype);
  }
  if (features.has(CpuFeature::kF16c)) {
    target.extra_casts = {{DType::kF16, DType::kF32}, {DType::kF32, DType::kF16}};
  }
  target.native_ops = {Op::kSqrt};
  if (features.has(CpuFeature::kSse41)) target.native_ops.push_back(Op::kTrunc);
  if (features.has(CpuFeature::kFma)) {
    target.native_ops.push_back(Op::kFma);
    target.fuses_mulacc = true;
  }
  target.max_vector_bytes = vector_bytes_of(features);
  add_vector_units(features, target);
  add_tile_units(features, target);
  target.max_local_bytes = local_bytes;
  target.max_lanes = 1;
  target.max_arguments = kMaxArguments;
  target.has_i64_index = true;
  target.threads = threads;
  return target;
}

Target target_of_arch(std::string_view arch) {
  CpuFeatureSet features = parse_cpu_arch(arch);
  // The thread sanitizer does not see accesses wider than 16 bytes, nor masked instructions.
  if (kThreadSanitizer && (arch.empty() || arch == "native")) features.remove(CpuFeature::kAvx);
  return make_target(features, local_bytes_of(read_cache_sizes(), num_available_cores()),
                     ThreadPool::shared().num_workers());
}

CpuFeatureSet features_of(const Target& target) {
  TENON_CHECK(target.arch == "x86_64", ErrorCode::kInvalidArgument, "CPU: a Target for '",
              target.arch, "' is given; expected x86_64");
  std::string arch = target.arch;
  for (const std::string& feature : target.features)
    append(arch, ",", feature);
  return parse_cpu_arch(arch);
}

int64_t local_bytes_of(const CacheSizes& caches, int cores) {
  const int64_t l3_share = caches.l3_bytes / std::max(cores, 1);
  return std::max(caches.l2_bytes / 2, l3_share / 4);
}

}  // namespace tenon::cpu
