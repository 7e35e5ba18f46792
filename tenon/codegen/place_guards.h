// Guards and gates after the loops are placed. Pass 4 of docs/ir.md. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"

namespace tenon {

/// Before: a nest. After: indices and gates are in canonical form under the bounds of the loops;
/// what the bounds prove is dropped (a gated load whose gate always holds is a plain load, one
/// whose gate never holds is its alternative, a Comp whose guard never holds is gone); guards stand
/// in an If around their Comp where no unroll or vec axis of the Comp occurs in them.
///
/// Stands after build_nest, since only there the bounds of all axes are known.
Kernel place_guards(const Kernel& nest);

}  // namespace tenon
