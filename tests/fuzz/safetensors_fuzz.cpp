// Fuzz entry of the safetensors reader: any bytes are arrays that tile the data, or a
// kInvalidArgument. SPDX-License-Identifier: MIT

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tenon/base/error.h"
#include "tenon/io/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const tenon::SafetensorsContent content = tenon::parse_safetensors(bytes, "fuzz");
    size_t num_bytes = 0;
    for (const tenon::SafetensorsEntry& entry : content.entries) {
      const auto& array = entry.array;
      const auto size_bytes = tenon::array_size_bytes(array.dtype, array.shape);
      if (!size_bytes || static_cast<uint64_t>(*size_bytes) != array.bytes.size()) std::abort();
      const std::byte* end = array.bytes.data() + array.bytes.size();
      if (array.bytes.data() < bytes.data() || end > bytes.data() + bytes.size()) std::abort();
      num_bytes += array.bytes.size();
    }
    if (num_bytes + 8 > size) std::abort();
  } catch (const tenon::Error& error) {
    if (error.code() != tenon::ErrorCode::kInvalidArgument) std::abort();
  }
  return 0;
}
