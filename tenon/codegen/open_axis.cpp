// SPDX-License-Identifier: MIT

#include "tenon/codegen/open_axis.h"

#include <algorithm>

#include "tenon/base/integer.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/text.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/rules/affine.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

class AxisOpener {
 public:
  AxisOpener(const Kernel& kernel, Placement& placement) : kernel_(kernel), placement_(placement) {}

  // Loops and instances of one axis, its value and its guard.
  void open(PlacedComp& comp, size_t axis) {
    const Comp& source = *comp.comp;
    const Node& node = source.axes[axis].axis;
    const AxisRange& range = comp.ranges[axis];
    const int64_t extent = axis_extent(node);
    std::vector<Opened> parts = parts_of(comp, axis);
    check_steps(comp, axis, parts);
    const std::string name = kernel_.axis_names[static_cast<size_t>(axis_id(node))];
    Node value = range.base;
    int64_t left = std::max<int64_t>(range.length, 1);
    int64_t reach = 0;  // what the instances inside the innermost loop run through; 0: no loop
    bool is_exact = range.is_exact;
    bool is_trimmed = true;
    bool is_clamped = false;
    bool has_lane = false;
    size_t latest = 0;
    for (const Opened& opened : parts) {
      const Part& part = *opened.part;
      const int64_t count = ceil_div(left, part.step);
      is_exact = is_exact && (left % part.step == 0);
      const bool is_grid = part.role == Role::kGrid;
      const Node use = opened.lane != nullptr
                           ? lane_axis(*comp.plan, part, count)
                           : placement_.nest.add_axis(concat(is_grid ? "g" : "", name, "_",
                                                             placement_.nest.axis_names.size()),
                                                      count, axis_kind(node));
      if (opened.lane != nullptr) {
        has_lane = true;
        opened.lane->use.axis = use;
      } else if (opened.loop != nullptr) {
        // Loops inside of lanes run as often in all of them.
        const bool is_first = &opened == parts.data();
        is_trimmed = is_trimmed && !has_lane && opened.place >= latest && (!is_grid || is_first);
        comp.overruns = comp.overruns || (!is_exact && !is_trimmed && !is_first);
        latest = opened.place;
        opened.loop->use.axis = use;
        opened.loop->extent = idx_const(count);
        if (!is_exact && is_trimmed && !is_grid && count > 1) {
          opened.loop->extent = trimmed(count, value, extent, part.step);
        }
        reach = part.step;
      } else {
        opened.instance->axis = use;
        is_clamped = is_clamped || part.tail == Tail::kClamp;
      }
      const bool is_long = is_planted(PlantedFault::kPartStepLong) && part.step > 1;
      value = plus(value, times(use, part.step + (is_long ? 1 : 0)));
      left = part.step;
    }
    comp.exprs.push_back(value);
    const bool divides =
        reach > 0 && is_trimmed && extent % reach == 0 && is_multiple(range.base, reach);
    const bool needs_guard = !is_exact && !(is_trimmed && reach == 1) && !divides &&
                             !is_planted(PlantedFault::kTailNotTrimmed);
    comp.guards.push_back(needs_guard ? make_expr(Op::kLt, value, idx_const(extent)) : Node());
    comp.clamped.push_back(
        needs_guard && is_clamped ? make_expr(Op::kMin, value, idx_const(extent - 1)) : value);
  }

  struct Opened {
    const Part* part;
    PlacedLoop* loop;
    AxisUse* instance;
    size_t place;
    PlacedLane* lane = nullptr;
  };

  // The lane's number in its dim; with fewer points than the dim has lanes, one of its own, which
  // all such parts share.
  Node lane_axis(const CompPlan& plan, const Part& part, int64_t count) {
    const Node& lane = placement_.nest.lanes[static_cast<size_t>(part.dim)].axis;
    if (count > axis_extent(lane)) {
      refuse_plan("axis ", part.axis, " of comp ", plan.comp, " takes ", count, " lanes of dim ",
                  part.dim, ", which has ", axis_extent(lane));
    }
    if (count == axis_extent(lane)) return lane;
    for (const auto& [own, whole] : placement_.lane_axes) {
      if (whole == lane && axis_extent(own) == count) return own;
    }
    const Node own =
        placement_.nest.add_axis(concat("lane", part.dim, "_", count), count, AxisKind::kPar);
    placement_.lane_axes.emplace_back(own, lane);
    return own;
  }

  // By falling step.
  static std::vector<Opened> parts_of(PlacedComp& comp, size_t axis) {
    std::vector<Opened> parts;
    for (size_t i = 0; i < comp.loops.size(); ++i) {
      PlacedLoop& loop = comp.loops[i];
      if (static_cast<size_t>(loop.part.axis) == axis)
        parts.push_back({&loop.part, &loop, nullptr, i});
    }
    for (size_t i = 0; i < comp.instances.size(); ++i) {
      const Part& part = comp.instance_parts[i];
      if (static_cast<size_t>(part.axis) == axis) {
        parts.push_back({&part, nullptr, &comp.instances[i], comp.loops.size() + i});
      }
    }
    for (PlacedLane& lane : comp.lanes) {
      if (static_cast<size_t>(lane.part.axis) == axis) {
        parts.push_back({&lane.part, nullptr, nullptr, comp.loops.size(), &lane});
      }
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const Opened& a, const Opened& b) { return a.part->step > b.part->step; });
    return parts;
  }

  void check_steps(const PlacedComp& comp, size_t axis, const std::vector<Opened>& parts) const {
    const int number = comp.plan->comp;
    const AxisRange& range = comp.ranges[axis];
    if (parts.empty()) {
      if (range.length > 1) refuse_plan("axis ", axis, " of comp ", number, " is not covered");
      return;
    }
    if (range.is_bound && range.length == 1) {
      refuse_plan("axis ", axis, " of comp ", number, " is fixed by its place");
    }
    if (parts.back().part->step != 1) {
      refuse_plan("axis ", axis, " of comp ", number, " is not covered down to step 1");
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const int64_t step = parts[i].part->step;
      const bool is_bad =
          i > 0 && (parts[i - 1].part->step == step || parts[i - 1].part->step % step != 0);
      if (is_bad) {
        refuse_plan("step ", step, " of axis ", axis, " of comp ", number,
                    " does not divide the step around it");
      }
      if (range.is_bound && range.length % step != 0) {
        refuse_plan("step ", step, " of axis ", axis, " of comp ", number, " does not divide its ",
                    range.length, " values");
      }
    }
  }

  bool is_multiple(const Node& base, int64_t step) {
    const auto form = to_affine(base, order_);
    return form && coefficient_gcd(*form) % step == 0 && form->offset % step == 0;
  }

  static Node plus(const Node& a, const Node& b) {
    return simplify_index(make_expr(Op::kAdd, a, b));
  }
  static Node times(const Node& a, int64_t factor) {
    return simplify_index(make_expr(Op::kMul, a, idx_const(factor)));
  }

  // ceil((extent - base) / step), at most count.
  static Node trimmed(int64_t count, const Node& base, int64_t extent, int64_t step) {
    if (is_planted(PlantedFault::kTailNotTrimmed)) return idx_const(count);
    const Node rest = make_expr(Op::kSub, idx_const(extent + step - 1), base);
    const Node left = make_expr(Op::kFloorDiv, rest, idx_const(step));
    return simplify_index(make_expr(Op::kMin, idx_const(count), left));
  }

  const Kernel& kernel_;
  Placement& placement_;
  StructuralOrder order_;
};

}  // namespace

void open_axis(const Kernel& kernel, Placement& placement, PlacedComp& comp, size_t axis) {
  AxisOpener(kernel, placement).open(comp, axis);
}

}  // namespace tenon
