// Axes that all operands walk as one become one, so that short ones fill vectors and kernels of
// equal walks get equal loops. Called by prepare_kernel. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/ir/kernel.h"

namespace tenon {

/// Before: a kernel after split_root. After: of a kernel with one Comp no two axes that follow each
/// other are one walk over every buffer (or none) that they index; if some were, indices and dims
/// of all buffers are flat. Other kernels stay: boxes of tmps go by dims.
Kernel merge_axes(const Kernel& kernel);

}  // namespace tenon
