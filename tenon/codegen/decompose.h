// Only ops that the Target has. Pass 6 of docs/ir.md. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

/// Before: only dtypes that the Target computes with. After: values use only linear ops that the
/// Target has natively; constants are folded. Stands before instances exist: an exp is 20 nodes
/// once, however often it is unrolled.
///
/// Throws kUnsupported with the reason for an op without a decomposition in its dtype.
Kernel decompose(const Kernel& nest, const Target& target);

}  // namespace tenon
