// The ordered argument list of a compiled program, and the one function that lays arguments out in
// memory. Every backend packs arguments by it, every renderer reads them by it.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/types/dtype.h"

namespace tenon {

enum class ArgumentAccess : uint8_t { kRead = 1, kWrite = 2, kReadWrite = 3 };

struct Argument {
  std::string name;
  DType dtype = DType::kF32;
  bool is_buffer = true;
  ArgumentAccess access = ArgumentAccess::kRead;  ///< scalars: kRead
  int64_t num_elements = 0;                       ///< of a buffer: the least it must hold
  int64_t min = 0;  ///< of an integer scalar: its range (a u64 range is stored as its bit pattern)
  int64_t max = 0;
  friend bool operator==(const Argument&, const Argument&) = default;
};

struct Signature {
  std::vector<Argument> arguments;
  friend bool operator==(const Signature&, const Signature&) = default;
};

/// Where each argument lies in the argument block: buffers as 8-byte addresses, scalars in their
/// own width, each at its natural alignment, in order.
struct ArgumentLayout {
  std::vector<uint32_t> offsets;
  uint32_t size_bytes = 0;  ///< a multiple of 8
};

ArgumentLayout layout_arguments(const Signature& signature);

/// A value given for one argument at launch.
struct ArgumentValue {
  bool is_buffer = true;
  DType dtype = DType::kF32;
  void* address = nullptr;  ///< of a buffer; device address
  int64_t size_bytes = 0;   ///< of a buffer
  uint64_t bits = 0;        ///< of a scalar: bit pattern, zero- or sign-extended
};

/// Why these values do not fit the signature (count, kind, dtype, size, range), with the numbers in
/// the text; empty means they do.
std::optional<std::string> why_arguments_differ(const Signature& signature,
                                                const std::vector<ArgumentValue>& values);

}  // namespace tenon
