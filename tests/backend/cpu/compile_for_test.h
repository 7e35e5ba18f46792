// Compiles C to an object for the loader's tests, with this machine's features or none.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "tenon/backend/cpu/clang_compiler.h"

namespace tenon::cpu {

inline std::vector<std::byte> compile_for_test(std::string_view source,
                                               const ClangOptions& options = {}) {
  static const ClangTool clang = find_clang();
  return compile_c(clang, source, baseline_cpu_features(), options);
}

}  // namespace tenon::cpu
