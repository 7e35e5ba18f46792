// Walks the graph below one stored node with an index for each axis, iteratively.
// SPDX-License-Identifier: MIT

#include "tenon/schedule/lower_movement.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/rules/fold.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

using Index = std::vector<Node>;

/// Where and under which condition a node is read: index per axis, and a gate (null: always).
struct View {
  Index index;
  Node gate;
};

Node both(const Node& a, const Node& b) {
  if (!a) return b;
  if (!b) return a;
  return make_expr(Op::kAnd, a, b);
}

// --- one function per movement op: view of the result -> view of the source ----------------------

// Axes are matched in groups with equal products, so that only axes that really mix are combined.
Index reshape_index(const Index& index, ShapeView from, ShapeView to) {
  Index result(to.size());
  size_t i = 0;
  size_t j = 0;
  while (i < from.size() || j < to.size()) {
    const size_t first_i = i;
    const size_t first_j = j;
    int64_t product_i = i < from.size() ? from[i++] : 1;
    int64_t product_j = j < to.size() ? to[j++] : 1;
    while (product_i != product_j) {
      if (product_i < product_j) {
        product_i *= from[i++];
      } else {
        product_j *= to[j++];
      }
    }
    Node flat = idx_const(0);
    for (size_t axis = first_i; axis < i; ++axis) {
      const int64_t dim = from[is_planted(PlantedFault::kReshapeMultiplier) ? first_i : axis];
      flat = make_expr(Op::kAdd, make_expr(Op::kMul, flat, idx_const(dim)), index[axis]);
    }
    int64_t stride = product_j;
    for (size_t axis = first_j; axis < j; ++axis) {
      stride /= to[axis];
      Node part = make_expr(Op::kFloorDiv, flat, idx_const(stride));
      if (axis != first_j) part = make_expr(Op::kFloorMod, part, idx_const(to[axis]));
      result[axis] = simplify_index(part);
    }
  }
  return result;
}

Index permute_index(const Index& index, const Node& node) {
  Index result(index.size());
  for (size_t axis = 0; axis < index.size(); ++axis) {
    const auto source = static_cast<size_t>(node.attr(axis));
    if (is_planted(PlantedFault::kPermuteInverse)) {
      result[axis] = index[source];
    } else {
      result[source] = index[axis];
    }
  }
  return result;
}

Index expand_index(Index index, const Node& node) {
  for (size_t axis = 0; axis < index.size(); ++axis) {
    const bool is_kept = node.src(0).shape()[axis] != 1;
    if (!is_kept && !is_planted(PlantedFault::kExpandIndexKept)) index[axis] = idx_const(0);
  }
  return index;
}

Index shrink_index(Index index, const Node& node) {
  for (size_t axis = 0; axis < index.size(); ++axis) {
    const int64_t begin = node.attr(axis);
    if (is_planted(PlantedFault::kShrinkBeginLost) && axis + 1 == index.size()) continue;
    if (begin != 0) {
      index[axis] = simplify_index(make_expr(Op::kAdd, index[axis], idx_const(begin)));
    }
  }
  return index;
}

Index flip_index(Index index, const Node& node) {
  for (size_t axis = 0; axis < index.size(); ++axis) {
    if (node.attr(axis) == 0) continue;
    const bool is_off = is_planted(PlantedFault::kFlipOffByOne);
    const Node last = idx_const(node.shape()[axis] - (is_off ? 0 : 1));
    index[axis] = simplify_index(make_expr(Op::kSub, last, index[axis]));
  }
  return index;
}

Index window_index(Index index, const Node& node) {
  const auto axis = static_cast<size_t>(node.attr(0));
  const Node start = make_expr(Op::kMul, index[axis], idx_const(node.attr(2)));
  const int64_t dilation = is_planted(PlantedFault::kWindowDilationLost) ? 1 : node.attr(3);
  const Node inside = make_expr(Op::kMul, index.back(), idx_const(dilation));
  index[axis] = simplify_index(make_expr(Op::kAdd, start, inside));
  index.pop_back();
  return index;
}

// Returns the view of the padded source and, in `inside`, the condition under which it is read
// (null: always). A gate that is the constant false: no element is read.
View pad_view(const View& view, const Node& node, Node& inside) {
  View result = view;
  const ShapeView source = node.src(0).shape();
  const size_t rank = source.size();
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t before = node.attr(axis);
    const int64_t after = node.attr(rank + axis);
    Node& index = result.index[axis];
    if (before != 0) {
      index = simplify_index(make_expr(Op::kSub, index, idx_const(before)));
      if (!is_planted(PlantedFault::kPadLowGateLost)) {
        inside = both(inside, make_expr(Op::kLe, idx_const(0), index));
      }
    }
    const int64_t end = source[axis] + (is_planted(PlantedFault::kPadHighGateLate) ? 1 : 0);
    if (after != 0) inside = both(inside, make_expr(Op::kLt, index, idx_const(end)));
  }
  if (inside) inside = simplify_index(inside);
  if (inside && is_true(inside)) inside = Node();
  result.gate = both(view.gate, inside);
  if (result.gate) result.gate = simplify_index(result.gate);
  return result;
}

class Lowering {
 public:
  Lowering(const Node& root, const std::function<bool(const Node&)>& is_stored,
           const std::function<bool(const Node&)>& is_tmp)
      : root_(root), is_stored_(is_stored), is_tmp_(is_tmp), current_(root) {
    declare_buffers();
  }

  MovedKernel run() {
    for (const Node& tmp : tmps_)
      add_tmp_comp(tmp);
    current_ = root_;
    View view;
    std::vector<AxisUse> axes;
    for (int64_t dim : root_.shape()) {
      view.index.push_back(new_axis(dim, AxisKind::kPar, axes));
    }
    root_index_ = view.index;
    // A stored reduction is its own tmp plus a copy (and cast) of it; both are one kernel.
    const Node top = is_explicit(root_.op()) ? root_.srcs().back() : root_;  // assign: its value
    Comp last{.dst = 0, .index = view.index, .axes = axes};
    last.value = lower(top, view);
    result_.kernel.body.push_back(Stmt{std::move(last)});
    name_kernel();
    result_.kernel = renumber_axes(result_.kernel);
    for (size_t i = 0; i < result_.kernel.axis_names.size(); ++i) {
      result_.kernel.axis_names[i] = concat("d", i);
    }
    return std::move(result_);
  }

 private:
  static DType accumulator_of(const Node& node) {
    return is_planted(PlantedFault::kAccumulatorNarrow) ? node.dtype() : reduce_accumulator(node);
  }

  static bool is_explicit(Op op) { return op == Op::kContiguous || op == Op::kAssign; }

  // Numbers all buffers before any load is made, in the order of the graph.
  void declare_buffers() {
    Kernel& kernel = result_.kernel;
    kernel.buffers.push_back(parameter("b0", root_, BufferAccess::kOut));
    const std::vector<Node> below = nodes_below();
    for (const Node& node : below) {
      if (!is_source(node) || num_elements(node.shape()) == 0) continue;
      buffer_of_.emplace(node.id(), static_cast<int>(kernel.buffers.size()));
      kernel.buffers.push_back(
          parameter(concat("b", kernel.buffers.size()), node, BufferAccess::kIn));
      result_.inputs.push_back(node);
    }
    int num_tmps = 0;
    for (const Node& node : below) {
      if (is_source(node)) continue;
      const bool has_own_axes = !(node == root_) && is_tmp_(node);
      const bool is_reduction = node.op() == Op::kReduce && !is_empty_reduction(node);
      if (!has_own_axes && !is_reduction) continue;
      buffer_of_.emplace(node.id(), static_cast<int>(kernel.buffers.size()));
      BufferDecl tmp{.name = concat("t", num_tmps++)};
      tmp.dtype = is_reduction ? accumulator_of(node) : node.dtype();
      const ShapeView dims = has_own_axes ? node.shape() : root_.shape();
      tmp.dims.assign(dims.begin(), dims.end());
      kernel.buffers.push_back(std::move(tmp));
      if (has_own_axes) tmps_.push_back(node);
    }
  }

  static BufferDecl parameter(std::string name, const Node& node, BufferAccess access) {
    BufferDecl decl{.name = std::move(name), .dtype = node.dtype()};
    decl.dims.assign(node.shape().begin(), node.shape().end());
    decl.access = access;
    decl.scope = Scope::kGlobal;
    return decl;
  }

  bool is_source(const Node& node) const { return !(node == root_) && is_stored_(node); }

  // Nodes of this kernel, sources before users, including the stored ones that it reads. assign
  // reads its value only.
  std::vector<Node> nodes_below() const {
    std::vector<Node> order;
    std::unordered_map<const void*, bool> seen;
    std::vector<std::pair<Node, size_t>> stack{{root_, root_.op() == Op::kAssign ? 1U : 0U}};
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (!is_source(node) && next < node.srcs().size()) {
        const Node src = node.src(next++);
        if (seen.emplace(src.id(), true).second) stack.emplace_back(src, 0);
        continue;
      }
      order.push_back(node);
      stack.pop_back();
    }
    return order;
  }

  Node new_axis(int64_t extent, AxisKind kind, std::vector<AxisUse>& axes) {
    if (extent == 1) return idx_const(0);
    Node axis = result_.kernel.add_axis("", extent, kind);
    axes.push_back({axis, Role::kNone, 0});
    return axis;
  }

  // --- the walk
  // -----------------------------------------------------------------------------------

  // A task computes one (node, view); finished values are found in done_ by its key.
  struct Task {
    Node node;
    View view;
    bool expanded = false;
    std::vector<std::vector<const void*>> needs;  // keys of the sources
    Node inside;                                  // pad: condition of the source
    bool is_fill_only = false;                    // pad: no element of the source is read
  };

  static std::vector<const void*> key_of(const Node& node, const View& view) {
    std::vector<const void*> key{node.id(), view.gate.id()};
    for (const Node& index : view.index)
      key.push_back(index.id());
    return key;
  }

  Node lower(const Node& node, const View& view) {
    std::vector<Task> stack;
    stack.push_back({node, view});
    while (!stack.empty()) {
      if (done_.contains(key_of(stack.back().node, stack.back().view))) {
        stack.pop_back();
        continue;
      }
      if (!stack.back().expanded) {
        stack.back().expanded = true;
        std::vector<std::pair<Node, View>> sources = expand(stack.back());
        for (const auto& [src, src_view] : sources) {
          stack.back().needs.push_back(key_of(src, src_view));
        }
        // Reversed, so that sources are lowered in order.
        for (size_t i = sources.size(); i-- > 0;) {
          stack.push_back({std::move(sources[i].first), std::move(sources[i].second)});
        }
        continue;
      }
      Task task = std::move(stack.back());
      stack.pop_back();
      Node value = finish(task);
      // Views hold nodes that must outlive the key made of their addresses.
      alive_.push_back(task.view);
      done_.emplace(key_of(task.node, task.view), std::move(value));
    }
    return done_.at(key_of(node, view));
  }

  // Computed by a comp of its own, which stands before.
  bool is_ready_tmp(const Node& node) const { return !(node == current_) && is_tmp_(node); }

  void add_tmp_comp(const Node& node) {
    current_ = node;
    Comp comp{.dst = buffer_of_.at(node.id())};
    View view;
    for (const int64_t dim : node.shape())
      view.index.push_back(new_axis(dim, AxisKind::kPar, comp.axes));
    comp.index = view.index;
    if (node.op() == Op::kReduce) {
      set_reduction(node, view, comp);
      const Node value = lower(node.src(0), view);
      comp.value =
          value.dtype() == accumulator_of(node) ? value : make_cast(value, accumulator_of(node));
    } else {
      comp.value = lower(node, view);
    }
    result_.kernel.body.push_back(Stmt{std::move(comp)});
  }

  // The comp combines as `node` does, and the view of the node becomes that of its source.
  void set_reduction(const Node& node, View& view, Comp& comp) {
    for (int64_t axis : reduce_axes(node)) {
      const int64_t extent = node.src(0).shape()[static_cast<size_t>(axis)];
      view.index[static_cast<size_t>(axis)] = new_axis(extent, AxisKind::kRed, comp.axes);
    }
    comp.combine = reduce_op(node);
    comp.start = identity_of(reduce_op(node), accumulator_of(node));
  }

  static bool is_empty_reduction(const Node& node) {
    return node.op() == Op::kReduce && num_elements(node.src(0).shape()) == 0;
  }

  // A value without elements is never read (it is behind a pad): any constant does. A reduction of
  // nothing is its start.
  bool is_leaf(const Node& node) const {
    return is_source(node) || is_ready_tmp(node) || node.srcs().empty() ||
           num_elements(node.shape()) == 0 || is_empty_reduction(node);
  }

  // The sources of a task and their views.
  std::vector<std::pair<Node, View>> expand(Task& task) {
    const Node& node = task.node;
    if (is_leaf(node)) return {};
    if (node.op() == Op::kReduce) return {{node.src(0), open_reduction(task)}};
    if (node.op() == Op::kPad) {
      View source = pad_view(task.view, node, task.inside);
      task.is_fill_only = source.gate && is_false(source.gate);
      if (task.is_fill_only) return {};
      return {{node.src(0), std::move(source)}};
    }
    if (is_movement(node.op())) {
      return {{node.src(0), View{move_index(task.view.index, node), task.view.gate}}};
    }
    TENON_ASSERT(is_elementwise(node.op()), "lower_movement: ", op_name(node.op()),
                 " is inside a kernel");
    std::vector<std::pair<Node, View>> sources;
    for (const Node& src : node.srcs())
      sources.emplace_back(src, task.view);
    return sources;
  }

  static Index move_index(const Index& index, const Node& node) {
    const Op op = node.op();
    if (op == Op::kReshape) return reshape_index(index, node.shape(), node.src(0).shape());
    if (op == Op::kPermute) return permute_index(index, node);
    if (op == Op::kExpand) return expand_index(index, node);
    if (op == Op::kShrink) return shrink_index(index, node);
    if (op == Op::kFlip) return flip_index(index, node);
    TENON_ASSERT(op == Op::kWindow, "no movement rule for ", op_name(op));
    return window_index(index, node);
  }

  // A reduction gets axes of its own: one for each axis of the kernel's output, and the reduced
  // ones. The view of the source is the task's view over these.
  View open_reduction(const Task& task) {
    Comp comp{.dst = buffer_of_.at(task.node.id())};
    std::vector<std::pair<Node, Node>> renamed;
    for (size_t i = 0; i < root_index_.size(); ++i) {
      Node axis = new_axis(root_.shape()[i], AxisKind::kPar, comp.axes);
      if (!is_const(root_index_[i])) renamed.emplace_back(root_index_[i], axis);
      comp.index.push_back(std::move(axis));
    }
    View view;
    for (const Node& index : task.view.index)
      view.index.push_back(substitute(index, renamed));
    TENON_ASSERT(!task.view.gate, "lower_movement: a reduction behind a pad must be stored");
    set_reduction(task.node, view, comp);
    open_.emplace(task.node.id(), std::move(comp));
    return view;
  }

  Node finish(const Task& task) {
    const Node& node = task.node;
    if (num_elements(node.shape()) == 0) return bits_const(node.dtype(), 0);
    if (is_source(node)) return load(buffer_of_.at(node.id()), node.dtype(), task.view);
    if (is_ready_tmp(node)) {
      const bool is_reduction = node.op() == Op::kReduce;
      const DType dtype = is_reduction ? accumulator_of(node) : node.dtype();
      const Node value = load(buffer_of_.at(node.id()), dtype, task.view);
      return dtype == node.dtype() ? value : make_cast(value, node.dtype());
    }
    if (is_empty_reduction(node)) {
      const Node start = identity_of(reduce_op(node), reduce_accumulator(node));
      return start.dtype() == node.dtype() ? start : make_cast(start, node.dtype());
    }
    if (node.op() == Op::kReduce) return close_reduction(task);
    if (node.op() == Op::kConst) {
      return bits_const(node.dtype(), static_cast<uint64_t>(node.attr(0)));
    }
    if (node.op() == Op::kIndex) {
      return make_cast(task.view.index[static_cast<size_t>(node.attr(0))], node.dtype());
    }
    TENON_CHECK(node.op() != Op::kVariable, ErrorCode::kUnsupported,
                "schedule: symbolic variables cannot be kernel parameters yet; give a number");
    std::vector<Node> values;
    for (const auto& need : task.needs)
      values.push_back(done_.at(need));
    if (node.op() == Op::kPad) return padded(node, task, values);
    if (is_movement(node.op())) return values[0];
    if (node.op() == Op::kCast) return make_cast(values[0], node.dtype());
    if (node.op() == Op::kBitcast) return make_bitcast(values[0], node.dtype());
    return make_expr(node.op(), values);
  }

  static Node load(int buffer, DType dtype, const View& view) {
    if (!view.gate) return make_load(buffer, dtype, view.index);
    return make_gated_load(buffer, dtype, view.index, view.gate, bits_const(dtype, 0));
  }

  static Node padded(const Node& node, const Task& task, const std::vector<Node>& values) {
    const int64_t bits = is_planted(PlantedFault::kPadFillLost) ? 0 : node.attr().back();
    const Node fill = bits_const(node.dtype(), static_cast<uint64_t>(bits));
    if (task.is_fill_only) return fill;
    const Node& value = values[0];
    if (!task.inside) return value;
    // Directly over a load the fill is what the load gives outside: one gate does both.
    if (value.op() == Op::kLoad && !task.view.gate) {
      const LoadParts parts = load_parts(value);
      if (parts.gated && parts.gate == task.inside) {
        return make_gated_load(parts.buffer, value.dtype(), parts.index, parts.gate, fill);
      }
    }
    return make_expr(Op::kWhere, task.inside, value, fill);
  }

  Node close_reduction(const Task& task) {
    const Node& node = task.node;
    Comp comp = std::move(open_.at(node.id()));
    const Node value = done_.at(task.needs[0]);
    const DType accumulator = accumulator_of(node);
    comp.value = value.dtype() == accumulator ? value : make_cast(value, accumulator);
    const int buffer = comp.dst;
    result_.kernel.body.push_back(Stmt{std::move(comp)});
    const Node total = make_load(buffer, accumulator, root_index_);
    return node.dtype() == accumulator ? total : make_cast(total, node.dtype());
  }

  // r for kernels that reduce, e for others, then the output's and the reduced extents.
  void name_kernel() {
    std::string extents;
    for (int64_t dim : root_.shape())
      extents += concat("_", dim);
    for (const Stmt& stmt : result_.kernel.body) {
      for (const AxisUse& use : std::get<Comp>(stmt.node).axes) {
        if (axis_kind(use.axis) == AxisKind::kRed) extents += concat("_", axis_extent(use.axis));
      }
    }
    result_.kernel.name = concat(result_.kernel.body.size() > 1 ? "r" : "e", extents);
  }

  const Node root_;
  const std::function<bool(const Node&)>& is_stored_;
  const std::function<bool(const Node&)>& is_tmp_;
  MovedKernel result_;
  std::vector<Node> tmps_;  // sources before users
  Node current_;            // what the comp at work computes: the root or a tmp
  Index root_index_;
  std::unordered_map<const void*, int> buffer_of_;
  std::unordered_map<const void*, Comp> open_;
  std::map<std::vector<const void*>, Node> done_;  // looked up only, never iterated
  std::vector<View> alive_;
};

}  // namespace

MovedKernel lower_movement(const Node& root, const std::function<bool(const Node&)>& is_stored,
                           const std::function<bool(const Node&)>& is_tmp) {
  TENON_ASSERT(num_elements(root.shape()) > 0, "lower_movement: a value without elements");
  return Lowering(root, is_stored, is_tmp).run();
}

}  // namespace tenon
