// Only dtypes that the Target computes with. Pass 5 of docs/ir.md. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

/// After: every operation is in a dtype of the Target; a narrow float is computed in f32 and
/// rounded after each operation; buffers of dtypes that the Target cannot convert hold unsigned
/// integers of the same width. Stands before decompose, since emulation uses ops that it takes
/// apart.
Kernel lower_dtypes(const Kernel& nest, const Target& target);

}  // namespace tenon
