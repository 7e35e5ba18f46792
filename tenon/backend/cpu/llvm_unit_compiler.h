// The Compiler that goes with the renderer LLVM: joins kernels into one module and compiles it in
// the process. SPDX-License-Identifier: MIT

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tenon/device/compiler.h"
#include "tenon/types/target.h"

namespace tenon::cpu {

/// Why libLLVM cannot be used, or nothing. Does not open it.
std::optional<std::string> why_no_llvm();

/// Throws as find_llvm does.
std::unique_ptr<Compiler> make_llvm_compiler(const Target& target);

}  // namespace tenon::cpu
