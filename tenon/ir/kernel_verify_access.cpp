// Rules on places in memory: distinct writes (V2), indices inside dims (V3), register indices (V4),
// reads of the own destination (V6). SPDX-License-Identifier: MIT

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_verify_rules.h"

namespace tenon::detail {

// --- V2: points write distinct places ------------------------------------------------------------

namespace {

// An axis that must tell places apart, with the number of its values under the conditions.
struct Varying {
  Node axis;
  int64_t extent;
};

// idx/c in one dim and idx%c in another are one number, idx, cut in two.
std::vector<Node> joined(std::span<const Node> index) {
  std::vector<Node> result(index.begin(), index.end());
  for (const Node& high : index) {
    if (high.op() != Op::kFloorDiv) continue;
    for (const Node& low : index) {
      const bool is_pair = low.op() == Op::kFloorMod && low.src(0) == high.src(0) &&
                           low.src(1) == high.src(1) && is_const(low.src(1)) &&
                           idx_value(low.src(1)) > 0;
      if (is_pair) result.push_back(low.src(0));
    }
  }
  return result;
}

bool occurs(const Node& axis, const Node& expr) {
  const std::vector<Node> axes = nodes_of(expr, Op::kAxis);
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

enum class Answer { kYes, kNo, kUnknown };

class Distinct {
 public:
  Distinct(std::span<const Node> index, std::vector<Varying> varying)
      : index_(joined(index)), unknown_(std::move(varying)) {
    std::erase_if(unknown_, [](const Varying& v) { return v.extent <= 1; });
  }

  // A dim whose axes form a number system (each step at least the span of the smaller ones) gives
  // them all; axes known so can be left out of other dims.
  Answer decide(bool has_conditions) {
    for (bool has_changed = true; has_changed && !unknown_.empty();) {
      has_changed = false;
      for (const Node& expr : index_)
        has_changed = use_dim(expr) || has_changed;
    }
    if (unknown_.empty()) return Answer::kYes;
    const bool is_missing = std::any_of(unknown_.begin(), unknown_.end(), [&](const Varying& v) {
      return std::none_of(index_.begin(), index_.end(),
                          [&](const Node& expr) { return occurs(v.axis, expr); });
    });
    if (has_conditions) return Answer::kUnknown;
    return is_missing || has_collision() ? Answer::kNo : Answer::kUnknown;
  }
  const Node& first_unknown() const { return unknown_.front().axis; }

 private:
  bool use_dim(const Node& expr) {
    const std::optional<Affine> form = affine_of(expr);
    if (!form) return false;
    std::vector<std::pair<int64_t, int64_t>> steps;  // |coefficient|, extent
    std::vector<Node> axes;
    for (const Varying& v : unknown_) {
      for (const auto& [atom, coefficient] : form->terms) {
        if (atom == v.axis) {
          steps.emplace_back(std::abs(coefficient), v.extent);
          axes.push_back(v.axis);
        } else if (atom.op() != Op::kAxis && occurs(v.axis, atom)) {
          return false;
        }
      }
    }
    if (axes.empty()) return false;
    std::sort(steps.begin(), steps.end());
    __int128 span = 0;
    for (const auto& [step, extent] : steps) {
      if (step <= span) return false;
      span += static_cast<__int128>(step) * (extent - 1);
    }
    std::erase_if(unknown_, [&](const Varying& v) {
      return std::find(axes.begin(), axes.end(), v.axis) != axes.end();
    });
    return true;
  }

  // Two points of a corner of the box that are written to one place; only if all dims are affine.
  bool has_collision() const {
    std::vector<Affine> forms;
    for (const Node& expr : index_) {
      std::optional<Affine> form = affine_of(expr);
      if (!form) return false;
      for (const auto& [atom, coefficient] : form->terms) {
        const bool is_small = std::abs(coefficient) < (int64_t{1} << 40);
        if ((atom.op() != Op::kAxis && atom.op() != Op::kScalar) || !is_small) return false;
      }
      forms.push_back(std::move(*form));
    }
    constexpr int64_t kCorner = 8;
    constexpr size_t kMaxAxes = 4;
    const size_t count = std::min(unknown_.size(), kMaxAxes);
    std::vector<int64_t> point(count, 0);
    std::set<std::vector<int64_t>> places;
    for (size_t axis = 0; axis < count;) {
      std::vector<int64_t> place;
      for (const Affine& form : forms) {
        int64_t value = 0;
        for (size_t i = 0; i < count; ++i)
          value += form.coefficient(unknown_[i].axis) * point[i];
        place.push_back(value);
      }
      if (!places.insert(std::move(place)).second) return true;
      for (axis = 0; axis < count; ++axis) {
        if (++point[axis] < std::min(unknown_[axis].extent, kCorner)) break;
        point[axis] = 0;
      }
    }
    return false;
  }

  std::vector<Node> index_;
  std::vector<Varying> unknown_;
};

class DistinctWrites {
 public:
  explicit DistinctWrites(Verifying& v) : v_(v) {}

  void verify(size_t site) {
    const auto* comp = std::get_if<Comp>(&v_.sites[site].stmt->node);
    if (comp == nullptr) return;
    site_ = site;
    bounds_ = KernelBounds();
    v_.assume_conditions(site, bounds_);
    std::vector<Varying> axes;
    std::vector<bool> has_lane(v_.kernel.lanes.size(), false);
    for (const AxisUse& use : comp->axes) {
      const AxisKind kind = axis_kind(use.axis);
      if (!comp->combine || kind == AxisKind::kPar) axes.push_back(varying(use.axis));
      if (use.role == Role::kLane && static_cast<size_t>(use.dim) < has_lane.size()) {
        has_lane[static_cast<size_t>(use.dim)] = true;
      }
    }
    const Scope scope = v_.buffer(comp->dst).scope;
    for (size_t dim = 0; scope != Scope::kReg && dim < v_.kernel.lanes.size(); ++dim) {
      if (!has_lane[dim]) axes.push_back(varying(v_.kernel.lanes[dim].axis));
    }
    if (!decide(comp->index, axes)) return;
    if (scope != Scope::kGlobal || v_.kernel.grid.empty()) return;
    for (const AxisUse& use : v_.kernel.grid)
      axes.push_back(varying(use.axis));
    for (const size_t outer : v_.enclosing(site)) {
      const auto* loop = std::get_if<For>(&v_.sites[outer].stmt->node);
      if (loop == nullptr) continue;
      const bool is_used =
          std::any_of(comp->index.begin(), comp->index.end(),
                      [&](const Node& expr) { return occurs(loop->axis.axis, expr); });
      if (is_used) axes.push_back(varying(loop->axis.axis));
    }
    decide(comp->index, axes);
  }

 private:
  Varying varying(const Node& axis) {
    const Interval range = bounds_.bounds(axis);
    return {axis, range.high - range.low + 1};
  }

  bool has_conditions() const {
    const auto is_branch = [&](size_t outer) {
      return std::holds_alternative<If>(v_.sites[outer].stmt->node);
    };
    const auto around = v_.enclosing(site_);
    return std::any_of(around.begin(), around.end(), is_branch) ||
           !std::get<Comp>(v_.sites[site_].stmt->node).guard.empty();
  }

  bool decide(std::span<const Node> index, const std::vector<Varying>& axes) {
    Distinct distinct(index, axes);
    // Once indices have a width, bounds do not see what conditions say.
    const bool is_blind = v_.stage == KernelStage::kFlat && has_conditions();
    const Answer answer = distinct.decide(bounds_.num_conditions() != 0 || is_blind);
    if (answer == Answer::kYes) return true;
    const std::string axis = v_.axis_name(distinct.first_unknown());
    if (answer == Answer::kNo) {
      v_.error(site_, concat("points that differ in axis '", axis, "' write one place"));
    } else {
      v_.unproven(site_, concat("points that differ in axis '", axis, "' may write one place"));
    }
    return false;
  }

  Verifying& v_;
  size_t site_ = 0;
  KernelBounds bounds_;
};

}  // namespace

void verify_distinct(Verifying& v) {
  DistinctWrites rule(v);
  for (size_t site = 0; site < v.sites.size(); ++site)
    rule.verify(site);
}

// --- V3: indices are inside their dims -----------------------------------------------------------

namespace {

// Bounds of such an expression are reached, so being outside refutes.
bool is_exact(const Node& expr) {
  const std::optional<Affine> form = affine_of(expr);
  return form && std::all_of(form->terms.begin(), form->terms.end(), [](const auto& term) {
           return term.first.op() == Op::kAxis || term.first.op() == Op::kScalar;
         });
}

}  // namespace

void verify_inside(Verifying& v) {
  for (size_t site = 0; site < v.sites.size(); ++site) {
    KernelBounds bounds;
    v.assume_conditions(site, bounds);
    const size_t num_conditions = bounds.num_conditions();
    std::set<std::string> reported;
    for (const Access& access : accesses_of(*v.sites[site].stmt)) {
      if (access.gate) bounds.assume(access.gate);
      const BufferDecl& decl = v.buffer(access.buffer);
      for (size_t dim = 0; dim < access.index.size(); ++dim) {
        const Node& index = access.index[dim];
        const Interval range = bounds.bounds(index);
        if (range.low >= 0 && range.high < decl.dims[dim]) continue;
        const std::string text =
            concat(access.is_write ? "write of '" : "read of '", decl.name,
                   "': ", to_text(index, v.kernel), " in dim ", dim, " is in ", range.low, "..",
                   range.high, ", expected 0..", decl.dims[dim] - 1);
        if (!reported.insert(text).second) continue;
        if (bounds.is_contradictory()) continue;  // it never happens
        // Once indices have a width, bounds do not see what a gate says.
        const bool is_blind = access.gate && v.stage == KernelStage::kFlat;
        const bool is_never_inside = !is_blind && (range.high < 0 || range.low >= decl.dims[dim]);
        const bool is_refuted =
            is_never_inside || (bounds.num_conditions() == 0 && !access.gate && is_exact(index));
        is_refuted ? v.error(site, text) : v.unproven(site, text);
      }
      bounds.truncate(num_conditions);
    }
  }
}

// --- V4: register indices are constants once unrolled --------------------------------------------

void verify_registers(Verifying& v) {
  if (v.stage == KernelStage::kComps) return;
  for (size_t site = 0; site < v.sites.size(); ++site) {
    const std::span<const AxisUse> axes = axes_of(*v.sites[site].stmt);
    const auto is_unrolled = [&](const Node& atom) {
      return std::any_of(axes.begin(), axes.end(), [&](const AxisUse& use) {
        return use.axis == atom &&
               (use.role == Role::kUnroll || use.role == Role::kVec || use.role == Role::kUnit);
      });
    };
    for (const Access& access : accesses_of(*v.sites[site].stmt)) {
      if (v.buffer(access.buffer).scope != Scope::kReg) continue;
      for (const Node& index : access.index) {
        if (index.dtype() != DType::kIdx) continue;  // has a width already
        const std::optional<Affine> form = affine_of(index);
        const bool is_constant =
            form && std::all_of(form->terms.begin(), form->terms.end(),
                                [&](const auto& term) { return is_unrolled(term.first); });
        if (!is_constant) {
          v.error(site, concat("index ", to_text(index, v.kernel), " of register buffer '",
                               v.buffer(access.buffer).name,
                               "' is not affine in unroll and vec axes of the statement"));
        }
      }
    }
  }
}

// --- V6: a Comp reads its own dst only at the index it writes ------------------------------------

void verify_own_reads(Verifying& v) {
  for (size_t site = 0; site < v.sites.size(); ++site) {
    const auto* comp = std::get_if<Comp>(&v.sites[site].stmt->node);
    if (comp == nullptr) continue;
    for (const Access& access : accesses_of(*v.sites[site].stmt)) {
      if (!access.is_write && access.buffer == comp->dst && access.index != comp->index) {
        v.error(site, concat("it reads its own destination '", v.buffer(comp->dst).name,
                             "' at another index than it writes"));
      }
    }
  }
}

}  // namespace tenon::detail
