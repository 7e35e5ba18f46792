// SPDX-License-Identifier: MIT

#include "tenon/codegen/merge_axes.h"

#include <algorithm>

#include "tenon/base/text.h"
#include "tenon/codegen/flatten_indices.h"
#include "tenon/rules/access.h"
#include "tenon/rules/rewrite.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

/// Two axes of the Comp, one for the other.
class Merger {
 public:
  explicit Merger(const Kernel& flat) : kernel_(flat) {}

  Kernel run() {
    for (size_t i = 0; i + 1 < comp().axes.size();) {
      if (!merge(i)) ++i;
    }
    return std::move(kernel_);
  }

 private:
  Comp& comp() { return std::get<Comp>(kernel_.body[0].node); }

  // The axes at `i` and behind it, if what they count is counted by one.
  bool merge(size_t i) {
    const Node outer = comp().axes[i].axis;
    const Node inner = comp().axes[i + 1].axis;
    if (!is_one_walk(i)) return false;
    Kernel merged = kernel_;
    const auto name = [&](const Node& axis) {
      return kernel_.axis_names[static_cast<size_t>(axis_id(axis))];
    };
    const Node both = merged.add_axis(concat(name(outer), "_", name(inner)),
                                      axis_extent(outer) * axis_extent(inner), AxisKind::kPar);
    // An offset has extent(inner) * outer + inner, times something, or neither.
    const std::pair<Node, Node> replacement[] = {{outer, idx_const(0)}, {inner, both}};
    const auto moved = [&](const Node& offset) {
      return simplify_index(substitute(offset, replacement));
    };
    Rewriter rewriter;
    Comp& result = std::get<Comp>(merged.body[0].node);
    result.value = rewriter.run(result.value, [&](const Node& node) {
      if (node.op() != Op::kLoad) return node;
      const LoadParts parts = load_parts(node);
      const Node offset[] = {moved(parts.index[0])};
      if (!parts.gated) return make_load(parts.buffer, node.dtype(), offset);
      return make_gated_load(parts.buffer, node.dtype(), offset, parts.gate, parts.alt);
    });
    result.index = {moved(result.index[0])};
    result.axes.erase(result.axes.begin() + static_cast<std::ptrdiff_t>(i));
    result.axes[i].axis = both;
    // What is left of them are values, gates and guards.
    std::vector<Node> roots = result.guard;
    roots.push_back(result.value);
    const std::vector<Node> nodes = topological_order(roots);
    const bool is_left = std::any_of(nodes.begin(), nodes.end(), [&](const Node& node) {
      return node == outer || node == inner;
    });
    if (!is_left) kernel_ = std::move(merged);
    return !is_left;
  }

  bool is_one_walk(size_t i) {
    const int64_t extent = axis_extent(comp().axes[i + 1].axis);
    const std::vector<Access> accesses = analyze_access(kernel_, comp());
    return std::all_of(accesses.begin(), accesses.end(), [&](const Access& access) {
      return !access.is_irregular[i] && !access.is_irregular[i + 1] &&
             access.strides[i] == extent * access.strides[i + 1];
    });
  }

  Kernel kernel_;
};

}  // namespace

Kernel merge_axes(const Kernel& kernel) {
  if (kernel.body.size() != 1) return kernel;
  const size_t num_axes = std::get<Comp>(kernel.body[0].node).axes.size();
  if (num_axes < 2) return kernel;
  Kernel merged = Merger(flatten_indices(kernel)).run();
  if (std::get<Comp>(merged.body[0].node).axes.size() == num_axes) return kernel;
  return merged;
}

}  // namespace tenon
