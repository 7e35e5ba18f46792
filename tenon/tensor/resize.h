// Resampling of images and other arrays to another size. Called by programs.
// SPDX-License-Identifier: MIT

#pragma once

#include <utility>
#include <vector>

#include "tenon/tensor/tensor.h"

namespace tenon {

/// Which elements a new one comes from; o is its position, `in` and `out` are the sizes.
enum class Interpolation {
  kNearest,       ///< position floor(o * in / out)
  kNearestExact,  ///< the element under the centre of the new one: floor((o + 1/2) * in / out)
  kLinear,        ///< the two around (o + 1/2) * in / out - 1/2, at the ends the last one
};

/// x with size `second` along axis `first` of each pair, one axis after the other. Linear: narrow
/// floats are computed in f32, integers become f32. Costs in * out along each axis.
Tensor interpolate(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& sizes,
                   Interpolation mode = Interpolation::kNearest);

}  // namespace tenon
