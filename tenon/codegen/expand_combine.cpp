// SPDX-License-Identifier: MIT

#include "tenon/codegen/expand_combine.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/integer.h"
#include "tenon/base/text.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

/// What a Combine over lanes does with its axes.
struct Fold {
  std::vector<AxisUse> kept;    ///< looped over: the destination uses them
  std::vector<AxisUse> folded;  ///< unroll and vec
  Node item = idx_const(0);     ///< number of the lane among those that are folded together
  int64_t num_items = 1;
  Node list = idx_const(0);  ///< number of the list that it belongs to
  int64_t num_lists = 1;
};

Node row_major(const Node& outer, const AxisUse& use) {
  const int64_t extent = axis_extent(use.axis);
  return simplify_index(
      make_expr(Op::kAdd, make_expr(Op::kMul, outer, idx_const(extent)), use.axis));
}

Fold fold_of(const Kernel& nest, const Combine& combine) {
  Fold fold;
  for (const AxisUse& use : combine.axes) {
    const bool is_kept = std::ranges::any_of(
        combine.dst_index, [&](const Node& index) { return uses_axis(index, use.axis); });
    if (use.role == Role::kLane) {
      fold.item = row_major(fold.item, use);
      fold.num_items *= axis_extent(use.axis);
    } else {
      (is_kept ? fold.kept : fold.folded).push_back(use);
    }
  }
  for (const AxisUse& use : nest.lanes) {
    if (std::ranges::find(combine.axes, use) != combine.axes.end()) continue;
    fold.list = row_major(fold.list, use);
    fold.num_lists *= axis_extent(use.axis);
  }
  return fold;
}

Shape dims_of(const Fold& fold) {
  Shape dims;
  if (fold.num_lists > 1) dims.push_back(fold.num_lists);
  dims.push_back(fold.num_items);
  for (const AxisUse& use : fold.kept)
    dims.push_back(axis_extent(use.axis));
  return dims;
}

class CombineExpander {
 public:
  explicit CombineExpander(const Kernel& nest) : nest_(nest) {}

  // NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
  Body expand(const Body& body) {
    Body result;
    for (const Stmt& stmt : body) {
      const auto* combine = std::get_if<Combine>(&stmt.node);
      const auto is_lane = [](const AxisUse& use) { return use.role == Role::kLane; };
      if (combine != nullptr && std::ranges::any_of(combine->axes, is_lane)) {
        expand(*combine, result);
      } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
        result.push_back(Stmt{For{loop->axis, loop->extent, expand(loop->body)}});
      } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
        result.push_back(
            Stmt{If{branch->condition, expand(branch->then_body), expand(branch->else_body)}});
      } else {
        result.push_back(stmt);
      }
    }
    return result;
  }

 private:
  void expand(const Combine& source, Body& result) {
    const Fold fold = fold_of(nest_, source);
    const DType dtype = nest_.buffers[static_cast<size_t>(source.dst)].dtype;
    check_via(source, fold, dtype);
    if (!fold.folded.empty() || source.src != source.dst) {
      Combine own = source;
      own.via.reset();
      own.axes = fold.kept;
      own.axes.insert(own.axes.end(), fold.folded.begin(), fold.folded.end());
      result.push_back(Stmt{std::move(own)});
    }
    const Node value = make_load(source.dst, dtype, source.dst_index);
    const auto load = [&](const Node& item) {
      return make_load(*source.via, dtype, via_index(fold, item));
    };
    const auto store = [&](Body& body) {
      body.push_back(Stmt{Comp{.dst = *source.via,
                               .index = via_index(fold, fold.item),
                               .value = value,
                               .combine = {},
                               .axes = fold.kept}});
    };
    store(result);
    for (int64_t count = fold.num_items; count > 1;) {
      const int64_t half = ceil_div(count, int64_t{2});
      Body step;
      step.push_back(Stmt{Comp{.dst = source.dst,
                               .index = source.dst_index,
                               .value = load(make_expr(Op::kAdd, fold.item, idx_const(half))),
                               .combine = source.op,
                               .axes = fold.kept}});
      store(step);
      const Node has_other = make_expr(Op::kLt, fold.item, idx_const(count - half));
      result.push_back(Stmt{If{has_other, std::move(step), {}}});
      count = half;
    }
    result.push_back(Stmt{Comp{.dst = source.dst,
                               .index = source.dst_index,
                               .value = load(idx_const(0)),
                               .combine = {},
                               .axes = fold.kept}});
  }

  void check_via(const Combine& source, const Fold& fold, DType dtype) const {
    const std::string& name = nest_.buffers[static_cast<size_t>(source.dst)].name;
    TENON_CHECK(source.via, ErrorCode::kUnsupported, "expand_combine: the fold into '", name,
                "' of '", nest_.name, "' is over lanes and goes via no buffer");
    const BufferDecl& via = nest_.buffers[static_cast<size_t>(*source.via)];
    const Shape wanted = dims_of(fold);
    const bool is_large =
        via.dims.size() == wanted.size() &&
        std::equal(wanted.begin(), wanted.end(), via.dims.begin(), std::less_equal<>());
    TENON_CHECK(is_large && via.dtype == dtype, ErrorCode::kUnsupported, "expand_combine: '",
                via.name, "' does not hold what the lanes of '", nest_.name, "' fold into '", name,
                "'; expected ", dtype_name(dtype), format_shape(wanted));
  }

  static std::vector<Node> via_index(const Fold& fold, const Node& item) {
    std::vector<Node> index;
    if (fold.num_lists > 1) index.push_back(fold.list);
    index.push_back(simplify_index(item));
    for (const AxisUse& use : fold.kept)
      index.push_back(use.axis);
    return index;
  }

  const Kernel& nest_;
};

}  // namespace

Shape via_dims(const Kernel& nest, const Combine& combine) {
  return dims_of(fold_of(nest, combine));
}

Kernel expand_combine(const Kernel& nest) {
  Kernel result = nest;
  result.body = CombineExpander(nest).expand(nest.body);
  return result;
}

}  // namespace tenon
