// A bitonic sorting network whose every comparison points the same way.
// SPDX-License-Identifier: MIT
//
// Source: K. Batcher, "Sorting Networks and their Applications", AFIPS 1968; each merge begins by
// comparing with the mirrored half, as in N. Satish et al., "Designing Efficient Sorting Algorithms
// for Manycore GPUs", IPDPS 2009.

#include "tenon/tensor/sorting.h"

#include <bit>

#include "tenon/base/error.h"
#include "tenon/tensor/build.h"

namespace tenon {
namespace {

// Elements with their positions; positions from `count` on are filling and belong behind all else.
struct Keys {
  Tensor values;
  Tensor positions;
};

class Network {
 public:
  Network(int64_t count, bool descending) : count_(count), descending_(descending) {}

  /// Sorts (...,P) along the last axis, P a power of 2.
  Keys run(Keys keys) const {
    const int64_t padded = keys.values.dim(-1);
    for (int64_t size = 2; size <= padded; size *= 2) {
      keys = exchange(keys, size / 2, true);
      for (int64_t distance = size / 4; distance >= 1; distance /= 2)
        keys = exchange(keys, distance, false);
    }
    return keys;
  }

 private:
  // (...,P) seen as (...,P/(2d),2,d): the first half of each block against the second one, in order
  // or mirrored. Each round is stored: fused, the work would double with each.
  Keys exchange(const Keys& keys, int64_t distance, bool is_mirrored) const {
    const Shape shape = keys.values.shape();
    Shape blocks(shape.begin(), shape.end() - 1);
    blocks.insert(blocks.end(), {shape.back() / (2 * distance), 2, distance});
    const auto half = [&](int64_t i) {
      const Slice order{.step = is_mirrored && i == 1 ? -1 : 1};
      const auto take = [&](const Tensor& x) {
        return x.reshape(blocks).getitem({kEllipsis, i, order});
      };
      return Keys{take(keys.values), take(keys.positions)};
    };
    const Keys a = half(0);
    const Keys b = half(1);
    const Tensor is_swapped = comes_before(b, a);
    const auto join = [&](const Tensor& x, const Tensor& y) {
      const Tensor high = where(is_swapped, x, y);
      return stack({where(is_swapped, y, x), is_mirrored ? high.flip(-1) : high}, -2)
          .reshape(shape)
          .contiguous();
    };
    return {join(a.values, b.values), join(a.positions, b.positions)};
  }

  Tensor value_before(const Tensor& a, const Tensor& b) const {
    const Tensor& low = descending_ ? b : a;
    const Tensor& high = descending_ ? a : b;
    const Tensor is_less = low < high;
    if (!is_float(a.dtype())) return is_less;
    return is_less | (high.isnan() & ~low.isnan());
  }

  Tensor comes_before(const Keys& a, const Keys& b) const {
    const Tensor is_before = value_before(a.values, b.values);
    const Tensor is_same = ~(is_before | value_before(b.values, a.values));
    const Tensor is_first = is_before | (is_same & (a.positions < b.positions));
    return (a.positions < count_) & (is_first | (b.positions >= count_));
  }

  int64_t count_;
  bool descending_;
};

}  // namespace

Sorted sort_with_indices(const Tensor& x, int64_t axis, bool descending) {
  const Shape shape = x.shape();
  if (shape.empty()) return {x, Tensor(detail::full_node(DType::kI64, 0, shape))};
  const int64_t at = detail::normalize_axis("sort", axis, shape);
  const Tensor moved = x.swapaxes(at, -1);
  const int64_t count = moved.dim(-1);
  const int64_t padded =
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(count, 1))));
  Pads pads(shape.size());
  pads.back() = {0, padded - count};
  const Tensor values = moved.pad(pads);
  const Tensor positions(detail::position_node(values.shape(), x.ndim() - 1));
  const Keys sorted = Network(count, descending).run({values, positions});
  const auto cut = [&](const Tensor& out) {
    return out.getitem({kEllipsis, Slice{0, count}}).swapaxes(at, -1);
  };
  return {cut(sorted.values), cut(sorted.positions).astype(DType::kI64)};
}

Tensor sort(const Tensor& x, int64_t axis, bool descending) {
  return sort_with_indices(x, axis, descending).values;
}

Tensor argsort(const Tensor& x, int64_t axis, bool descending) {
  return sort_with_indices(x, axis, descending).indices;
}

Sorted topk(const Tensor& x, int64_t k, int64_t axis) {
  const int64_t at = detail::normalize_axis("topk", axis, x.node().shape());
  TENON_CHECK(0 <= k && k <= x.dim(at), ErrorCode::kInvalidArgument, "topk: k is ", k,
              ", expected 0 to ", x.dim(at), "; x is ", x.shape(), ", the axis ", at);
  const Sorted sorted = sort_with_indices(x, at, true);
  Index index(static_cast<size_t>(at), IndexItem(kAll));
  index.emplace_back(Slice{0, k});
  return {sorted.values.getitem(index), sorted.indices.getitem(index)};
}

}  // namespace tenon
