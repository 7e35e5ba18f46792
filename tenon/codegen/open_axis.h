// The parts of one axis of a comp as loops, lanes and instances with their extents; its value and
// its guard. Called by placement.cpp. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/codegen/placement.h"

namespace tenon {

/// Gives the parts of the axis, which stand in `comp` already, their axes. Throws PlanRefusal.
void open_axis(const Kernel& kernel, Placement& placement, PlacedComp& comp, size_t axis);

}  // namespace tenon
