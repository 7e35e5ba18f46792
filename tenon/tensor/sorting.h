// Sorting along an axis as graph: any device sorts with the kernels that it has anyway. Called by
// programs. SPDX-License-Identifier: MIT
//
// The order is total, so results are the same everywhere: equal elements keep their order (the
// lower position first, descending too), the zeros are equal, NaN counts as the largest.

#pragma once

#include "tenon/tensor/tensor.h"

namespace tenon {

struct Sorted {
  Tensor values;
  Tensor indices;  ///< where each value was along the axis; int64
};

/// Costs log2(n) * (log2(n) + 1) / 2 rounds over x, n its size along `axis`.
Sorted sort_with_indices(const Tensor& x, int64_t axis = -1, bool descending = false);
Tensor sort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// Positions that sort x; int64.
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// The k largest along `axis`, falling. Throws kInvalidArgument unless 0 <= k <= size.
Sorted topk(const Tensor& x, int64_t k, int64_t axis = -1);

}  // namespace tenon
