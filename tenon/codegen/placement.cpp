// SPDX-License-Identifier: MIT

#include "tenon/codegen/placement.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/text.h"
#include "tenon/codegen/places.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/codegen/walk.h"
#include "tenon/rules/affine.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

class Placer : public Places {
 public:
  explicit Placer(PlacingState& state) : Places(state) { open_nest(); }

  void run() {
    if (plan_.comps.size() != kernel_.body.size())
      refuse_plan("the plan must name every comp once");
    entry_of_ = check_entries(kernel_, plan_);
    for (size_t i = 0; i < plan_.comps.size(); ++i)
      place(static_cast<int>(i));
  }

  // The ranges of the last entry, whose parts are not known yet.
  std::vector<AxisRange> ranges_of_last() {
    entry_of_ = check_entries(kernel_, plan_);
    for (size_t i = 0; i + 1 < plan_.comps.size(); ++i)
      place(static_cast<int>(i));
    return find_ranges(static_cast<int>(plan_.comps.size()) - 1).ranges;
  }

  // The innermost grid part is dimension 0, so neighbouring groups touch neighbouring memory.
  void place_grid() {
    PlacedComp& root = result_.comps.front();
    size_t num_grid = 0;
    while (num_grid < root.loops.size() && root.loops[num_grid].part.role == Role::kGrid)
      ++num_grid;
    for (size_t i = num_grid; i-- > 0;) {
      root.loops[i].use.dim = static_cast<int>(num_grid - 1 - i);
      result_.nest.grid.push_back(root.loops[i].use);
    }
  }

 private:
  void open_nest() {
    result_.nest = kernel_;
    result_.nest.body.clear();
    result_.nest.axis_names.clear();
    result_.nest.is_nest = true;
    result_.comps.resize(plan_.comps.size());
  }

  // What of the tmp's dims is read inside the place.
  std::vector<AxisRange> box_read(int buffer, LoopPlace place, int writer) {
    const BufferDecl& decl = kernel_.buffers[static_cast<size_t>(buffer)];
    const auto outer = loops_around(place);
    std::vector<std::optional<AxisRange>> ranges(decl.dims.size());
    std::vector<bool> is_known(decl.dims.size(), false);
    bool is_gated = false;
    for (size_t number = 0; number < kernel_.body.size(); ++number) {
      if (static_cast<int>(number) == writer) continue;
      const std::vector<Node> loads = loads_of(comp_of(static_cast<int>(number)), buffer);
      if (loads.empty()) continue;
      if (!has_place(static_cast<int>(number))) {
        refuse_plan("a reader of comp ", writer, " has no place yet");
      }
      const PlacedComp& reader = placed(static_cast<int>(number));
      if (!is_inside(static_cast<int>(number), place)) {
        refuse_plan("comp ", number, " reads comp ", writer, " outside of its place");
      }
      const auto values = axis_values(reader);
      is_gated = is_gated || !starts_inside(reader);
      for (const Node& load : loads) {
        is_gated = is_gated || load_parts(load).gated;
        for (size_t dim = 0; dim < decl.dims.size(); ++dim) {
          const auto range = range_of(substitute(load_parts(load).index[dim], values), outer);
          if (!is_known[dim]) {
            ranges[dim] = range;
            is_known[dim] = true;
          } else if (ranges[dim]) {
            ranges[dim] = range ? hull(*ranges[dim], *range) : std::nullopt;
          }
        }
      }
    }
    std::vector<AxisRange> box;
    for (size_t dim = 0; dim < decl.dims.size(); ++dim)
      box.push_back(settled_range(ranges[dim], decl.dims[dim], !is_gated));
    return box;
  }

  // The comp writes each dim with an axis of its own (or it has one element).
  bool writes_by_axes(const Comp& comp) const {
    for (size_t dim = 0; dim < comp.index.size(); ++dim) {
      const Node& index = comp.index[dim];
      const int64_t extent = kernel_.buffers[static_cast<size_t>(comp.dst)].dims[dim];
      if (extent == 1 && is_const(index)) continue;
      const bool is_axis = index.op() == Op::kAxis && axis_kind(index) == AxisKind::kPar &&
                           axis_extent(index) == extent &&
                           std::count(comp.index.begin(), comp.index.end(), index) == 1;
      if (!is_axis) return false;
    }
    return true;
  }

  static size_t axis_number(const Comp& comp, const Node& axis) {
    for (size_t i = 0; i < comp.axes.size(); ++i) {
      if (comp.axes[i].axis == axis) return i;
    }
    return comp.axes.size();
  }

  // --- placing

  PlacedComp& find_ranges(int entry) {
    PlacedComp& comp = result_.comps[static_cast<size_t>(entry)];
    const CompPlan& plan = plan_.comps[static_cast<size_t>(entry)];
    const Comp& source = comp_of(plan.comp);
    comp.comp = &source;
    for (const AxisUse& use : source.axes)
      comp.ranges.push_back(whole_range(axis_extent(use.axis)));
    if (plan.how == How::kBefore) place_before(comp, plan);
    if (plan.how == How::kAfter) place_after(comp, plan);
    comp.plan = &plan;
    return comp;
  }

  void place(int entry) {
    PlacedComp& comp = find_ranges(entry);
    const CompPlan& plan = *comp.plan;
    const Comp& source = *comp.comp;
    if (plan.how != How::kRoot) {
      PlacedComp& around = placed(plan.at.comp);
      (plan.how == How::kBefore ? around.before : around.after).push_back(entry);
    }
    for (const Part& part : plan.parts) {
      if (is_loop(part.role)) {
        comp.loops.push_back({{Node(), part.role, 0}, Node(), part});
      } else {
        comp.instance_parts.push_back(part);
        comp.instances.push_back({Node(), part.role, 0});
      }
    }
    for (size_t axis = 0; axis < source.axes.size(); ++axis)
      open_axis(comp, axis);
  }

  void place_before(PlacedComp& comp, const CompPlan& plan) {
    const Comp& source = *comp.comp;
    const BufferDecl& tmp = kernel_.buffers[static_cast<size_t>(source.dst)];
    if (tmp.access != BufferAccess::kTmp) refuse_plan("comp ", plan.comp, " writes no tmp");
    std::vector<AxisRange> box = box_read(source.dst, plan.at, plan.comp);
    if (!writes_by_axes(source)) {
      for (size_t dim = 0; dim < box.size(); ++dim)
        box[dim] = whole_range(tmp.dims[dim]);
    }
    for (size_t dim = 0; dim < box.size(); ++dim) {
      const size_t axis = axis_number(source, source.index[dim]);
      if (axis < source.axes.size()) comp.ranges[axis] = box[dim];
    }
    boxes_[source.dst] = std::move(box);
  }

  // The axes with which it reads the reduction's tmp run over what is finished at the place.
  void place_after(PlacedComp& comp, const CompPlan& plan) {
    const Comp& source = *comp.comp;
    const PlacedComp& reduction = placed(plan.at.comp);
    const int buffer = reduction.comp->dst;
    if (!reduction.comp->combine) refuse_plan("comp ", plan.comp, " is placed after no reduction");
    if (!writes_by_axes(*reduction.comp)) {
      refuse_plan("comp ", plan.at.comp, " does not write its tmp by its axes");
    }
    const std::vector<AxisRange> box = own_box(reduction, plan.at.depth);
    const std::vector<Node> loads = loads_of(source, buffer);
    if (loads.empty()) refuse_plan("comp ", plan.comp, " does not read comp ", plan.at.comp);
    for (const Node& load : loads) {
      for (size_t dim = 0; dim < box.size(); ++dim) {
        const Node& index = load_parts(load).index[dim];
        if (is_const(index) && box[dim].length == 1 && !box[dim].is_bound) continue;
        const size_t axis = axis_number(source, index);
        const bool is_axis = axis != source.axes.size() && axis_kind(index) == AxisKind::kPar;
        const int64_t extent = kernel_.buffers[static_cast<size_t>(buffer)].dims[dim];
        if (!is_axis || axis_extent(index) != extent) {
          refuse_plan("comp ", plan.comp, " does not read comp ", plan.at.comp, " by its axes");
        }
        AxisRange& range = comp.ranges[axis];
        if (range.is_bound && !(range.base == box[dim].base && range.length == box[dim].length)) {
          refuse_plan("comp ", plan.comp, " reads comp ", plan.at.comp, " at two places");
        }
        range = box[dim];
      }
    }
  }

  // Loops and instances of one axis, its value and its guard.
  void open_axis(PlacedComp& comp, size_t axis) {
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
    size_t latest = 0;
    for (const Opened& opened : parts) {
      const Part& part = *opened.part;
      const int64_t count = ceil_div(left, part.step);
      is_exact = is_exact && (left % part.step == 0);
      const bool is_grid = part.role == Role::kGrid;
      const Node use = result_.nest.add_axis(
          concat(is_grid ? "g" : "", name, "_", result_.nest.axis_names.size()), count,
          axis_kind(node));
      if (opened.loop != nullptr) {
        is_trimmed = is_trimmed && opened.place >= latest;
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
  };

  // By falling step.
  static std::vector<Opened> parts_of(PlacedComp& comp, size_t axis) {
    std::vector<Opened> parts;
    for (size_t i = 0; i < comp.loops.size(); ++i) {
      PlacedLoop& loop = comp.loops[i];
      if (static_cast<size_t>(loop.part.axis) == axis) parts.push_back({&loop.part, &loop, {}, i});
    }
    for (size_t i = 0; i < comp.instances.size(); ++i) {
      const Part& part = comp.instance_parts[i];
      if (static_cast<size_t>(part.axis) == axis) {
        parts.push_back({&part, nullptr, &comp.instances[i], comp.loops.size() + i});
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

  StructuralOrder order_;
};

}  // namespace

std::unordered_set<const void*> Places::loops_around(LoopPlace place) {
  std::unordered_set<const void*> axes;
  for (bool is_root = false; !is_root;) {
    const PlacedComp& comp = placed(place.comp);
    for (int i = 0; i < place.depth; ++i)
      axes.insert(comp.loops[static_cast<size_t>(i)].use.axis.id());
    is_root = comp.plan->how == How::kRoot;
    place = comp.plan->at;
  }
  return axes;
}

bool Places::is_inside(int number, LoopPlace place) {
  for (;;) {
    if (number == place.comp) return true;
    const PlacedComp& comp = placed(number);
    if (comp.plan->how == How::kRoot) return false;
    if (comp.plan->at.comp == place.comp) return comp.plan->at.depth >= place.depth;
    number = comp.plan->at.comp;
  }
}

bool Places::starts_inside(const PlacedComp& comp) {
  return std::all_of(comp.ranges.begin(), comp.ranges.end(),
                     [](const AxisRange& range) { return !range.is_bound || range.is_exact; });
}

std::vector<AxisRange> Places::own_box(const PlacedComp& comp, int depth) {
  const BufferDecl& decl = kernel_.buffers[static_cast<size_t>(comp.comp->dst)];
  const auto outer = loops_around({comp.plan->comp, depth});
  const auto values = axis_values(comp);
  std::vector<AxisRange> box;
  for (size_t dim = 0; dim < decl.dims.size(); ++dim) {
    box.push_back(settled_range(range_of(substitute(comp.comp->index[dim], values), outer),
                                decl.dims[dim], starts_inside(comp)));
  }
  return box;
}

int CompPlan::num_loops() const {
  return static_cast<int>(std::count_if(parts.begin(), parts.end(),
                                        [](const Part& part) { return is_loop(part.role); }));
}

std::optional<std::vector<AxisRange>> ranges_at(const Kernel& kernel, const Plan& plan, int comp,
                                                How how, LoopPlace place) {
  Plan longer = plan;
  longer.comps.push_back({.comp = comp, .how = how, .at = place});
  PlacingState state{kernel, longer};
  try {
    return Placer(state).ranges_of_last();
  } catch (const PlanRefusal&) {
    return std::nullopt;
  }
}

Placement place_comps(const Kernel& kernel, const Plan& plan) {
  PlacingState state{kernel, plan};
  Placer placer(state);
  try {
    placer.run();
    place_tmps(state);
    placer.place_grid();
  } catch (PlanRefusal& refusal) {
    state.result.reason = std::move(refusal.reason);
  }
  return std::move(state.result);
}

}  // namespace tenon
