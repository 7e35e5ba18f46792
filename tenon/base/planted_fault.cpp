// SPDX-License-Identifier: MIT

#include "tenon/base/planted_fault.h"

namespace tenon {
namespace {

constexpr PlantedFaultInfo kTable[] = {
#define TENON_PLANTED_FAULT(id, name, area, what) {PlantedFault::id, name, area, what},
#include "tenon/base/planted_fault.def"
#undef TENON_PLANTED_FAULT
};

}  // namespace

namespace detail {
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): tests switch it
std::atomic<PlantedFault> planted_fault = PlantedFault::kNone;
}  // namespace detail

std::span<const PlantedFaultInfo> planted_fault_table() {
  return kTable;
}

std::optional<PlantedFault> parse_planted_fault(std::string_view name) {
  for (const PlantedFaultInfo& info : kTable) {
    if (info.name == name) return info.fault;
  }
  return std::nullopt;
}

ScopedPlantedFault::ScopedPlantedFault(PlantedFault fault)
    : before_(detail::planted_fault.exchange(fault)) {}

ScopedPlantedFault::~ScopedPlantedFault() {
  detail::planted_fault = before_;
}

}  // namespace tenon
