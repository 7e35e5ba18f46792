// Conversions that differ from Tensor::astype. Called by programs. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/tensor/tensor.h"

namespace tenon {

/// As astype, but what lies outside of the finite range of `dtype` becomes its nearest end: wide
/// integers do not wrap, and infinities become finite unless `dtype` reaches further than x's. NaN
/// stays NaN; as an integer it is 0.
Tensor saturate_cast(const Tensor& x, DType dtype);

}  // namespace tenon
