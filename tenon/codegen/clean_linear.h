// Removes what a linear program computes twice or for nothing. Pass 10 of docs/ir.md.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/linear.h"

namespace tenon {

/// After: scalar operations on constants are constants (exact class only), equal pure instructions
/// of a region or those around it are one, pure instructions stand outside of the loops that they
/// do not depend on, and what nothing uses is gone. Loads are shared only from arguments that the
/// program does not write; they are never moved to where the memory may not be there.
LinearProgram clean_linear(const LinearProgram& program);

}  // namespace tenon
