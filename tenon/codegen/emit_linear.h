// Emits the linear program of a nest. Pass 9 of docs/ir.md, the only one that sees instances of
// unroll and vec axes. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"
#include "tenon/types/matrix_unit.h"

namespace tenon {

/// Before: a nest with flat indices, native ops and dtypes only, lanes of one; `index_dtype` is
/// what choose_index_width gave; a Comp has at most one vec axis, seq axes stand outside those that
/// it combines over; a register buffer is addressed along vec axes of one extent, with stride 0 or
/// 1, and only a Combine folds a vec axis. All else is an assertion with the nest's name.
///
/// After: register buffers are SSA values carried by loops: vectors if they are addressed along a
/// vec axis, else scalars. An unroll axis becomes instances in row-major order, a vec axis vectors.
/// Along the vec axis an index of coefficient 1 is a vector access, 0 a scalar and a splat, all
/// else a gather or scatter; a load that is contiguous along an unroll axis of the same extent is
/// read in rows and transposed by shuffles. A guard gates stores and what loads may not touch, as
/// masks where it depends on the vec axis, `first_n` where it is `position < bound`. Instances
/// share the part of an address that does not depend on them; the rest is the access's offset. A
/// reduction's product is `mulacc`. Group buffers are allocs at the start of the body.
///
/// A Comp with a unit axis is an `mma` of one of `units`, the Target's, for each of its instances.
/// A Comp that stores with the stride of an unroll axis's extent along its vec axis, and with
/// stride 1 along that unroll axis, is stored as one vector: its values side by side.
LinearProgram emit_linear(const Kernel& nest, DType index_dtype,
                          std::span<const MatrixUnit> units = {});

}  // namespace tenon
