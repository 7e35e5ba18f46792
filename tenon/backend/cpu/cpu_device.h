// The CPU as a DeviceDriver: host memory, loaded ELF objects, launches over the shared thread pool.
// Opened by the backend's descriptor. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "tenon/device/device.h"

namespace tenon::cpu {

/// Throws kUnsupported, naming what is missing, if this machine cannot run programs of `target`.
/// Its buffers may take `max_bytes` in all; without: the machine's memory.
std::unique_ptr<DeviceDriver> open_cpu_device(int index, const Target& target,
                                              std::optional<int64_t> max_bytes = std::nullopt);

}  // namespace tenon::cpu
