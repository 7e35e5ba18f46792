// Fuzz entry of the .npy reader: any bytes are an array that fits its shape, or a kInvalidArgument.
// SPDX-License-Identifier: MIT

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tenon/base/error.h"
#include "tenon/io/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const tenon::NpyArray array = tenon::parse_npy(std::as_bytes(std::span(data, size)), "fuzz");
    const tenon::ArrayView view = array.view();
    const auto size_bytes = tenon::array_size_bytes(view.dtype, view.shape);
    if (!size_bytes || static_cast<uint64_t>(*size_bytes) != view.bytes.size()) std::abort();
    unsigned sum = 0;
    for (const std::byte value : view.bytes)
      sum += std::to_integer<unsigned>(value);
    if (view.bytes.empty() && sum != 0) std::abort();
  } catch (const tenon::Error& error) {
    if (error.code() != tenon::ErrorCode::kInvalidArgument) std::abort();
  }
  return 0;
}
