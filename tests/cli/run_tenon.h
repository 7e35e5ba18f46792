// Runs the built command `tenon` as a process, as a user does. For all tests of tests/cli.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "tenon/ir/node.h"
#include "tests/support/temp_folder.h"

namespace tenon::testing {

struct TenonResult {
  int exit_code = 0;  ///< minus the signal's number if one ended it
  std::string out;
  std::string err;
};

/// With the environment of the test, without DEV and TENON_DEBUG, and with `variables` on top. The
/// compile cache is that of the test, else a folder of this process. Outputs are poisoned, buffers
/// guarded.
TenonResult run_tenon(const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& variables = {});

/// Elements of a .npy file, which must have this dtype and shape (checked by EXPECT).
std::vector<std::byte> npy_bytes(const std::string& path, DType dtype, const Shape& shape);
template <typename T>
std::vector<T> npy_values(const std::string& path, DType dtype, const Shape& shape) {
  const std::vector<std::byte> bytes = npy_bytes(path, dtype, shape);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Element i of float input number k, as `tenon run --help` says.
inline float coded_float(int64_t i, int64_t k) {
  return static_cast<float>((37 * i + 11 * k) % 101 - 50) / 32;
}

}  // namespace tenon::testing
