// The programs of this folder with inputs for them and the numbers that must come out, computed in
// plain loops: in whole numbers, in double, or in the order that the program's text promises.
// For the tests of linear programs and of devices. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tenon/types/matrix_unit.h"

namespace tenon::testing {

/// The bits of f32 elements.
using F32Bits = std::vector<uint32_t>;

struct TirCase {
  std::string file;                    ///< in tests/tir
  std::vector<F32Bits> inputs;         ///< the first arguments; one output follows them
  size_t num_outputs;                  ///< elements of the output
  std::vector<MatrixUnit> units = {};  ///< that the Target must have, by number
  /// What is wrong with an output; empty if nothing is.
  std::function<std::string(const F32Bits& output)> find_fault;
};

/// One for each file; inputs differ from place to place.
std::vector<TirCase> tir_cases();

}  // namespace tenon::testing
