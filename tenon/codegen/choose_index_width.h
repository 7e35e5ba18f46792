// The width of index arithmetic. Pass 8b of docs/ir.md. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

/// kI32 if the bounds prove that every idx value of the nest, at every step of its computation,
/// fits 32 bits; else kI64. Before: indices are flat.
///
/// Throws kUnsupported, naming the bounds, if 64 bits are needed and the Target lacks them, or if a
/// value may leave 64 bits.
DType choose_index_width(const Kernel& nest, const Target& target);

/// Gives every idx expression the dtype `width` (kI32 or kI64). After: idx is left in axes and
/// scalars only, each under a cast; floordiv and floormod are truncating ops where bounds allow.
Kernel give_indices_width(const Kernel& nest, DType width);

}  // namespace tenon
