// Movement in the oracle: every op is a gather with strides, but pad, which fills and copies.
// SPDX-License-Identifier: MIT

#include "tenon/base/error.h"
#include "tenon/conform/oracle_parts.h"

namespace tenon::detail {
namespace {

// Calls body(offset) for each row (all axes but the last) of `shape`, in row-major order.
template <typename Body>
void for_each_row(ShapeView shape, int64_t base, std::span<const int64_t> strides, Body&& body) {
  const size_t num_outer = shape.empty() ? 0 : shape.size() - 1;
  std::vector<int64_t> index(num_outer, 0);
  int64_t offset = base;
  while (true) {
    body(offset);
    size_t axis = num_outer;
    while (axis > 0) {
      --axis;
      offset += strides[axis];
      if (++index[axis] < shape[axis]) break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
      if (axis == 0) return;
    }
    if (num_outer == 0) return;
  }
}

template <typename T>
void gather_one(const std::vector<T>& x, ShapeView shape, int64_t base,
                std::span<const int64_t> strides, std::vector<T>& out) {
  if (x.empty()) return;
  out.resize(count_of(shape));
  if (out.empty()) return;
  const int64_t length = shape.empty() ? 1 : shape.back();
  const int64_t stride = shape.empty() ? 0 : strides.back();
  T* to = out.data();
  for_each_row(shape, base, strides, [&](int64_t offset) {
    for (int64_t i = 0; i < length; ++i)
      *to++ = x[static_cast<size_t>(offset + i * stride)];
  });
}

// The rows of x (X) at offset `base` with `strides` of the larger out.
template <typename T>
void scatter_one(const std::vector<T>& x, ShapeView shape, int64_t base,
                 std::span<const int64_t> strides, std::vector<T>& out) {
  if (x.empty()) return;
  const int64_t length = shape.empty() ? 1 : shape.back();
  const T* from = x.data();
  for_each_row(shape, base, strides, [&](int64_t offset) {
    for (int64_t i = 0; i < length; ++i)
      out[static_cast<size_t>(offset + i)] = *from++;
  });
}

void pad(const Node& node, const OracleValue& x, OracleValue& out) {
  const std::span<const int64_t> attr = node.attr();
  const std::vector<int64_t> strides = strides_of(out.shape);
  int64_t base = 0;
  for (size_t axis = 0; axis < strides.size(); ++axis)
    base += attr[axis] * strides[axis];
  const size_t count = count_of(out.shape);
  out.bits.assign(count, static_cast<uint64_t>(attr.back()));
  if (!x.radius.empty()) out.radius.assign(count, 0);
  if (!x.excluded.empty()) out.excluded.assign(count, 0);
  scatter_one(x.bits, x.shape, base, strides, out.bits);
  scatter_one(x.radius, x.shape, base, strides, out.radius);
  scatter_one(x.excluded, x.shape, base, strides, out.excluded);
}

}  // namespace

size_t count_of(ShapeView shape) {
  size_t count = 1;
  for (int64_t dim : shape)
    count *= static_cast<size_t>(dim);
  return count;
}

std::vector<int64_t> strides_of(ShapeView shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

void gather(const OracleValue& x, int64_t base, std::span<const int64_t> strides,
            OracleValue& out) {
  gather_one(x.bits, out.shape, base, strides, out.bits);
  gather_one(x.radius, out.shape, base, strides, out.radius);
  gather_one(x.excluded, out.shape, base, strides, out.excluded);
}

void evaluate_movement(const Node& node, const OracleValue& x, OracleValue& out) {
  if (node.op() == Op::kPad) return pad(node, x, out);
  if (node.op() == Op::kReshape) {
    out.bits = x.bits;
    out.radius = x.radius;
    out.excluded = x.excluded;
    return;
  }
  if (count_of(out.shape) == 0) return;
  const std::span<const int64_t> attr = node.attr();
  std::vector<int64_t> strides = strides_of(x.shape);
  int64_t base = 0;
  if (node.op() == Op::kPermute) {
    const std::vector<int64_t> of_source = strides;
    for (size_t axis = 0; axis < strides.size(); ++axis)
      strides[axis] = of_source[static_cast<size_t>(attr[axis])];
  } else if (node.op() == Op::kExpand) {
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      if (x.shape[axis] == 1) strides[axis] = 0;
    }
  } else if (node.op() == Op::kShrink) {
    for (size_t axis = 0; axis < strides.size(); ++axis)
      base += attr[axis] * strides[axis];
  } else if (node.op() == Op::kFlip) {
    for (size_t axis = 0; axis < strides.size(); ++axis) {
      if (attr[axis] == 0) continue;
      base += (x.shape[axis] - 1) * strides[axis];
      strides[axis] = -strides[axis];
    }
  } else {
    TENON_ASSERT(node.op() == Op::kWindow, "oracle: no movement for ", op_name(node.op()));
    const int64_t stride = strides[static_cast<size_t>(attr[0])];
    strides[static_cast<size_t>(attr[0])] = stride * attr[2];
    strides.push_back(stride * attr[3]);
  }
  gather(x, base, strides, out);
}

}  // namespace tenon::detail
