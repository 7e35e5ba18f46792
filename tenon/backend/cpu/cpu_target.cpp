// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/cpu_target.h"

#include <algorithm>

#include "tenon/backend/cpu/sanitizer.h"
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
  // One product takes 16 cycles, its result is there after 52.
  if (features.has(CpuFeature::kAmxTile)) {
    target.tiles = {.registers = 8, .rate = 210, .chains = 4};
  }
  if (!features.has(CpuFeature::kAmxInt8)) return;
  unit.acc = DType::kI32;
  unit.k = 64;
  unit.group = 4;
  unit.sum = UnitSum::kExact;
  unit.flushes_denormals = false;
  for (const DType a : {DType::kI8, DType::kU8}) {
    for (const DType b : {DType::kI8, DType::kU8}) {
      unit.a = a;
      unit.b = b;
      target.units.push_back(unit);
    }
  }
}

// Rates cannot be asked for, and measured ones would differ from start to start, and with them
// programs. These are of one core of recent servers, in bytes a nanosecond and vectors a
// microsecond. Those with tiles have a third level that is far from each core; a first level of 48
// KiB comes with two units for the widest vectors.
void add_speeds(const CpuFeatureSet& features, const CacheSizes& caches, Target& target) {
  const bool has_tiles = features.has(CpuFeature::kAmxTile);
  const bool has_one_unit =
      target.max_vector_bytes == 64 && caches.l1_data_bytes < (int64_t{48} << 10);
  target.vector_registers = features.has(CpuFeature::kAvx512vl) ? 32 : 16;
  target.mulacc_rate = has_one_unit ? 3600 : 7200;
  target.mulacc_chains = 8;
  target.caches = {
      {caches.l1_data_bytes, static_cast<int>(caches.l1_ways), 1, has_one_unit ? 210 : 400},
      {caches.l2_bytes, static_cast<int>(caches.l2_ways), 1, has_one_unit ? 115 : 180},
  };
  if (caches.l3_bytes > caches.l2_bytes) {
    target.caches.push_back({caches.l3_bytes, static_cast<int>(caches.l3_ways),
                             static_cast<int>(caches.l3_threads), has_tiles ? 30 : 80});
  }
  target.line_bytes = static_cast<int>(caches.line_bytes);
  target.memory_speed = has_tiles ? 15 : has_one_unit ? 25 : 45;
  // Copies to outputs of 8 to 256 MiB: the two kinds of stores are equal at some 32 MiB, whatever
  // the size of the third level; smaller ones never hold more than themselves. Below that, stores
  // that bypass win or lose a fifth with how busy the memory is, and lose again where the output is
  // read next.
  constexpr int64_t kMaxBypassBytes = 32 << 20;
  target.bypass_bytes = std::min(caches.l3_bytes, kMaxBypassBytes);
}

}  // namespace

Target make_target(const CpuFeatureSet& features, int64_t local_bytes, int threads,
                   const CacheSizes& caches) {
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
  add_speeds(features, caches, target);
  return target;
}

Target target_of_arch(std::string_view arch) {
  CpuFeatureSet features = parse_cpu_arch(arch);
  // The thread sanitizer does not see accesses wider than 16 bytes, nor masked instructions.
  if (kThreadSanitizer && (arch.empty() || arch == "native")) features.remove(CpuFeature::kAvx);
  const CacheSizes caches = read_cache_sizes();
  const int cores = num_available_cores();
  return make_target(features, local_bytes_of(caches, cores), cores, caches);
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
