// What the kernel tests share: golden files, typed arguments, running a kernel.
// SPDX-License-Identifier: MIT

#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tenon/ir/eval_kernel.h"
#include "tenon/ir/kernel_text.h"

namespace tenon::testing {

inline std::string golden_text(const std::string& name) {
  std::ifstream file(std::string(TENON_SOURCE_DIR) + "/tests/golden/kernel/" + name);
  EXPECT_TRUE(file.good()) << name;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline Kernel golden_kernel(const std::string& name) {
  return parse_kernel(golden_text(name), name);
}

template <typename T>
KernelArgument argument(std::vector<T>& values) {
  return {.data = reinterpret_cast<std::byte*>(values.data()),
          .size_bytes = static_cast<int64_t>(values.size() * sizeof(T)),
          .value = 0};
}

inline KernelArgument scalar_argument(int64_t value) {
  return {.data = nullptr, .size_bytes = 0, .value = value};
}

/// Small integers as floats, so that sums of products are exact; no two rows are alike.
inline std::vector<float> integers(size_t count, int seed) {
  std::vector<float> values(count);
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761U + 12345U;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<int>(state >> 24) % 17 - 8);
  }
  return values;
}

/// What outputs hold before a run: no test expects it.
constexpr float kPoison = -12345.5F;

}  // namespace tenon::testing
