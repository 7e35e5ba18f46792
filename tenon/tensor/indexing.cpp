// getitem and setitem: an index becomes one plan per axis; reading cuts, flips and steps, writing
// goes the same way back and selects. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"
#include "tenon/tensor/tensor.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

// Positions begin, begin + step, ... (`count` of them), read backwards if is_flipped.
struct AxisPlan {
  int64_t begin = 0;
  int64_t count = 0;
  int64_t step = 1;
  bool is_flipped = false;
  int64_t end() const { return count == 0 ? begin : begin + (count - 1) * step + 1; }
};

struct IndexPlan {
  std::vector<AxisPlan> axes;  // one per axis of x
  Shape kept;                  // counts, one per axis of x
  Shape result;                // without integer axes, with new ones
};

// Python's slice.indices. Positions lie in [-1, dim], so sums cannot overflow after clamping.
AxisPlan plan_slice(const Slice& slice, int64_t dim, ShapeView shape) {
  const int64_t step = std::clamp(slice.step.value_or(1), -dim - 1, dim + 1);
  TENON_CHECK(slice.step.value_or(1) != 0, kInvalid, "getitem: the step of a slice is 0; x is ",
              format_shape(shape));
  const bool is_down = step < 0;
  const auto clamped = [&](int64_t position) {
    if (position < 0) position = position < -dim ? -1 : position + dim;
    return is_down ? std::clamp(position, int64_t{-1}, dim - 1)
                   : std::clamp(position, int64_t{0}, dim);
  };
  const auto lower = [&](int64_t position) {  // below -dim is before the first
    return position < -dim && !is_down ? 0 : clamped(position);
  };
  const int64_t start = slice.start ? lower(*slice.start) : is_down ? dim - 1 : 0;
  const int64_t stop = slice.stop ? lower(*slice.stop) : is_down ? -1 : dim;
  AxisPlan plan;
  plan.step = is_down ? -step : step;
  const int64_t span = is_down ? start - stop : stop - start;
  plan.count = span <= 0 ? 0 : (span - 1) / plan.step + 1;
  if (plan.count == 0) return plan;
  plan.is_flipped = is_down;
  plan.begin = is_down ? start - (plan.count - 1) * plan.step : start;
  return plan;
}

AxisPlan plan_position(int64_t position, size_t axis, ShapeView shape) {
  const int64_t dim = shape[axis];
  TENON_CHECK(-dim <= position && position < dim, kInvalid, "getitem: index ", position,
              " is out of range for axis ", axis, " of size ", dim, "; x is ", format_shape(shape));
  return {.begin = position < 0 ? position + dim : position, .count = 1};
}

IndexPlan plan_index(const Index& index, ShapeView shape) {
  size_t named = 0;
  size_t num_ellipses = 0;
  for (const IndexItem& item : index) {
    named += std::holds_alternative<int64_t>(item) || std::holds_alternative<Slice>(item) ? 1 : 0;
    num_ellipses += std::holds_alternative<Ellipsis>(item) ? 1 : 0;
  }
  TENON_CHECK(named <= shape.size(), kInvalid, "getitem: the index names ", named, " axes; x is ",
              format_shape(shape), " of rank ", shape.size());
  TENON_CHECK(num_ellipses <= 1, kInvalid, "getitem: more than one kEllipsis in the index; x is ",
              format_shape(shape));
  IndexPlan plan;
  const auto keep = [&](const Slice& slice) {
    plan.axes.push_back(plan_slice(slice, shape[plan.axes.size()], shape));
    plan.result.push_back(plan.axes.back().count);
  };
  const auto keep_whole = [&](size_t count) {
    for (size_t i = 0; i < count; ++i)
      keep(kAll);
  };
  for (const IndexItem& item : index) {
    if (const auto* position = std::get_if<int64_t>(&item)) {
      plan.axes.push_back(plan_position(*position, plan.axes.size(), shape));
    } else if (const auto* slice = std::get_if<Slice>(&item)) {
      keep(*slice);
    } else if (std::holds_alternative<NewAxis>(item)) {
      plan.result.push_back(1);
    } else {
      keep_whole(shape.size() - named);
    }
  }
  keep_whole(shape.size() - plan.axes.size());
  for (const AxisPlan& axis : plan.axes)
    plan.kept.push_back(axis.count);
  return plan;
}

std::vector<int64_t> flip_flags(const IndexPlan& plan) {
  std::vector<int64_t> flags;
  for (const AxisPlan& axis : plan.axes)
    flags.push_back(axis.is_flipped ? 1 : 0);
  return flags;
}

bool any_flag(const std::vector<int64_t>& flags) {
  return std::ranges::count(flags, 1) > 0;
}

// x -> the elements that the plan names, one axis per axis of x.
Node gather(const Node& x, const IndexPlan& plan) {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
  for (const AxisPlan& axis : plan.axes) {
    begin.push_back(axis.begin);
    end.push_back(axis.end());
  }
  Node out = x;
  Shape cut;
  for (size_t i = 0; i < begin.size(); ++i)
    cut.push_back(end[i] - begin[i]);
  if (!std::ranges::equal(cut, x.shape())) out = tensor_shrink(out, begin, end);
  for (size_t axis = 0; axis < plan.axes.size(); ++axis) {
    if (plan.axes[axis].count <= 1 || plan.axes[axis].step == 1) continue;
    // Windows of one element, `step` apart.
    out = tensor_window(out, static_cast<int64_t>(axis), 1, plan.axes[axis].step, 1);
    out = tensor_reshape(out, out.shape().first(out.shape().size() - 1));
  }
  const std::vector<int64_t> flags = flip_flags(plan);
  return any_flag(flags) ? tensor_flip(out, flags) : out;
}

// The inverse of gather: the elements at their places in a tensor of `shape`, 0 elsewhere.
Node scatter(const Node& kept, const IndexPlan& plan, ShapeView shape) {
  const std::vector<int64_t> flags = flip_flags(plan);
  Node out = any_flag(flags) ? tensor_flip(kept, flags) : kept;
  for (size_t axis = 0; axis < plan.axes.size(); ++axis) {
    const auto [begin, count, step, is_flipped] = plan.axes[axis];
    if (count <= 1 || step == 1) continue;
    // (..., count, ...) -> (..., count, step, ...) -> (..., count * step, ...) without the last gap
    Shape dims(out.shape().begin(), out.shape().end());
    dims.insert(dims.begin() + static_cast<int64_t>(axis) + 1, 1);
    std::vector<int64_t> before(dims.size(), 0);
    std::vector<int64_t> after(dims.size(), 0);
    after[axis + 1] = step - 1;
    out = tensor_pad(tensor_reshape(out, dims), before, after, 0);
    dims.erase(dims.begin() + static_cast<int64_t>(axis) + 1);
    dims[axis] = count * step;
    out = tensor_reshape(out, dims);
    const std::vector<int64_t> zeros(dims.size(), 0);
    dims[axis] = (count - 1) * step + 1;
    out = tensor_shrink(out, zeros, dims);
  }
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    before.push_back(plan.axes[axis].begin);
    after.push_back(shape[axis] - plan.axes[axis].end());
  }
  return std::ranges::equal(out.shape(), shape) ? out : tensor_pad(out, before, after, 0);
}

}  // namespace

Tensor Tensor::getitem(const Index& index) const {
  const IndexPlan plan = plan_index(index, node().shape());
  return Tensor(detail::reshape_node(gather(node(), plan), plan.result));
}

Tensor& Tensor::setitem(const Index& index, const Operand& value) {
  const Shape dims = shape();
  const IndexPlan plan = plan_index(index, dims);
  const Node source = value.is_scalar() ? detail::full_node("setitem", value.scalar(), dtype(), {})
                                        : detail::cast_node(value.node(), dtype());
  TENON_CHECK(detail::find_broadcast_shape(source.shape(), plan.result) == plan.result, kInvalid,
              "setitem: the value is ", format_shape(source.shape()), " and does not broadcast to ",
              plan.result, "; x is ", dims);
  if (num_elements(plan.kept) == 0) return *this;
  const Node wide = detail::broadcast_node(source, plan.result);
  const Node placed = scatter(detail::reshape_node(wide, plan.kept), plan, dims);
  if (plan.kept == dims) {  // nothing of x is left
    node_ = placed;
    return *this;
  }
  const Node mask = scatter(detail::full_node(DType::kBool, 1, plan.kept), plan, dims);
  node_ = tensor_where(mask, placed, node());
  return *this;
}

}  // namespace tenon
