// Pass 7b: Barriers between accesses of different lanes to one place of group memory, or of what
// the kernel writes, where at least one writes. Before: no Combine over lanes. After: removing any
// Barrier lets two lanes meet. Behind expand_combine, which leaves the barriers to this pass; in
// front of flatten_indices, because indices by dim tell more. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"

namespace tenon {

/// For nests with lanes. Barriers that the nest has count; those that it does not need go.
/// Throws kUnsupported if one would have to stand where not all lanes come.
Kernel insert_barriers(const Kernel& nest);

}  // namespace tenon
