// Faults that property tests plant in the compiler to prove that they would find them. At most one
// is in force, in all threads, set by a scoped object that only tests make. A source that can hold
// faults is named by tenon_plants_faults() in its CMakeLists.txt and compiled a second time for the
// programs that link tenon_planted; elsewhere is_planted() is the constant false.
// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tenon {

enum class PlantedFault : uint8_t {
  kNone,
#define TENON_PLANTED_FAULT(id, name, area, what) id,
#include "tenon/base/planted_fault.def"
#undef TENON_PLANTED_FAULT
};

struct PlantedFaultInfo {
  PlantedFault fault;
  std::string_view name;
  std::string_view area;
  std::string_view what;
};

/// All rows of planted_fault.def, in order.
std::span<const PlantedFaultInfo> planted_fault_table();
std::optional<PlantedFault> parse_planted_fault(std::string_view name);

namespace detail {
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): tests switch it
extern std::atomic<PlantedFault> planted_fault;
}  // namespace detail

/// The fault in force: part of every key under which something compiled is kept.
inline PlantedFault planted_fault() {
  return detail::planted_fault.load(std::memory_order_relaxed);
}

/// While it lives `fault` is in force. Scopes end in reverse order.
class ScopedPlantedFault {
 public:
  explicit ScopedPlantedFault(PlantedFault fault);
  ~ScopedPlantedFault();
  ScopedPlantedFault(const ScopedPlantedFault&) = delete;
  ScopedPlantedFault& operator=(const ScopedPlantedFault&) = delete;

 private:
  PlantedFault before_;
};

#ifdef TENON_PLANTED_FAULTS
inline bool is_planted(PlantedFault fault) {
  return planted_fault() == fault;
}
#else
constexpr bool is_planted(PlantedFault /*fault*/) {
  return false;
}
#endif

}  // namespace tenon
