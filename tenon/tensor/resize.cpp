// Positions in integers, so that no rounding moves one; elements by selection, so that bits and
// infinities stay what they are. SPDX-License-Identifier: MIT

#include "tenon/tensor/resize.h"

#include "tenon/base/error.h"
#include "tenon/tensor/build.h"
#include "tenon/tensor/creation.h"

namespace tenon {
namespace {

constexpr TensorOptions kInt64{.dtype = DType::kI64, .device = nullptr};

// x (...,in) -> (...,out): element positions[o], of an axis of size in. The bits are kept: those
// that are not wanted are 0, and the sum is one of integers.
Tensor select_last(const Tensor& x, const Tensor& positions) {
  const Tensor is_wanted = arange(x.dim(-1), kInt64) == positions.expand_dims(1);
  const Tensor wide = x.expand_dims(-2);
  if (x.dtype() == DType::kBool) return where(is_wanted, wide, false).any(-1);
  const DType bits = unsigned_of_same_width(x.dtype());
  return where(is_wanted, wide.bitcast(bits), 0)
      .sum(-1, {.keepdims = false, .dtype = bits})
      .bitcast(x.dtype());
}

Tensor resize_nearest(const Tensor& x, int64_t size, bool is_exact) {
  const Tensor position = arange(size, kInt64);
  return select_last(x, is_exact ? ((position * 2 + 1) * x.dim(-1)).floor_divide(2 * size)
                                 : (position * x.dim(-1)).floor_divide(size));
}

// The centre lies at ((2o + 1) * in - out) / (2 * out).
Tensor resize_linear(const Tensor& x, int64_t size) {
  const int64_t last = x.dim(-1) - 1;
  const Tensor centre = (arange(size, kInt64) * 2 + 1) * x.dim(-1) - size;
  const Tensor inside = centre.clip(0, 2 * size * last);
  const Tensor before = inside.floor_divide(2 * size);
  const Tensor weight = inside.remainder(2 * size).astype(x.dtype()) / (2 * size);
  const Tensor low = select_last(x, before);
  const Tensor high = select_last(x, (before + 1).minimum(last));
  // Where the weight is 0 the other element does not count, whatever it is.
  return where(weight == 0, low, low * (1 - weight) + high * weight);
}

}  // namespace

Tensor interpolate(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& sizes,
                   Interpolation mode) {
  const bool is_linear = mode == Interpolation::kLinear;
  const DType result = !is_linear || is_float(x.dtype()) ? x.dtype() : DType::kF32;
  Tensor out = is_linear ? x.astype(detail::compute_dtype(x.dtype())) : x;
  for (const auto& [axis, size] : sizes) {
    const int64_t at = detail::normalize_axis("interpolate", axis, x.node().shape());
    TENON_CHECK(size >= 1 && x.dim(at) >= 1, ErrorCode::kInvalidArgument, "interpolate: axis ", at,
                " of size ", x.dim(at), " to size ", size, ", expected 1 or more; x is ",
                x.shape());
    const Tensor moved = out.swapaxes(at, -1);
    const Tensor resized = is_linear
                               ? resize_linear(moved, size)
                               : resize_nearest(moved, size, mode == Interpolation::kNearestExact);
    out = resized.contiguous().swapaxes(at, -1);
  }
  return out.astype(result);
}

}  // namespace tenon
