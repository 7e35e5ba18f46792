// Whether kernels may compute something on a Target: what it does itself, and what lower_dtypes and
// decompose make of other ops for it. They refuse by these answers. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/types/support.h"

namespace tenon {

/// Values of the dtype: computed by the Target or emulated. idx is always there.
Support supports(const Target& target, DType dtype);
/// The op on operands of the dtype.
Support supports(const Target& target, Op op, DType dtype);

}  // namespace tenon
