// Checks of tenon_prop that need processes of their own: planted faults, which may crash, and equal
// texts. Call before a device is opened. SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <vector>

#include "tenon/base/planted_fault.h"
#include "tests/prop/graph_runs.h"

namespace tenon::prop {

/// One process for each fault, as many at once as there are cores. Prints where each was found; a
/// crash counts as found. True if none survived.
bool hunt_in_processes(const std::vector<PlantedFaultInfo>& faults, const std::string& device,
                       const RunOptions& options);

/// Two processes write the texts of all kernels; true if they are byte-identical.
bool have_processes_same_text(const std::string& device, const RunOptions& options);

}  // namespace tenon::prop
