// Machine code as text, for reading. Called by the CPU's compilers. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tenon::cpu {

/// One function of an ELF object, by llvm-objdump of this version or the one on PATH. Throws
/// kNotFound, saying what to install.
std::string disassemble_object(std::span<const std::byte> object, std::string_view symbol,
                               int llvm_version);

}  // namespace tenon::cpu
