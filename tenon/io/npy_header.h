// The head of a .npy file: magic, version and a Python dict literal. Used by npy.cpp.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/types/dtype.h"

namespace tenon::detail {

struct NpyHeader {
  DType dtype = DType::kF32;
  bool is_big_endian = false;
  bool is_fortran_order = false;
  std::vector<int64_t> shape;
  size_t size_bytes = 0;  ///< where the data begins
};

/// Throws kInvalidArgument with the path.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, std::string_view path);

/// The whole head of version 1.0 for a row-major little-endian array, padded to 64 bytes.
std::string make_npy_header(DType dtype, std::span<const int64_t> shape);

/// "<f4" for f32; empty if NumPy has no such dtype.
std::string npy_descr(DType dtype);

}  // namespace tenon::detail
