// Values at which arithmetic goes wrong, per dtype, as canonical bits (ir/eval_op.h). For value
// tests of ops on devices. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <vector>

#include "tenon/types/dtype.h"

namespace tenon::testing {

/// Both signs of: zero, denormals, the ends of the format, NaN, infinity, ties of rounding to an
/// integer and to each narrower float format, the limits of each integer dtype. For integers: the
/// ends, powers of two, small numbers, and shift counts around the width. Each once, in no order.
std::vector<uint64_t> special_values(DType dtype);

/// About a dozen of them, for tests over constants, where each pair costs compile time.
std::vector<uint64_t> edge_values(DType dtype);

}  // namespace tenon::testing
