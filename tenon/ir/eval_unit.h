// What a matrix unit computes (types/matrix_unit.h), on bits in canonical form: the meaning of op
// mma. Called by the interpreter; tests measure devices against it. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <span>

#include "tenon/types/matrix_unit.h"

namespace tenon {

/// acc += a * b, in the unit's layouts: m * k, k * n and m * n elements. Throws kUnsupported for
/// dtypes that no rule speaks of.
void eval_unit(const MatrixUnit& unit, std::span<const uint64_t> a, std::span<const uint64_t> b,
               std::span<uint64_t> acc);

}  // namespace tenon
