// One flat index for each access. Pass 8a of docs/ir.md. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"

namespace tenon {

/// Before: a nest with one index per dimension. After: every buffer has one dimension (its layout
/// applied) and every access one index, in canonical form. Register buffers too: their indices are
/// constants once unroll and vec axes are.
Kernel flatten_indices(const Kernel& nest);

}  // namespace tenon
