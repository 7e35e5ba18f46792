// Random linear programs: vectors of several widths, masks, gathers, shuffles, loops that carry,
// branches. What the tests of renderers run. SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tenon/ir/linear.h"
#include "tenon/types/target.h"

namespace tenon::testing {

/// A verified program of what `target` computes with, named "random_<seed>". Buffers of indices are
/// called "at" and hold i32 from 0 to 63; the scalar "n" is an i32 from 0 to 5. Results depend on
/// no payload or sign of a NaN, and each group writes elements of its own.
LinearProgram random_program(uint64_t seed, const Target& target);

}  // namespace tenon::testing
