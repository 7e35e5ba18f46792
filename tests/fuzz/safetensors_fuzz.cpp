// Fuzz entry of the safetensors reader: any bytes are arrays that tile the data, or a
// kInvalidArgument. SPDX-License-Identifier: MIT

#include <algorithm>
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
    // What a file on the disk is read by: the places are those of the views.
    const auto read_at = [&](uint64_t offset, std::span<std::byte> part) {
      if (part.size() > size || offset > size - part.size()) std::abort();
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), part.size(), part.begin());
    };
    const tenon::SafetensorsIndex index = tenon::index_safetensors(size, read_at, "fuzz");
    if (index.places.size() != content.entries.size()) std::abort();
    for (size_t i = 0; i < index.places.size(); ++i) {
      const auto& array = content.entries[i].array.bytes;
      if (bytes.data() + index.places[i].begin != array.data()) std::abort();
      if (index.places[i].size_bytes != array.size()) std::abort();
    }
  } catch (const tenon::Error& error) {
    if (error.code() != tenon::ErrorCode::kInvalidArgument) std::abort();
  }
  return 0;
}
