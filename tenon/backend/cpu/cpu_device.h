// The CPU as a DeviceDriver: host memory, loaded ELF objects, launches over the shared thread pool.
// Opened by the backend's descriptor. SPDX-License-Identifier: MIT

#pragma once

#include <memory>

#include "tenon/device/device.h"

namespace tenon::cpu {

/// Throws kUnsupported, naming what is missing, if this machine cannot run programs of `target`.
std::unique_ptr<DeviceDriver> open_cpu_device(int index, const Target& target);

}  // namespace tenon::cpu
