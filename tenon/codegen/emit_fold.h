// Patterns of instructions over many values: the halving tree of docs/ir.md and the transpose of a
// square of vectors. Used by emit_linear. SPDX-License-Identifier: MIT

#pragma once

#include <vector>

#include "tenon/ir/linear.h"

namespace tenon {

/// The items (scalars or vectors of one type) combined: h = ceil(n/2), item i takes item i + h for
/// i < n - h, repeat.
ValueId fold_items(LinearBuilder& builder, Op op, std::vector<ValueId> items);

/// The lanes of a vector of type `type` combined in the same tree; a scalar.
ValueId fold_lanes(LinearBuilder& builder, Op op, ValueId vector, const LinearType& type);

/// rows (n vectors of n lanes, n a power of two) -> columns: lane j of column i is lane i of row j.
/// Takes n * log2(n) shuffles of two vectors.
std::vector<ValueId> transpose_square(LinearBuilder& builder, std::vector<ValueId> rows);

/// n vectors, n a power of two -> one: lane 0 of each in order, then lane 1 of each, and so on.
ValueId side_by_side(LinearBuilder& builder, const LinearProgram& program,
                     std::vector<ValueId> vectors);

}  // namespace tenon
