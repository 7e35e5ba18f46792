// CPUID and XGETBV, sysfs, and the ARCH field of device names.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/cpu_features.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <optional>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon::cpu {
namespace {

enum class Register : uint8_t { kEax, kEbx, kEcx, kEdx };
enum class State : uint8_t { kNone, kYmm, kZmm, kTile };

// XCR0 bits, Intel SDM vol. 1, 13.3.
constexpr uint64_t kSseAvxState = 0x6;
constexpr uint64_t kAvx512State = 0xe0 | kSseAvxState;
constexpr uint64_t kTileState = 0x60000;

// Linux, Documentation/arch/x86/xstate.rst.
constexpr int kArchGetXcompSupported = 0x1021;
constexpr int kArchRequestXcompPermission = 0x1023;
constexpr int kXfeatureTileData = 18;

struct FeatureRow {
  std::string_view name;
  uint32_t leaf;
  uint32_t subleaf;
  Register reg;
  int bit;
  State state;
  uint64_t implies;  // direct implications only
};

constexpr uint64_t mask_of(std::initializer_list<CpuFeature> features) {
  uint64_t mask = 0;
  for (const CpuFeature feature : features)
    mask |= uint64_t{1} << static_cast<unsigned>(feature);
  return mask;
}

template <typename... Features>
constexpr uint64_t implied_mask(Features... features) {
  return mask_of({features...});
}

constexpr auto kFeatures = [] {
  using enum CpuFeature;
  using enum Register;
  using enum State;
  return std::to_array<FeatureRow>({
#define TENON_CPU_FEATURE(enumerator, name, leaf, subleaf, reg, bit, state, implies) \
  {name, leaf, subleaf, reg, bit, state, implied_mask implies},
#include "tenon/backend/cpu/cpu_features.def"
#undef TENON_CPU_FEATURE
  });
}();
static_assert(kFeatures.size() <= 64);

constexpr size_t index_of(CpuFeature feature) {
  return static_cast<size_t>(feature);
}

std::optional<CpuFeature> find_feature(std::string_view name) {
  for (size_t index = 0; index < kFeatures.size(); ++index) {
    if (kFeatures[index].name == name) return static_cast<CpuFeature>(index);
  }
  return std::nullopt;
}

bool cpuid_has(const FeatureRow& row) {
  std::array<uint32_t, 4> regs{};
  if (__get_cpuid_count(row.leaf, row.subleaf, &regs[0], &regs[1], &regs[2], &regs[3]) == 0) {
    return false;
  }
  return (regs[static_cast<size_t>(row.reg)] >> row.bit & 1) != 0;
}

uint64_t read_xcr0() {
  constexpr uint32_t kOsxsave = uint32_t{1} << 27;
  std::array<uint32_t, 4> regs{};
  if (__get_cpuid(1, &regs[0], &regs[1], &regs[2], &regs[3]) == 0) return 0;
  if ((regs[2] & kOsxsave) == 0) return 0;
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

bool kernel_supports_tiles() {
  uint64_t supported = 0;
  return syscall(SYS_arch_prctl, kArchGetXcompSupported, &supported) == 0 &&
         (supported >> kXfeatureTileData & 1) != 0;
}

bool is_state_enabled(State state, uint64_t xcr0) {
  switch (state) {
    case State::kNone: return true;
    case State::kYmm: return (xcr0 & kSseAvxState) == kSseAvxState;
    case State::kZmm: return (xcr0 & kAvx512State) == kAvx512State;
    case State::kTile: return (xcr0 & kTileState) == kTileState && kernel_supports_tiles();
  }
  return false;
}

CpuFeatureSet detect_host() {
  const uint64_t xcr0 = read_xcr0();
  CpuFeatureSet features;
  for (size_t index = 0; index < kFeatures.size(); ++index) {
    const FeatureRow& row = kFeatures[index];
    if (!is_state_enabled(row.state, xcr0) || !cpuid_has(row)) continue;
    // A hypervisor may hide a feature that this one implies to the compilers: then hide both.
    CpuFeatureSet with = features;
    with.add(static_cast<CpuFeature>(index));
    if (with.names().size() == features.names().size() + 1) features = with;
  }
  return features;
}

/// "48K", "2048K", "32M" as sysfs writes sizes; empty if it is something else.
std::optional<int64_t> parse_cache_size(std::string_view text) {
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value <= 0 || value > int64_t{1} << 40) return std::nullopt;
  const std::string_view unit(rest, static_cast<size_t>(text.data() + text.size() - rest));
  if (unit.empty()) return value;
  if (unit == "K") return value << 10;
  if (unit == "M") return value << 20;
  return std::nullopt;
}

std::string read_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

/// Numbers in a list like "0-3,8"; at least 1.
int64_t count_listed(std::string_view text) {
  int64_t count = 0;
  for (const std::string_view range : split(text, ',')) {
    const size_t dash = range.find('-');
    const std::optional<int64_t> first = parse_int(range.substr(0, dash));
    const std::optional<int64_t> last =
        dash == std::string_view::npos ? first : parse_int(range.substr(dash + 1));
    if (first && last && *last >= *first) count += *last - *first + 1;
  }
  return std::max<int64_t>(count, 1);
}

}  // namespace

std::string_view cpu_feature_name(CpuFeature feature) {
  return kFeatures[index_of(feature)].name;
}

void CpuFeatureSet::add(CpuFeature feature) {
  bits_ |= mask_of({feature});
  // Implied features come earlier in the table, so one pass downwards closes the set.
  for (size_t index = index_of(feature) + 1; index-- > 0;) {
    if (has(static_cast<CpuFeature>(index))) bits_ |= kFeatures[index].implies;
  }
}

void CpuFeatureSet::remove(CpuFeature feature) {
  bits_ &= ~mask_of({feature});
  for (size_t index = index_of(feature) + 1; index < kFeatures.size(); ++index) {
    const auto later = static_cast<CpuFeature>(index);
    if (has(later) && (kFeatures[index].implies & ~bits_) != 0) bits_ &= ~mask_of({later});
  }
}

std::vector<std::string_view> CpuFeatureSet::missing_in(const CpuFeatureSet& other) const {
  std::vector<std::string_view> names;
  for (size_t index = 0; index < kFeatures.size(); ++index) {
    const auto feature = static_cast<CpuFeature>(index);
    if (has(feature) && !other.has(feature)) names.push_back(kFeatures[index].name);
  }
  return names;
}

std::string to_string(const CpuFeatureSet& features) {
  return join(features.names(), ",");
}

CpuFeatureSet baseline_cpu_features() {
  CpuFeatureSet features;
  features.add(CpuFeature::kSse2);
  return features;
}

CpuFeatureSet host_cpu_features() {
  static const CpuFeatureSet features = detect_host();
  return features;
}

bool request_tile_permission() {
  static const bool granted =
      host_cpu_features().has(CpuFeature::kAmxTile) &&
      syscall(SYS_arch_prctl, kArchRequestXcompPermission, kXfeatureTileData) == 0;
  return granted;
}

CpuFeatureSet parse_cpu_arch(std::string_view arch) {
  if (arch.empty()) return host_cpu_features();
  CpuFeatureSet features = baseline_cpu_features();
  bool is_first = true;
  for (const std::string_view field : split(arch, ',')) {
    const bool was_first = std::exchange(is_first, false);
    if (field == "native") {
      const CpuFeatureSet host = host_cpu_features();
      for (const std::string_view name : host.names())
        features.add(*find_feature(name));
      continue;
    }
    if (field == "x86_64" && was_first) continue;
    TENON_CHECK(!was_first, ErrorCode::kInvalidArgument, "CPU arch '", arch, "': starts with '",
                field, "', expected 'x86_64' or 'native', then features such as avx2 or -avx512f");
    const bool is_removal = field.starts_with('-');
    const std::string_view name = is_removal || field.starts_with('+') ? field.substr(1) : field;
    const std::optional<CpuFeature> feature = find_feature(name);
    if (!feature) {
      std::vector<std::string_view> known;
      known.reserve(kFeatures.size());
      for (const FeatureRow& row : kFeatures)
        known.push_back(row.name);
      const std::optional<std::string> nearest = nearest_name(name, known);
      fail(ErrorCode::kInvalidArgument, "CPU arch '", arch, "': unknown CPU feature '", name, "'. ",
           nearest ? concat("Did you mean '", *nearest, "'?")
                   : concat("Known: ", join(known, ", ")));
    }
    TENON_CHECK(!is_removal || *feature != CpuFeature::kSse2, ErrorCode::kInvalidArgument,
                "CPU arch '", arch, "': sse2 is part of x86_64 and cannot be taken away");
    if (is_removal) {
      features.remove(*feature);
    } else {
      features.add(*feature);
    }
  }
  return features;
}

CacheSizes read_cache_sizes(const std::string& folder) {
  CacheSizes sizes;
  bool has_level2 = false;
  bool has_level3 = false;
  constexpr int kMaxCaches = 16;
  for (int index = 0; index < kMaxCaches; ++index) {
    const std::string cache = concat(folder, "/index", index, "/");
    const std::string level = read_word(cache + "level");
    if (level.empty()) break;
    const std::optional<int64_t> size = parse_cache_size(read_word(cache + "size"));
    if (!size || read_word(cache + "type") == "Instruction") continue;
    const int64_t ways = parse_int(read_word(cache + "ways_of_associativity")).value_or(0);
    const auto set_ways = [&](int64_t& known) {
      if (ways > 0) known = ways;
    };
    if (level == "1") {
      sizes.l1_data_bytes = *size;
      set_ways(sizes.l1_ways);
      if (const auto line = parse_cache_size(read_word(cache + "coherency_line_size"))) {
        sizes.line_bytes = *line;
      }
    } else if (level == "2") {
      sizes.l2_bytes = *size;
      set_ways(sizes.l2_ways);
      has_level2 = true;
    } else if (level == "3") {
      sizes.l3_bytes = *size;
      set_ways(sizes.l3_ways);
      sizes.l3_threads = count_listed(read_word(cache + "shared_cpu_list"));
      has_level3 = true;
    }
  }
  if (has_level2 && !has_level3) sizes.l3_bytes = sizes.l2_bytes;
  return sizes;
}

int num_available_cores() {
  // The mask must be as large as the kernel's; double it until it is.
  for (int max_cores = CPU_SETSIZE; max_cores <= 1 << 20; max_cores *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
        CPU_ALLOC(static_cast<size_t>(max_cores)), [](cpu_set_t* set) { CPU_FREE(set); });
    if (mask == nullptr) break;
    const size_t size = CPU_ALLOC_SIZE(static_cast<size_t>(max_cores));
    if (sched_getaffinity(0, size, mask.get()) != 0) continue;
    const int count = CPU_COUNT_S(size, mask.get());
    return count > 0 ? count : 1;
  }
  return 1;
}

}  // namespace tenon::cpu
