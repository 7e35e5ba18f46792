// INTERP as a DeviceDriver: memory in the arena, programs in the checked interpreter. Opened by the
// backend's descriptor. SPDX-License-Identifier: MIT

#pragma once

#include <memory>

#include "tenon/device/device.h"

namespace tenon::interp {

std::unique_ptr<DeviceDriver> open_interp_device(int index, const Target& target);

}  // namespace tenon::interp
