// For the tests of linear programs: files of tests/tir, typed host buffers as arguments.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "tenon/base/file.h"
#include "tenon/ir/linear_text.h"
#include "tenon/types/signature.h"

namespace tenon::testing {

inline std::string tir_path(const std::string& name) {
  return std::string(TENON_SOURCE_DIR) + "/tests/tir/" + name;
}

inline std::string tir_text(const std::string& name) {
  return read_file(tir_path(name));
}

inline LinearProgram tir_program(const std::string& name) {
  return parse_linear(tir_text(name), name);
}

inline const std::vector<std::string>& tir_files() {
  static const std::vector<std::string> names{"matmul.tir", "softmax.tir", "transpose.tir",
                                              "tree_sum.tir", "pairs.tir"};
  return names;
}

template <typename T>
ArgumentValue buffer_argument(DType dtype, std::vector<T>& data) {
  return {.is_buffer = true,
          .dtype = dtype,
          .address = data.data(),
          .size_bytes = static_cast<int64_t>(data.size() * sizeof(T))};
}

inline ArgumentValue scalar_argument(DType dtype, uint64_t bits) {
  return {.is_buffer = false, .dtype = dtype, .bits = bits};
}

/// `count` elements that hold `byte` everywhere: what a result must overwrite.
template <typename T>
std::vector<T> poisoned(size_t count) {
  std::vector<T> data(count);
  if (count > 0) std::memset(data.data(), 0xee, count * sizeof(T));
  return data;
}

}  // namespace tenon::testing
