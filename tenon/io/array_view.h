// ArrayView: an array as it lies in a file, as plain data. What the readers of io/ give and its
// writers take; tensors are made from it one level up. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tenon/types/dtype.h"

namespace tenon {

/// Row-major little-endian elements without gaps. The bytes belong to someone else and may start at
/// any address: copy them out, never cast the pointer to a wider element.
struct ArrayView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  ///< empty: 0-d
  std::span<const std::byte> bytes;
};

/// The same with bytes of its own.
struct Array {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
  ArrayView view() const { return {dtype, shape, bytes}; }
};

/// Most axes that an array in a file may have (NumPy's limit).
constexpr size_t kMaxFileRank = 64;

/// Bytes of an array of this shape; nothing if a dim is negative or the product of the dims that
/// are not 0 leaves 63 bits.
std::optional<int64_t> array_size_bytes(DType dtype, std::span<const int64_t> shape);

/// Index of the first byte of a bool array that is neither 0 nor 1; nothing if there is none, and
/// for all other dtypes.
std::optional<size_t> find_bad_bool(const ArrayView& array);

}  // namespace tenon
