// The Compiler that goes with the renderer CLANG: joins kernels into one C translation unit and
// runs clang on it. SPDX-License-Identifier: MIT

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tenon/device/compiler.h"
#include "tenon/types/target.h"

namespace tenon::cpu {

/// What ProgramObjects for the CPU hold: an ELF64 relocatable object.
inline constexpr std::string_view kElfFormat = "elf-x86_64";

/// Why clang cannot be used, or nothing.
std::optional<std::string> why_no_clang();

/// Throws as find_clang does.
std::unique_ptr<Compiler> make_clang_compiler(const Target& target);

}  // namespace tenon::cpu
