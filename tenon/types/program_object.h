// ProgramObject (.tpo): a compiled kernel as one self-describing, versioned file: what a device
// needs to run it, without the compiler. Files are untrusted: parse_program_object checks all.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/types/signature.h"

namespace tenon {

constexpr uint32_t kProgramObjectVersion = 1;

struct ProgramObject {
  std::string entry;           ///< symbol of the kernel in the payload; also its name in reports
  std::string target;          ///< text form of the Target it was compiled for
  std::string payload_format;  ///< "elf-x86_64", "tir", ...; a device refuses what it cannot load
  Signature signature;
  std::vector<int64_t> grid;   ///< groups per dimension, 1 to 3 entries
  std::vector<int64_t> lanes;  ///< lanes of a group per dimension, 1 to 3 entries
  int64_t scratch_bytes = 0;   ///< group memory
  std::vector<std::byte> payload;
  friend bool operator==(const ProgramObject&, const ProgramObject&) = default;
};

/// Serialised form: magic "TENONTPO", version, body, payload, 128-bit checksum over all before it.
std::vector<std::byte> serialize_program_object(const ProgramObject& object);

/// Throws kInvalidArgument that says what is wrong (magic, version, checksum, truncated, field out
/// of range) on anything but a valid file.
ProgramObject parse_program_object(std::span<const std::byte> bytes);

}  // namespace tenon
