// SPDX-License-Identifier: MIT

#include "tenon/codegen/build_nest.h"

#include <algorithm>
#include <unordered_map>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/text.h"
#include "tenon/rules/rewrite.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

const Comp& comp_of(const Stmt& stmt) {
  return std::get<Comp>(stmt.node);
}

Node plus(const Node& a, const Node& b) {
  return simplify_index(make_expr(Op::kAdd, a, b));
}

Node times(const Node& a, int64_t factor) {
  return simplify_index(make_expr(Op::kMul, a, idx_const(factor)));
}

/// What the loops that stand around a point say of one axis.
struct Cover {
  Node base = idx_const(0);  // sum of step * part over its parts so far
  int64_t step = 0;          // of the innermost part; 0: no part yet
};

/// One loop over a part of an axis, and how far it runs.
struct Loop {
  AxisUse use;
  Node extent;
};

// Opens the next part of an axis of `extent` elements; `cover` moves on.
Loop open_part(Kernel& nest, const std::string& name, AxisKind kind, int64_t extent,
               const Part& part, Cover& cover) {
  const int64_t outer = cover.step == 0 ? extent : std::min(cover.step, extent);
  const int64_t bound = std::max<int64_t>((outer + part.step - 1) / part.step, 1);
  const Node axis = nest.add_axis(name, bound, kind);
  Node count = idx_const(bound);
  const bool is_trimmed = !is_planted(PlantedFault::kTailNotTrimmed);
  if (cover.step != 0 && extent % cover.step != 0 && is_trimmed) {
    // The last run of the loop around is short: ceil((extent - base) / step).
    const Node rest = make_expr(Op::kSub, idx_const(extent + part.step - 1), cover.base);
    const Node left = make_expr(Op::kFloorDiv, rest, idx_const(part.step));
    count = simplify_index(make_expr(Op::kMin, count, left));
  }
  const bool is_long = is_planted(PlantedFault::kPartStepLong) && part.step > 1;
  cover.base = plus(cover.base, times(axis, part.step + (is_long ? 1 : 0)));
  cover.step = part.step;
  return {{axis, part.role, 0}, count};
}

class NestBuilder {
 public:
  NestBuilder(const Kernel& kernel, const Plan& plan)
      : kernel_(kernel), plan_(plan), nest_(kernel), root_(comp_of(kernel.body.back())) {
    nest_.body.clear();
    nest_.axis_names.clear();
    nest_.is_nest = true;
  }

  Kernel run() {
    const std::vector<Part>& parts = plan_.comps.back().parts;
    covers_.assign(parts.size() + 1, std::vector<Cover>(root_.axes.size()));
    std::vector<Loop> loops;
    for (size_t i = 0; i < parts.size(); ++i) {
      covers_[i + 1] = covers_[i];
      const auto axis = static_cast<size_t>(parts[i].axis);
      const Node& node = root_.axes[axis].axis;
      loops.push_back(open_part(nest_, name_of(node, parts[i]), axis_kind(node), axis_extent(node),
                                parts[i], covers_[i + 1][axis]));
    }
    place_grid(loops);
    for (size_t i = 0; i + 1 < kernel_.body.size(); ++i)
      declare_tmp(static_cast<int>(i));
    Body body = root_body();
    for (size_t i = parts.size() + 1; i-- > 0;) {
      Body producers = producers_at(static_cast<int>(i));
      body.insert(body.begin(), std::make_move_iterator(producers.begin()),
                  std::make_move_iterator(producers.end()));
      if (i == 0 || parts[i - 1].role == Role::kGrid) continue;
      Loop& loop = loops[i - 1];
      Body outer;
      outer.push_back(Stmt{For{loop.use, loop.extent, std::move(body)}});
      body = std::move(outer);
    }
    nest_.body = std::move(body);
    return std::move(nest_);
  }

 private:
  struct Tmp {
    std::vector<Node> base;  // per dim: first index that is alive
  };

  std::string name_of(const Node& axis, const Part& part) {
    std::string name = kernel_.axis_names[static_cast<size_t>(axis_id(axis))];
    if (part.role == Role::kGrid) name = concat("g", name);
    return concat(name, "_", nest_.axis_names.size());
  }

  // The innermost grid part is dimension 0, so neighbouring groups touch neighbouring memory.
  void place_grid(std::vector<Loop>& loops) {
    size_t num_grid = 0;
    while (num_grid < loops.size() && loops[num_grid].use.role == Role::kGrid)
      ++num_grid;
    for (size_t i = num_grid; i-- > 0;) {
      loops[i].use.dim = static_cast<int>(num_grid - 1 - i);
      nest_.grid.push_back(loops[i].use);
    }
  }

  // Axes of the root as expressions of the loops of the first `depth` parts.
  std::vector<std::pair<Node, Node>> root_axes_at(size_t depth) const {
    std::vector<std::pair<Node, Node>> replacements;
    for (size_t i = 0; i < root_.axes.size(); ++i) {
      replacements.emplace_back(root_.axes[i].axis, covers_[depth][i].base);
    }
    return replacements;
  }

  void declare_tmp(int number) {
    const CompPlan& entry = plan_.comps[static_cast<size_t>(number)];
    const Comp& comp = comp_of(kernel_.body[static_cast<size_t>(number)]);
    BufferDecl& decl = nest_.buffers[static_cast<size_t>(comp.dst)];
    if (tmps_.contains(comp.dst) || decl.access != BufferAccess::kTmp) return;
    const std::vector<int64_t> box = producer_box(kernel_, plan_, number);
    Tmp tmp;
    for (size_t dim = 0; dim < decl.dims.size(); ++dim) {
      tmp.base.push_back(box[dim] == decl.dims[dim]
                             ? idx_const(0)
                             : root_base(dim, static_cast<size_t>(entry.at)));
    }
    const bool is_scalar = std::all_of(box.begin(), box.end(), [](int64_t e) { return e == 1; });
    decl.dims = box;
    decl.scope = is_scalar ? Scope::kReg : Scope::kGroup;
    tmps_.emplace(comp.dst, std::move(tmp));
  }

  // Where the loops of the first `depth` parts stand in dimension `dim` of the root's output.
  Node root_base(size_t dim, size_t depth) const {
    for (size_t i = 0; i < root_.axes.size(); ++i) {
      if (root_.axes[i].axis == root_.index[dim]) return covers_[depth][i].base;
    }
    return idx_const(0);
  }

  // Puts loop expressions for axes, then moves loads of tmps to the part that is alive.
  Node rewrite(const Node& expr, const std::vector<std::pair<Node, Node>>& axes) {
    Rewriter rewriter;
    return rewriter.run(substitute(expr, axes), [this](const Node& node) {
      if (node.op() != Op::kLoad) return node;
      const LoadParts parts = load_parts(node);
      const auto tmp = tmps_.find(parts.buffer);
      if (tmp == tmps_.end()) return node;
      const std::vector<Node> index = local_index(tmp->second, parts.buffer, parts.index);
      if (!parts.gated) return make_load(parts.buffer, node.dtype(), index);
      return make_gated_load(parts.buffer, node.dtype(), index, parts.gate, parts.alt);
    });
  }

  std::vector<Node> local_index(const Tmp& tmp, int buffer, std::span<const Node> index) {
    const BufferDecl& decl = nest_.buffers[static_cast<size_t>(buffer)];
    std::vector<Node> local;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      local.push_back(decl.dims[dim] == 1
                          ? idx_const(0)
                          : simplify_index(make_expr(Op::kSub, index[dim], tmp.base[dim])));
    }
    return local;
  }

  std::vector<Node> placed_index(const Comp& comp, const std::vector<std::pair<Node, Node>>& axes) {
    std::vector<Node> index;
    for (const Node& node : comp.index)
      index.push_back(simplify_index(substitute(node, axes)));
    const auto tmp = tmps_.find(comp.dst);
    return tmp == tmps_.end() ? index : local_index(tmp->second, comp.dst, index);
  }

  Body root_body() {
    const std::vector<std::pair<Node, Node>> axes = root_axes_at(covers_.size() - 1);
    Comp comp = root_;
    comp.axes.clear();
    comp.index = placed_index(root_, axes);
    comp.value = rewrite(root_.value, axes);
    for (Node& guard : comp.guard)
      guard = rewrite(guard, axes);
    Body body;
    body.push_back(Stmt{std::move(comp)});
    return body;
  }

  Body producers_at(int depth) {
    Body body;
    for (size_t i = 0; i + 1 < plan_.comps.size(); ++i) {
      if (plan_.comps[i].at == depth) add_producer(static_cast<int>(i), body);
    }
    return body;
  }

  void add_producer(int number, Body& body) {
    const CompPlan& entry = plan_.comps[static_cast<size_t>(number)];
    const Comp& comp = comp_of(kernel_.body[static_cast<size_t>(number)]);
    if (tmps_.contains(comp.dst) && allocated_.emplace(comp.dst, true).second) {
      body.push_back(Stmt{Alloc{comp.dst}});
    }
    if (comp.combine && comp.start) {
      // The start goes to every element once: the loops over par axes only.
      std::vector<Part> parts;
      for (const Part& part : entry.parts) {
        if (axis_kind(comp.axes[static_cast<size_t>(part.axis)].axis) == AxisKind::kPar) {
          parts.push_back(part);
        }
      }
      Comp start = comp;
      start.combine.reset();
      start.value = is_planted(PlantedFault::kReductionStartZero)
                        ? bits_const(comp.start.dtype(), 0)
                        : comp.start;
      start.start = Node();
      // A guard of a red axis says what is combined, not what has a start.
      std::erase_if(start.guard, [](const Node& guard) {
        const std::vector<Node> nodes = topological_order({&guard, 1});
        return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) {
          return node.op() == Op::kAxis && axis_kind(node) == AxisKind::kRed;
        });
      });
      add_loops(start, entry, parts, body);
    }
    Comp update = comp;
    update.start = Node();
    add_loops(update, entry, entry.parts, body);
  }

  // The Comp inside loops over `parts` of its own axes; axes without parts are fixed by the root's
  // loops around it, dim by dim.
  void add_loops(const Comp& comp, const CompPlan& entry, const std::vector<Part>& parts,
                 Body& body) {
    std::vector<Cover> covers(comp.axes.size());
    std::vector<Loop> loops;
    for (size_t i = 0; i < comp.axes.size(); ++i) {
      covers[i] = cover_from_root(comp, comp.axes[i].axis, entry);
    }
    for (const Part& part : parts) {
      const auto axis = static_cast<size_t>(part.axis);
      const Node& node = comp.axes[axis].axis;
      loops.push_back(open_part(nest_, name_of(node, part), axis_kind(node), axis_extent(node),
                                part, covers[axis]));
    }
    std::vector<std::pair<Node, Node>> axes;
    for (size_t i = 0; i < comp.axes.size(); ++i) {
      axes.emplace_back(comp.axes[i].axis, covers[i].base);
    }
    Comp placed = comp;
    placed.axes.clear();
    placed.index = placed_index(comp, axes);
    placed.value = rewrite(comp.value, axes);
    for (Node& guard : placed.guard)
      guard = rewrite(guard, axes);
    Body inner;
    inner.push_back(Stmt{std::move(placed)});
    for (size_t i = loops.size(); i-- > 0;) {
      Body outer;
      outer.push_back(Stmt{For{loops[i].use, loops[i].extent, std::move(inner)}});
      inner = std::move(outer);
    }
    for (Stmt& stmt : inner)
      body.push_back(std::move(stmt));
  }

  Cover cover_from_root(const Comp& comp, const Node& axis, const CompPlan& entry) const {
    if (entry.at == 0) return {};
    const auto dim = std::find(comp.index.begin(), comp.index.end(), axis);
    if (dim == comp.index.end()) return {};
    const Node& root_axis = root_.index[static_cast<size_t>(dim - comp.index.begin())];
    for (size_t i = 0; i < root_.axes.size(); ++i) {
      if (root_.axes[i].axis == root_axis) return covers_[static_cast<size_t>(entry.at)][i];
    }
    return {};
  }

  const Kernel& kernel_;
  const Plan& plan_;
  Kernel nest_;
  const Comp& root_;
  std::vector<std::vector<Cover>> covers_;  // by number of root parts around, by root axis
  std::unordered_map<int, Tmp> tmps_;
  std::unordered_map<int, bool> allocated_;
};

}  // namespace

Kernel split_root(const Kernel& kernel) {
  const Comp& root = comp_of(kernel.body.back());
  if (!root.combine) return kernel;
  Kernel result = kernel;
  const BufferDecl& out = kernel.buffers[static_cast<size_t>(root.dst)];
  const int tmp =
      result.add_buffer({.name = concat("t_root"), .dtype = out.dtype, .dims = out.dims});
  Comp copy{.dst = root.dst, .store = root.store};
  std::vector<std::pair<Node, Node>> renamed;
  for (const AxisUse& use : root.axes) {
    if (axis_kind(use.axis) != AxisKind::kPar) continue;
    const std::string name = kernel.axis_names[static_cast<size_t>(axis_id(use.axis))];
    const Node axis = result.add_axis(concat(name, "_root"), axis_extent(use.axis), AxisKind::kPar);
    renamed.emplace_back(use.axis, axis);
    copy.axes.push_back({axis, Role::kNone, 0});
  }
  for (const Node& index : root.index)
    copy.index.push_back(substitute(index, renamed));
  copy.value = make_load(tmp, out.dtype, copy.index);
  std::get<Comp>(result.body.back().node).dst = tmp;
  result.body.push_back(Stmt{std::move(copy)});
  return result;
}

Kernel build_nest(const Kernel& kernel, const Plan& plan) {
  return NestBuilder(kernel, plan).run();
}

}  // namespace tenon
