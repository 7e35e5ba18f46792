// What the CPU can do: features, cache sizes, cores. The CPU device fills its Target from it and
// hands the feature list to the compilers. Features decide, never CPU names: on virtual machines
// the family and model numbers are masked.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon::cpu {

enum class CpuFeature : uint8_t {
#define TENON_CPU_FEATURE(enumerator, name, leaf, subleaf, reg, bit, state, implies) enumerator,
#include "tenon/backend/cpu/cpu_features.def"
#undef TENON_CPU_FEATURE
};

/// The name that clang's -m and LLVM's feature strings use: "avx512f".
std::string_view cpu_feature_name(CpuFeature feature);

/// A set closed under implication: with avx512f it holds avx2, fma and f16c.
class CpuFeatureSet {
 public:
  CpuFeatureSet() = default;

  bool has(CpuFeature feature) const { return (bits_ >> static_cast<unsigned>(feature) & 1) != 0; }
  bool has_all(const CpuFeatureSet& other) const { return (other.bits_ & ~bits_) == 0; }

  void add(CpuFeature feature);     ///< with what it implies
  void remove(CpuFeature feature);  ///< with what implies it

  /// Features of this set that `other` lacks, by name in table order.
  std::vector<std::string_view> missing_in(const CpuFeatureSet& other) const;

  /// By name in table order (implied ones too).
  std::vector<std::string_view> names() const { return missing_in(CpuFeatureSet()); }

  bool operator==(const CpuFeatureSet&) const = default;

 private:
  uint64_t bits_ = 0;
};

/// "sse2,sse3,...": the names, comma-separated.
std::string to_string(const CpuFeatureSet& features);

/// What every x86-64 CPU has: sse2.
CpuFeatureSet baseline_cpu_features();

/// What this CPU has and the operating system supports (register state by XGETBV). AMX is listed
/// only if the kernel can grant it; call `request_tile_permission` before the first tile
/// instruction.
CpuFeatureSet host_cpu_features();

/// Asks the kernel, once per process, for the right to use AMX tiles. False: refused or no AMX.
bool request_tile_permission();

/// Reads the ARCH field of a device name: empty or "native" is the host; "x86_64,avx2,-avx512f"
/// starts from the baseline, adds avx2 (with what it implies), then takes avx512f (with what
/// implies it) away; "native" among the fields adds the host's features.
/// Throws kInvalidArgument for an unknown word, naming the nearest right one, and for "-sse2".
CpuFeatureSet parse_cpu_arch(std::string_view arch);

struct CacheSizes {
  int64_t l1_data_bytes = int64_t{32} << 10;
  int64_t l2_bytes = int64_t{1} << 20;
  int64_t l3_bytes = int64_t{8} << 20;  ///< equals l2_bytes where there is no third level
  int64_t line_bytes = 64;
  int64_t l1_ways = 8;
  int64_t l2_ways = 8;
  int64_t l3_ways = 16;
  int64_t l3_threads = 1;  ///< processors that share the third level
};

/// Reads sysfs (sysconf reports the host's cache on virtual machines); keeps the defaults above
/// where that is not possible.
CacheSizes read_cache_sizes(const std::string& folder = "/sys/devices/system/cpu/cpu0/cache");

/// Cores that this process may run on, at least 1.
int num_available_cores();

}  // namespace tenon::cpu
