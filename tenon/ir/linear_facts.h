// What can be said of the values of a linear program without running it. For the verifier,
// renderers and clean_linear. The program's structure must be sound (verify_linear).
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <vector>

#include "tenon/ir/linear.h"

namespace tenon {

/// By ValueId: may the value differ between the lanes of one group? It does if it comes from
/// lane_id, from private memory, from an atomic, or from control flow that differs. A load from
/// global or group memory at a uniform address is uniform (anything else is a race).
std::vector<bool> lane_variant_values(const LinearProgram& program);

/// The lowest `known` bits of a scalar integer are those of `value`, whatever the inputs.
struct LowBits {
  int known = 0;
  uint64_t value = 0;
};

/// By ValueId; nothing known for what is not a scalar integer.
std::vector<LowBits> known_low_bits(const LinearProgram& program);

}  // namespace tenon
