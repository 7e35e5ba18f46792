// Emits the linear program of a nest. Pass 9 of docs/ir.md, the only one that sees instances of
// unroll and vec axes. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"

namespace tenon {

/// Before: a nest with flat indices, native ops and dtypes only, lanes of one; `index_dtype` is
/// what choose_index_width gave. After: a linear program: register buffers are SSA values carried
/// by loops, unroll and vec axes are instances (scalars, in row-major order), a reduction's product
/// is `mulacc`. Group buffers are allocs at the start of the body.
LinearProgram emit_linear(const Kernel& nest, DType index_dtype);

}  // namespace tenon
