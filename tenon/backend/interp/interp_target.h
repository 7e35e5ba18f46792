// What programs INTERP takes: those for a plain machine of its own, or those of another device.
// SPDX-License-Identifier: MIT

#pragma once

#include <string_view>

#include "tenon/types/target.h"

namespace tenon::interp {

/// The Target of the ARCH field: empty, its own; else a device's name as in DEV, with renderer and
/// ARCH if wanted ("CPU", "CPU:LLVM:x86_64,avx2"). Throws kInvalidArgument for unknown names.
Target target_of_device(std::string_view device);

}  // namespace tenon::interp
