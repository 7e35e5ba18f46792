// Pass 7a: a Combine over lanes becomes the halving tree of docs/ir.md in group memory: each lane
// stores its value, item i takes item i + h, all lanes read the first. Before: native ops. After:
// Combines fold unroll and vec axes only. The barriers are insert_barriers'.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"

namespace tenon {

/// Dims of the buffer that a Combine goes via: [lanes that are not folded]
/// (if there are any), [lanes that are], then the axes that stay, in the order of the Combine.
Shape via_dims(const Kernel& nest, const Combine& combine);

/// For nests with lanes. Throws kUnsupported if a Combine over lanes has no such
/// buffer.
Kernel expand_combine(const Kernel& nest);

}  // namespace tenon
