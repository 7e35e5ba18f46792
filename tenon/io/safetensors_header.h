// The JSON header of a safetensors file, read and written. The only user of the JSON library in
// io/. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/io/safetensors.h"

namespace tenon::detail {

/// One array as the header describes it; nothing is checked against the data yet.
struct SafetensorsRecord {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< offsets from the end of the header
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsRecord> records;  ///< in the order of the header
  SafetensorsMetadata metadata;
};

/// Checks everything that the header alone shows. Throws kInvalidArgument with the path.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::string_view path);

/// Throws kInvalidArgument with the path if a text is not UTF-8.
std::string make_safetensors_header(const SafetensorsHeader& header, std::string_view path);

}  // namespace tenon::detail
