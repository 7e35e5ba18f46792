// Size and content checks shared by the file readers. SPDX-License-Identifier: MIT

#include "tenon/io/array_view.h"

#include <algorithm>

namespace tenon {

std::optional<int64_t> array_size_bytes(DType dtype, std::span<const int64_t> shape) {
  int64_t size = dtype_size_bytes(dtype);
  bool is_empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      is_empty = true;
      continue;
    }
    if (__builtin_mul_overflow(size, dim, &size)) return std::nullopt;
  }
  return is_empty ? 0 : size;
}

std::optional<size_t> find_bad_bool(const ArrayView& array) {
  if (array.dtype != DType::kBool) return std::nullopt;
  const auto bad = std::find_if(array.bytes.begin(), array.bytes.end(),
                                [](std::byte value) { return value > std::byte{1}; });
  if (bad == array.bytes.end()) return std::nullopt;
  return static_cast<size_t>(bad - array.bytes.begin());
}

}  // namespace tenon
