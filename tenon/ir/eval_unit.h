// What a matrix unit computes (types/matrix_unit.h), on bits in canonical form: the meaning of op
// mma. Called by the interpreter; tests measure devices against it. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <span>

#include "tenon/types/matrix_unit.h"

namespace tenon {

/// a * b + c of f32 bits, rounded once; NaN is the canonical one.
using FusedF32 = uint64_t (*)(uint64_t a, uint64_t b, uint64_t c);

/// acc += a * b, in the unit's layouts: m * k, k * n and m * n elements. Throws kUnsupported for
/// dtypes that no rule speaks of. `fused`, if given, is used in place of eval_fused_mulacc.
void eval_unit(const MatrixUnit& unit, std::span<const uint64_t> a, std::span<const uint64_t> b,
               std::span<uint64_t> acc, FusedF32 fused = nullptr);

}  // namespace tenon
