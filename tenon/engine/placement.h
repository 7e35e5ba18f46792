// Which device each buffer of a schedule lives on. Called by realize.cpp.
// SPDX-License-Identifier: MIT

#pragma once

#include <vector>

#include "tenon/engine/engine_device.h"
#include "tenon/schedule/schedule.h"

namespace tenon {

/// By buffer number. All buffers of one kernel share a device: that of a given one among them
/// (`given`, by buffer number, else null), or of a copy's target, else `default_device`. Throws
/// kInvalidArgument, naming both, if a kernel's buffers live on two devices, and kUnsupported if a
/// kernel binds more buffers than its device can.
std::vector<EngineDevice*> place_buffers(const Schedule& schedule,
                                         const std::vector<EngineDevice*>& given,
                                         Device& default_device);

}  // namespace tenon
