// Removes what a linear program computes twice or for nothing. Pass 10 of docs/ir.md.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/linear.h"

namespace tenon {

/// After: operations on constants are constants (exact class only, vectors of one value too), equal
/// pure instructions of a region or those around it are one, pure instructions stand outside of the
/// loops that they do not depend on, and what nothing uses is gone, values that loops carry and
/// branches yield included. Loads are shared while nothing is stored to their buffer; they are
/// never moved to where the memory may not be there. Buffers do not overlap. Takes linear time.
LinearProgram clean_linear(const LinearProgram& program);

}  // namespace tenon
