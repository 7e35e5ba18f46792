// Rules on the form of kernels: axes, target limits, barriers, roles, dtypes, depth, stage.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_verify_rules.h"
#include "tenon/ir/kernel_words.h"

namespace tenon::detail {

// --- V1: every axis used is bound exactly once ---------------------------------------------------

namespace {

class AxisScopes {
 public:
  explicit AxisScopes(Verifying& v) : v_(v) {}

  void verify() {
    std::set<int64_t> group;
    for (const auto* axes : {&v_.kernel.grid, &v_.kernel.lanes}) {
      for (const AxisUse& use : *axes)
        bind(use.axis, group, "the launch");
    }
    for (size_t site = 0; site < v_.sites.size(); ++site)
      verify_site(site, group);
  }

 private:
  void bind(const Node& axis, std::set<int64_t>& bound, const std::string& where) {
    if (!bound.insert(axis_id(axis)).second) {
      v_.report(Severity::kError,
                concat(where, ": axis '", v_.axis_name(axis), "' is bound twice"));
    }
    const auto [first, is_new] = axis_of_id_.emplace(axis_id(axis), axis);
    if (!is_new && !(first->second == axis)) {
      v_.report(Severity::kError, concat(where, ": axis '", v_.axis_name(axis),
                                         "' is bound with another extent or kind elsewhere"));
    }
  }

  void verify_site(size_t site, const std::set<int64_t>& group) {
    const Stmt& stmt = *v_.sites[site].stmt;
    std::set<int64_t> bound = group;
    for (const size_t outer : v_.enclosing(site)) {
      if (const auto* loop = std::get_if<For>(&v_.sites[outer].stmt->node)) {
        bound.insert(axis_id(loop->axis.axis));
      }
    }
    std::set<int64_t> inside = bound;
    const bool is_fold = std::holds_alternative<Combine>(stmt.node);
    for (const AxisUse& use : axes_of(stmt)) {
      const bool is_group_lane = is_fold && use.role == Role::kLane;
      if (!is_group_lane) bind(use.axis, inside, v_.name(site));
    }
    const bool is_for = std::holds_alternative<For>(stmt.node);
    verify_uses(site, is_for ? bound : inside);
  }

  void verify_uses(size_t site, const std::set<int64_t>& bound) {
    std::set<int64_t> reported;
    for_each_expr(*v_.sites[site].stmt, [&](const Node& expr) {
      for (const Node& axis : nodes_of(expr, Op::kAxis)) {
        const int64_t id = axis_id(axis);
        const auto known = axis_of_id_.find(id);
        const bool is_same = known != axis_of_id_.end() && known->second == axis;
        if ((bound.contains(id) && is_same) || !reported.insert(id).second) continue;
        v_.error(site, concat("axis '", v_.axis_name(axis), "' is used but not bound here"));
      }
    });
  }

  Verifying& v_;
  std::map<int64_t, Node> axis_of_id_;
};

}  // namespace

void verify_axes(Verifying& v) {
  AxisScopes(v).verify();
}

// --- V5: group bytes and lanes within the Target -------------------------------------------------

namespace {

int64_t add_saturating(int64_t sum, int64_t count, int64_t size) {
  const bool overflows =
      __builtin_mul_overflow(count, size, &count) || __builtin_add_overflow(sum, count, &sum);
  return overflows ? INT64_MAX : sum;
}

}  // namespace

void verify_target(Verifying& v) {
  if (v.target == nullptr) return;
  int64_t lanes = 1;
  for (const AxisUse& use : v.kernel.lanes) {
    if (__builtin_mul_overflow(lanes, axis_extent(use.axis), &lanes)) lanes = INT64_MAX;
  }
  v.expect(supports(*v.target, Limit::kLanes, lanes));
  // What is alive at once: the allocs before a statement in the bodies around it.
  int64_t most = 0;
  std::vector<int64_t> bytes_of_body(2 * (v.sites.size() + 1), 0);  // so far
  const auto body_of = [](const Site& site) {
    return 2 * static_cast<size_t>(site.parent + 1) + (site.in_else ? 1 : 0);
  };
  for (const Site& site : v.sites) {
    const auto* alloc = std::get_if<Alloc>(&site.stmt->node);
    if (alloc == nullptr || v.buffer(alloc->buffer).scope != Scope::kGroup) continue;
    const BufferDecl& decl = v.buffer(alloc->buffer);
    int64_t& here = bytes_of_body[body_of(site)];
    here = add_saturating(here, layout_num_elements(decl), dtype_size_bytes(decl.dtype));
    int64_t alive = here;
    for (int at = site.parent; at >= 0; at = v.sites[static_cast<size_t>(at)].parent) {
      const int64_t outer = bytes_of_body[body_of(v.sites[static_cast<size_t>(at)])];
      alive = add_saturating(alive, outer, 1);
    }
    most = std::max(most, alive);
  }
  v.expect(supports(*v.target, Limit::kLocalBytes, most));
  v.expect(supports(*v.target, Limit::kArguments,
                    v.kernel.num_parameters() + std::ssize(v.kernel.scalars)));
}

// --- V8: barriers stand under lane-invariant conditions ------------------------------------------

namespace {

bool depends_on_lanes(const Kernel& kernel, const Node& expr) {
  const std::vector<Node> axes = nodes_of(expr, Op::kAxis);
  return std::any_of(axes.begin(), axes.end(),
                     [&](const Node& axis) { return contains(kernel.lanes, axis); });
}

}  // namespace

void verify_barriers(Verifying& v) {
  for (size_t site = 0; site < v.sites.size(); ++site) {
    const Stmt& stmt = *v.sites[site].stmt;
    if (const auto* loop = std::get_if<For>(&stmt.node)) {
      if (depends_on_lanes(v.kernel, loop->extent)) v.error(site, "its extent depends on a lane");
    }
    const auto* combine = std::get_if<Combine>(&stmt.node);
    const bool folds_lanes =
        combine != nullptr &&
        std::any_of(combine->axes.begin(), combine->axes.end(),
                    [](const AxisUse& use) { return use.role == Role::kLane; });
    if (!folds_lanes && !std::holds_alternative<Barrier>(stmt.node)) continue;
    for (const size_t outer : v.enclosing(site)) {
      const auto* branch = std::get_if<If>(&v.sites[outer].stmt->node);
      if (branch != nullptr && depends_on_lanes(v.kernel, branch->condition)) {
        v.error(site, "it stands under a condition that depends on a lane");
      }
    }
  }
}

// --- V9: kinds allow roles -----------------------------------------------------------------------

namespace {

bool allows(AxisKind kind, Role role) {
  switch (kind) {
    case AxisKind::kPar: return true;
    case AxisKind::kRed: return role != Role::kGrid;
    case AxisKind::kScan:
      return role == Role::kNone || role == Role::kSeq || role == Role::kVec || role == Role::kLane;
  }
  return false;
}

void verify_role(Verifying& v, const AxisUse& use, const std::string& where) {
  if (allows(axis_kind(use.axis), use.role)) return;
  const std::string_view kind = axis_kind(use.axis) == AxisKind::kRed ? "red" : "scan";
  v.report(Severity::kError, concat(where, ": axis '", v.axis_name(use.axis), "' is ", kind,
                                    " and cannot be ", role_text(use.role, use.dim)));
}

void verify_launch(Verifying& v, std::span<const AxisUse> axes, Role role) {
  for (size_t i = 0; i < axes.size(); ++i) {
    verify_role(v, axes[i], "the launch");
    if (axes[i].role != role || axes[i].dim != static_cast<int>(i)) {
      v.report(Severity::kError, concat("the launch: axis '", v.axis_name(axes[i].axis), "' is ",
                                        role_text(axes[i].role, axes[i].dim), ", expected ",
                                        role_text(role, static_cast<int>(i))));
    }
  }
  if (axes.size() > 3) v.report(Severity::kError, "the launch: more than 3 grid or lane dims");
}

void verify_comp_roles(Verifying& v, size_t site, const Comp& comp) {
  for (const AxisUse& use : comp.axes) {
    if (use.role == Role::kGrid) {
      v.error(site, concat("axis '", v.axis_name(use.axis), "' has a grid role inside a group"));
    }
    const bool is_lane = use.role == Role::kLane;
    if (is_lane &&
        (static_cast<size_t>(use.dim) >= v.kernel.lanes.size() ||
         axis_extent(use.axis) > axis_extent(v.kernel.lanes[static_cast<size_t>(use.dim)].axis))) {
      v.error(site, concat("axis '", v.axis_name(use.axis), "' needs more lanes than dim ", use.dim,
                           " has"));
    }
  }
}

}  // namespace

void verify_roles(Verifying& v) {
  verify_launch(v, v.kernel.grid, Role::kGrid);
  verify_launch(v, v.kernel.lanes, Role::kLane);
  for (size_t site = 0; site < v.sites.size(); ++site) {
    const Stmt& stmt = *v.sites[site].stmt;
    for (const AxisUse& use : axes_of(stmt))
      verify_role(v, use, v.name(site));
    if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
      verify_comp_roles(v, site, *comp);
    } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
      if (loop->axis.role != Role::kSeq) v.error(site, "the axis of a for is not seq");
    } else if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
      for (const AxisUse& use : combine->axes) {
        const bool is_fold_role = use.role == Role::kUnroll || use.role == Role::kVec ||
                                  (use.role == Role::kLane && contains(v.kernel.lanes, use.axis));
        if (!is_fold_role) {
          v.error(site,
                  concat("axis '", v.axis_name(use.axis), "' is ", role_text(use.role, use.dim),
                         ", expected unroll, vec or a lane of the kernel"));
        }
      }
    }
  }
}

// --- V10: dtypes agree, numbers exist ------------------------------------------------------------

namespace {

class DTypes {
 public:
  explicit DTypes(Verifying& v) : v_(v) {}

  void verify() {
    verify_declarations();
    for (const auto* axes : {&v_.kernel.grid, &v_.kernel.lanes}) {
      for (const AxisUse& use : *axes)
        verify_axis(use, "the launch");
    }
    for (site_ = 0; site_ < v_.sites.size(); ++site_)
      verify_stmt(*v_.sites[site_].stmt);
  }

 private:
  void verify_declarations() {
    bool had_tmp = false;
    for (const BufferDecl& decl : v_.kernel.buffers) {
      const bool is_tmp = decl.access == BufferAccess::kTmp;
      const auto report = [&](std::string_view text) {
        v_.report(Severity::kError, concat("buffer '", decl.name, "': ", text));
      };
      if (!is_tmp && had_tmp) report("a parameter stands behind a tmp");
      had_tmp = had_tmp || is_tmp;
      if (dtype_bits(decl.dtype) == 0) report("idx has no storage");
      if (!is_tmp && decl.scope != Scope::kGlobal) report("a parameter is not global");
      if (std::any_of(decl.dims.begin(), decl.dims.end(), [](int64_t dim) { return dim < 1; })) {
        report("an extent is less than 1");
      } else if (const std::optional<std::string> reason = why_not_layout(decl)) {
        report(concat("its layout: ", *reason));
      }
      if (decl.align_bytes < 0 || (decl.align_bytes & (decl.align_bytes - 1)) != 0) {
        report(concat("alignment ", decl.align_bytes, " is no power of 2"));
      }
    }
    for (const ScalarDecl& decl : v_.kernel.scalars) {
      if (!is_int(decl.dtype) || decl.min > decl.max) {
        v_.report(Severity::kError, concat("scalar '", decl.name, "': ", dtype_name(decl.dtype),
                                           " in ", decl.min, "..", decl.max));
      }
    }
  }

  void verify_axis(const AxisUse& use, const std::string& where) {
    if (use.axis && use.axis.op() == Op::kAxis) return;
    v_.report(Severity::kError, concat(where, ": an axis is null or no axis"));
  }

  bool has_buffer(int number) {
    if (number >= 0 && static_cast<size_t>(number) < v_.kernel.buffers.size()) return true;
    v_.error(site_, concat("there is no buffer ", number));
    return false;
  }

  void verify_index(int buffer, std::span<const Node> index) {
    const BufferDecl& decl = v_.buffer(buffer);
    if (index.size() != decl.dims.size()) {
      v_.error(site_, concat(index.size(), " indices of '", decl.name, "', which has rank ",
                             decl.dims.size()));
    }
    for (const Node& node : index) {
      if (node && node.dtype() != DType::kIdx && !is_int(node.dtype())) {
        v_.error(site_, concat("an index of '", decl.name, "' is ", dtype_name(node.dtype())));
      }
    }
  }

  void expect(const Node& node, DType dtype, std::string_view what) {
    if (!node) {
      v_.error(site_, concat("its ", what, " is null"));
    } else if (node.dtype() != dtype) {
      v_.error(site_, concat("its ", what, " is ", dtype_name(node.dtype()), ", expected ",
                             dtype_name(dtype)));
    }
  }

  void expect_writable(int buffer) {
    if (v_.buffer(buffer).access == BufferAccess::kIn) {
      v_.error(site_, concat("it writes the input '", v_.buffer(buffer).name, "'"));
    }
  }

  void verify_comp(const Comp& comp) {
    if (!has_buffer(comp.dst)) return;
    expect_writable(comp.dst);
    verify_index(comp.dst, comp.index);
    const DType dtype = v_.buffer(comp.dst).dtype;
    expect(comp.value, dtype, "value");
    if (comp.start) {
      expect(comp.start, dtype, "start");
      if (!is_const(comp.start)) v_.error(site_, "its start is no constant");
      if (!comp.combine) v_.error(site_, "it has a start but combines nothing");
    }
    if (comp.combine && !is_combining(*comp.combine)) {
      v_.error(site_, concat(op_name(*comp.combine), " does not combine"));
    }
    for (const Node& guard : comp.guard) {
      expect(guard, DType::kBool, "guard");
      const bool is_less = guard && (guard.op() == Op::kLt || guard.op() == Op::kLe);
      if (guard && !is_less) v_.error(site_, "a guard is not of the form idx < idx");
    }
  }

  void verify_stmt(const Stmt& stmt) {
    for (const AxisUse& use : axes_of(stmt))
      verify_axis(use, v_.name(site_));
    if (const auto* comp = std::get_if<Comp>(&stmt.node)) {
      verify_comp(*comp);
    } else if (const auto* loop = std::get_if<For>(&stmt.node)) {
      if (!loop->extent || (loop->extent.dtype() != DType::kIdx && !is_int(loop->extent.dtype()))) {
        v_.error(site_, "its extent is null or no index");
      }
    } else if (const auto* branch = std::get_if<If>(&stmt.node)) {
      expect(branch->condition, DType::kBool, "condition");
    } else if (const auto* alloc = std::get_if<Alloc>(&stmt.node)) {
      if (has_buffer(alloc->buffer) && v_.buffer(alloc->buffer).access != BufferAccess::kTmp) {
        v_.error(site_, "it allocates a parameter");
      }
    } else if (const auto* combine = std::get_if<Combine>(&stmt.node)) {
      verify_combine(*combine);
    }
    std::unordered_set<const void*> seen;
    for_each_expr(stmt, [&](const Node& expr) {
      for (const Node& node : topological_order(std::span(&expr, 1))) {
        if (seen.insert(node.id()).second) verify_node(node);
      }
    });
  }

  void verify_combine(const Combine& combine) {
    if (!has_buffer(combine.dst) || !has_buffer(combine.src)) return;
    if (combine.via && !has_buffer(*combine.via)) return;
    expect_writable(combine.dst);
    verify_index(combine.dst, combine.dst_index);
    verify_index(combine.src, combine.src_index);
    if (v_.buffer(combine.dst).dtype != v_.buffer(combine.src).dtype) {
      v_.error(site_, "source and destination differ in dtype");
    }
    if (!is_combining(combine.op))
      v_.error(site_, concat(op_name(combine.op), " does not combine"));
    if (combine.via && v_.buffer(*combine.via).scope != Scope::kGroup) {
      v_.error(site_, "the buffer that it goes via is not in group memory");
    }
  }

  void verify_node(const Node& node) {
    if (!has_level(node.op(), kKernelLevel)) {
      v_.error(site_, concat(op_name(node.op()), " is no op of kernels"));
    } else if (node.op() == Op::kLoad) {
      const LoadParts load = load_parts(node);
      if (!has_buffer(load.buffer)) return;
      verify_index(load.buffer, load.index);
      if (v_.buffer(load.buffer).dtype != node.dtype()) {
        v_.error(site_, concat("a load of '", v_.buffer(load.buffer).name, "' is ",
                               dtype_name(node.dtype()), ", the buffer ",
                               dtype_name(v_.buffer(load.buffer).dtype)));
      }
    } else if (node.op() == Op::kScalar) {
      const auto number = static_cast<size_t>(node.attr(0));
      const bool exists = number < v_.kernel.scalars.size();
      if (!exists || v_.kernel.scalars[number].min != node.attr(1) ||
          v_.kernel.scalars[number].max != node.attr(2)) {
        v_.error(site_, concat("scalar ", node.attr(0), " is not as declared"));
      }
    } else if (is_elementwise(node.op()) && node.op() != Op::kCast && node.op() != Op::kBitcast) {
      if (const auto reason = why_not_expr(node.op(), node.srcs())) v_.error(site_, *reason);
    }
  }

  Verifying& v_;
  size_t site_ = 0;
};

}  // namespace

void verify_dtypes(Verifying& v) {
  DTypes(v).verify();
}

// --- V11: depth ----------------------------------------------------------------------------------

void verify_depth(Verifying& v) {
  for (size_t site = 0; site < v.sites.size(); ++site) {
    if (v.sites[site].depth > kMaxStmtDepth) {
      v.report(Severity::kError, concat("statement ", site + 1, ": nested ", v.sites[site].depth,
                                        " deep, at most ", kMaxStmtDepth, " are allowed"));
      return;
    }
  }
}

// --- what the stage adds -------------------------------------------------------------------------

namespace {

void verify_comps_stage(Verifying& v) {
  if (v.kernel.is_nest || !v.kernel.grid.empty() || !v.kernel.lanes.empty()) {
    v.report(Severity::kError, "a kernel of Comps has no grid, no lanes and is no nest");
  }
  if (v.sites.empty()) v.report(Severity::kError, "it computes nothing; expected a Comp");
  for (size_t site = 0; site < v.sites.size(); ++site) {
    const auto* comp = std::get_if<Comp>(&v.sites[site].stmt->node);
    if (comp == nullptr) {
      v.error(site, "a kernel of Comps has no other statements");
      continue;
    }
    for (const AxisUse& use : comp->axes) {
      if (use.role != Role::kNone) {
        v.error(site, concat("axis '", v.axis_name(use.axis), "' has a role before a Plan"));
      }
    }
  }
}

void verify_nest_stage(Verifying& v) {
  if (!v.kernel.is_nest) v.report(Severity::kError, "the kernel is not marked as a nest");
  for (const BufferDecl& decl : v.kernel.buffers) {
    if (decl.scope == Scope::kNone) {
      v.report(Severity::kError, concat("buffer '", decl.name, "' has no scope"));
    }
  }
  for (size_t site = 0; site < v.sites.size(); ++site) {
    const auto* comp = std::get_if<Comp>(&v.sites[site].stmt->node);
    if (comp == nullptr) continue;
    if (comp->start) v.error(site, "it has an implicit start value");
    for (const AxisUse& use : comp->axes) {
      if (use.role == Role::kNone) {
        v.error(site, concat("axis '", v.axis_name(use.axis), "' has no role"));
      }
    }
  }
}

void verify_flat_stage(Verifying& v) {
  for (size_t site = 0; site < v.sites.size(); ++site) {
    bool has_idx = false;
    for_each_expr(*v.sites[site].stmt, [&](const Node& expr) {
      for (const Node& node : topological_order(std::span(&expr, 1))) {
        const bool is_leaf = node.srcs().empty();
        has_idx = has_idx || (node.dtype() == DType::kIdx && !is_leaf);
      }
    });
    if (has_idx) v.error(site, "it computes with idx after indices got a width");
  }
}

}  // namespace

void verify_stage(Verifying& v) {
  switch (v.stage) {
    case KernelStage::kComps: return verify_comps_stage(v);
    case KernelStage::kNest: return verify_nest_stage(v);
    case KernelStage::kFlat: verify_nest_stage(v); return verify_flat_stage(v);
  }
}

}  // namespace tenon::detail
