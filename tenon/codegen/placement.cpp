// SPDX-License-Identifier: MIT

#include "tenon/codegen/placement.h"

#include <algorithm>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/text.h"
#include "tenon/codegen/axis_range.h"
#include "tenon/codegen/open_axis.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/codegen/stage_copy.h"
#include "tenon/codegen/unit_match.h"
#include "tenon/codegen/walk.h"
#include "tenon/rules/affine.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

class Placer {
 public:
  Placer(const Kernel& kernel, const Plan& plan) : kernel_(kernel), plan_(plan) {}

  Placement run() {
    Placement& result = result_;
    try {
      open_nest();
      if (plan_.comps.size() != kernel_.body.size())
        refuse_plan("the plan must name every comp once");
      entry_of_ = check_entries(kernel_, plan_);
      for (size_t i = 0; i < plan_.comps.size(); ++i)
        place(static_cast<int>(i));
      for (size_t i = 0; i < plan_.comps.size(); ++i)
        finish(static_cast<int>(i));
      place_grid();
    } catch (PlanRefusal& refusal) {
      result.reason = std::move(refusal.reason);
    }
    return std::move(result);
  }

  // The ranges of the last entry, whose parts are not known yet.
  std::optional<std::vector<AxisRange>> ranges_of_last() {
    try {
      open_nest();
      entry_of_ = check_entries(kernel_, plan_);
      for (size_t i = 0; i + 1 < plan_.comps.size(); ++i)
        place(static_cast<int>(i));
      return find_ranges(static_cast<int>(plan_.comps.size()) - 1).ranges;
    } catch (const PlanRefusal&) {
      return std::nullopt;
    }
  }

 private:
  void open_nest() {
    result_.nest = kernel_;
    result_.nest.body.clear();
    result_.nest.axis_names.clear();
    result_.nest.is_nest = true;
    for (size_t dim = 0; dim < plan_.lanes.size(); ++dim) {
      if (plan_.lanes[dim] < 1) refuse_plan("lane dim ", dim, " has ", plan_.lanes[dim], " lanes");
      const Node axis =
          result_.nest.add_axis(concat("lane", dim), plan_.lanes[dim], AxisKind::kPar);
      result_.nest.lanes.push_back({axis, Role::kLane, static_cast<int>(dim)});
    }
    result_.comps.resize(plan_.comps.size());
  }

  const Comp& comp_of(int number) const {
    return std::get<Comp>(kernel_.body[static_cast<size_t>(number)].node);
  }

  // --- places

  PlacedComp& placed(int number) {
    return result_.comps[static_cast<size_t>(entry_of_[static_cast<size_t>(number)])];
  }
  // Named by the plan so far, and placed.
  bool has_place(int number) {
    const int entry = entry_of_[static_cast<size_t>(number)];
    return entry >= 0 && result_.comps[static_cast<size_t>(entry)].plan != nullptr;
  }

  // Axes of the loops that stand around the place.
  std::unordered_set<const void*> loops_around(LoopPlace place) {
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

  // The same for one lane alone: what it holds in registers.
  std::unordered_set<const void*> loops_around_lane(LoopPlace place) {
    auto axes = loops_around(place);
    for (const AxisUse& use : result_.nest.lanes)
      axes.insert(use.axis.id());
    for (const auto& [own, lane] : result_.lane_axes)
      axes.insert(own.id());
    return axes;
  }

  bool is_inside(int number, LoopPlace place) {
    for (;;) {
      if (number == place.comp) return true;
      const PlacedComp& comp = placed(number);
      if (comp.plan->how == How::kRoot) return false;
      if (comp.plan->at.comp == place.comp) return comp.plan->at.depth >= place.depth;
      number = comp.plan->at.comp;
    }
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

  // All that the comp's place fixes lies inside its axes.
  static bool starts_inside(const PlacedComp& comp) {
    const auto is_inside = [](const AxisRange& range) { return !range.is_bound || range.is_exact; };
    return std::ranges::all_of(comp.ranges, is_inside);
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
      if (around.overruns) {
        refuse_plan("comp ", plan.comp, " is placed in comp ", plan.at.comp,
                    ", of which loops start beyond their axis");
      }
      (plan.how == How::kBefore ? around.before : around.after).push_back(entry);
    }
    for (const Part& part : plan.parts) {
      if (is_loop(part.role)) {
        comp.loops.push_back({{Node(), part.role, 0}, Node(), part});
      } else if (part.role == Role::kLane) {
        comp.lanes.push_back({{Node(), part.role, part.dim}, part});
      } else {
        comp.instance_parts.push_back(part);
        comp.instances.push_back({Node(), part.role, 0});
      }
    }
    for (size_t axis = 0; axis < source.axes.size(); ++axis)
      open_axis(kernel_, result_, comp, axis);
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
    const auto outer = loops_around(plan.at);
    for (const Node& index : reduction.comp->index) {
      if (step_of(substitute(index, axis_values(reduction)), outer) == 1) continue;
      refuse_plan("comp ", plan.comp, " stands where comp ", plan.at.comp, " has left places out");
    }
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

  // What the comp writes inside its first `depth` loops, by dim of its buffer.
  std::vector<AxisRange> own_box(const PlacedComp& comp, int depth) {
    const BufferDecl& decl = kernel_.buffers[static_cast<size_t>(comp.comp->dst)];
    const auto outer = loops_around({comp.plan->comp, depth});
    const auto values = axis_values(comp);
    std::vector<AxisRange> box;
    for (size_t dim = 0; dim < decl.dims.size(); ++dim) {
      const auto range = range_of(substitute(comp.comp->index[dim], values), outer);
      box.push_back(settled_range(range, decl.dims[dim], starts_inside(comp)));
    }
    return box;
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

  // --- where tmps lie

  void finish(int entry) {
    PlacedComp& comp = result_.comps[static_cast<size_t>(entry)];
    const Comp& source = *comp.comp;
    const auto by_comp = [this](int a, int b) {
      return plan_.comps[static_cast<size_t>(a)].comp < plan_.comps[static_cast<size_t>(b)].comp;
    };
    std::sort(comp.before.begin(), comp.before.end(), by_comp);
    std::sort(comp.after.begin(), comp.after.end(), by_comp);
    add_stages(comp);
    const bool is_tmp =
        kernel_.buffers[static_cast<size_t>(source.dst)].access == BufferAccess::kTmp;
    if (!is_tmp) {
      if (source.combine) refuse_plan("comp ", comp.plan->comp, " combines into a parameter");
      if (comp.plan->how == How::kBefore) refuse_plan("comp ", comp.plan->comp, " writes no tmp");
      return;
    }
    if (comp.plan->how == How::kRoot && comp.after.empty()) {
      refuse_plan("the root writes a tmp and nothing stands after it");
    }
    settle_start(comp);
    check_finished(comp);
    StorageBox storage = tmp_storage(comp);
    const auto is_red = [&](const PlacedLane& lane) { return lane.is_red(comp); };
    if (std::ranges::any_of(comp.lanes, is_red) && !comp.plan->acc) {
      refuse_plan("comp ", comp.plan->comp, " deals a red axis to lanes and has no accumulator");
    }
    if (source.combine && comp.plan->acc) {
      add_acc(comp, storage);
    } else {
      declare(source.dst, storage);
      result_.storage[source.dst] = std::move(storage);
    }
  }

  void settle_start(PlacedComp& comp) {
    comp.start_depth = 0;
    for (const int after : comp.after) {
      const int depth = plan_.comps[static_cast<size_t>(after)].at.depth;
      if (after != comp.after.front() && depth != comp.start_depth) {
        refuse_plan("all that stands after comp ", comp.plan->comp, " must stand at one place");
      }
      comp.start_depth = depth;
    }
    if (comp.after.empty()) return;
    for (size_t i = static_cast<size_t>(comp.start_depth); i < comp.loops.size(); ++i) {
      if (comp.loops[i].part.role == Role::kGrid) {
        refuse_plan("what stands after the root must stand inside its grid");
      }
    }
    for (size_t number = 0; number < kernel_.body.size(); ++number) {
      if (static_cast<int>(number) == comp.plan->comp) continue;
      if (loads_of(comp_of(static_cast<int>(number)), comp.comp->dst).empty()) continue;
      const LoopPlace place{comp.plan->comp, comp.start_depth};
      const bool is_there = std::any_of(comp.after.begin(), comp.after.end(), [&](int after) {
        const int reader = plan_.comps[static_cast<size_t>(after)].comp;
        return reader == static_cast<int>(number) ||
               is_inside(static_cast<int>(number), {reader, 0});
      });
      if (!is_there || !is_inside(static_cast<int>(number), place)) {
        refuse_plan("comp ", number, " reads comp ", comp.plan->comp,
                    " and does not stand after it");
      }
    }
  }

  // The box of the tmp that is alive at once.
  StorageBox tmp_storage(PlacedComp& comp) {
    const int buffer = comp.comp->dst;
    StorageBox storage;
    storage.buffer = buffer;
    storage.box = comp.after.empty() ? boxes_.at(buffer) : own_box(comp, comp.start_depth);
    if (comp.plan->keep) {
      if (!is_in_group(comp)) refuse_plan("comp ", comp.plan->comp, " is kept by several groups");
      check_kept_box(comp, storage.box);
      return alias(comp, *comp.plan->keep);
    }
    const LoopPlace place =
        comp.after.empty() ? comp.plan->at : LoopPlace{comp.plan->comp, comp.start_depth};
    if (auto own = lane_storage(comp, place)) return *own;
    const auto outer = loops_around(place);
    widen(storage, comp, comp.comp->index, outer);
    for (size_t number = 0; number < kernel_.body.size(); ++number) {
      const PlacedComp& reader = placed(static_cast<int>(number));
      for (const Node& load : loads_of(*reader.comp, buffer))
        widen(storage, reader, load_parts(load).index, outer);
    }
    storage.is_reg = plan_.lanes.empty() && fits_registers(comp, storage);
    note_instances(storage, comp);
    return storage;
  }

  // What one lane writes there, apart from others.
  std::optional<StorageBox> lane_box(const PlacedComp& comp, LoopPlace place) {
    const auto outer = loops_around_lane(place);
    StorageBox storage;
    storage.buffer = comp.comp->dst;
    storage.is_reg = true;
    for (const Node& index : comp.comp->index) {
      const Node value = substitute(index, axis_values(comp));
      auto range = range_of(value, outer);
      if (!range) return std::nullopt;
      range->step = step_of(value, outer);
      if (range->step == 0) return std::nullopt;
      storage.box.push_back(*range);
    }
    note_instances(storage, comp);
    return storage;
  }

  // With lanes: the tmp in registers, if each lane reads only what it has written itself.
  std::optional<StorageBox> lane_storage(const PlacedComp& comp, LoopPlace place) {
    if (plan_.lanes.empty()) return std::nullopt;
    auto storage = lane_box(comp, place);
    if (!storage || !fits_registers(comp, *storage)) return std::nullopt;
    // Readers whose places have the same lanes in them are dealt alike; a single lane shows in
    // none.
    for (const PlacedLane& lane : comp.lanes) {
      const int64_t lanes = plan_.lanes[static_cast<size_t>(lane.part.dim)];
      if (!lane.is_red(comp) && lane.count() == 1 && lanes > 1) return std::nullopt;
    }
    return storage;
  }

  // What others read of a kept tmp must lie where its group writes the output, too.
  void check_kept_box(const PlacedComp& comp, std::span<const AxisRange> box) {
    const auto outer = loops_around(comp.plan->at);
    for (size_t number = 0; number < kernel_.body.size(); ++number) {
      const PlacedComp& reader = placed(static_cast<int>(number));
      if (reader.comp->dst != *comp.plan->keep) continue;
      for (const Node& load : loads_of(*reader.comp, comp.comp->dst)) {
        const std::span<const Node> index = load_parts(load).index;
        for (size_t dim = 0; dim < index.size(); ++dim) {
          const Node value = substitute(index[dim], axis_values(reader));
          const auto own = range_of(value, outer);
          if (!own || own->base != box[dim].base || own->length < box[dim].length) {
            refuse_plan("comp ", comp.plan->comp, " is read beyond where it is kept");
          }
          if (step_of(value, outer) == 1) continue;
          refuse_plan("comp ", comp.plan->comp, " is kept where others have written already");
        }
      }
    }
  }

  // All loops over groups stand around the comp, so each of its points belongs to one.
  bool is_in_group(const PlacedComp& comp) {
    const PlacedComp* outer = &comp;
    int depth = 0;
    while (outer->plan->how != How::kRoot) {
      depth = outer->plan->at.depth;
      outer = &placed(outer->plan->at.comp);
    }
    return depth >= std::count_if(outer->loops.begin(), outer->loops.end(),
                                  [](const auto& loop) { return loop.part.role == Role::kGrid; });
  }

  // Instances may run beyond the box; their places are part of the storage.
  void widen(StorageBox& storage, const PlacedComp& comp, std::span<const Node> index,
             const std::unordered_set<const void*>& outer) {
    const auto values = axis_values(comp);
    for (size_t dim = 0; dim < index.size(); ++dim) {
      const auto range = range_of(substitute(index[dim], values), outer);
      AxisRange& box = storage.box[dim];
      if (range && range->base == box.base) box.length = std::max(box.length, range->length);
    }
  }

  bool fits_registers(const PlacedComp& comp, const StorageBox& storage) {
    // Tiles are read as vectors from memory.
    if (unit_axes_of(comp.instances).column) return false;
    if (num_elements(storage) == 1 && plan_.lanes.empty()) return true;
    if (num_elements(storage) > kMaxRegElements) return false;
    if (comp.comp->combine && !comp.plan->acc && !comp.loops.empty()) {
      // Its start runs over loops of its own.
      for (size_t i = static_cast<size_t>(comp.start_depth); i < comp.loops.size(); ++i) {
        if (axis_kind(comp.loops[i].use.axis) == AxisKind::kPar) return false;
      }
    }
    // A place that no instance writes would be read before it is written.
    if (!is_by_instances(comp, comp.comp->index, storage, true)) return false;
    for (size_t number = 0; number < kernel_.body.size(); ++number) {
      if (static_cast<int>(number) == comp.plan->comp) continue;
      const PlacedComp& reader = placed(static_cast<int>(number));
      for (const Node& load : loads_of(*reader.comp, storage.buffer)) {
        const std::span<const Node> index = load_parts(load).index;
        if (!is_by_instances(reader, index, storage)) return false;
        if (vec_dim(reader, index) != vec_dim(comp, comp.comp->index)) return false;
      }
    }
    return true;
  }

  // The dims along which the comp's instances are vectors or tiles of what it writes.
  void note_instances(StorageBox& storage, const PlacedComp& comp) const {
    storage.vec_dim = vec_dim(comp, comp.comp->index).first;
    const UnitAxes axes = unit_axes_of(comp.instances);
    if (!axes.column) return;
    const std::vector<Node>& index = comp.comp->index;
    storage.tile = {dim_of(comp, index, axes.row), dim_of(comp, index, axes.column),
                    axis_extent(axes.row), axis_extent(axes.column)};
    if (storage.tile.row < 0 || storage.tile.column < 0) {
      refuse_plan("comp ", comp.plan->comp, " does not write its tiles by their rows and columns");
    }
  }

  bool is_by_instances(const PlacedComp& comp, std::span<const Node> index,
                       const StorageBox& storage, bool covers = false) {
    const auto values = axis_values(comp);
    std::unordered_set<const void*> own;
    for (const AxisUse& use : comp.instances)
      own.insert(use.axis.id());
    for (size_t dim = 0; dim < index.size(); ++dim) {
      const int64_t last = storage.box[dim].count() - 1;
      if (last == 0 && plan_.lanes.empty()) continue;
      const Node local = local_index(storage.box[dim], substitute(index[dim], values));
      const auto form = to_affine(local, order_);
      const IntRange reach = bounds(local);
      if (!form || reach.min < 0 || reach.max > last || (covers && reach.max < last)) return false;
      for (const AffineTerm& term : form->terms) {
        if (!own.contains(term.node.id())) return false;
      }
      // A register vector is read as a whole.
      const auto [vec, lanes] = vec_dim(comp, index);
      if (vec == static_cast<int>(dim) && form->offset % lanes != 0) return false;
    }
    return true;
  }

  // Gives the tmp's buffer the box as its dims.
  void declare(int buffer, const StorageBox& storage) {
    BufferDecl& decl = result_.nest.buffers[static_cast<size_t>(buffer)];
    if (!storage.alias.empty()) {
      // It lies in the output; what is left of it takes no place.
      decl.dims.assign(decl.dims.size(), 1);
      decl.scope = Scope::kReg;
      return;
    }
    lay_out(decl, storage);
    decl.scope = storage.is_reg ? Scope::kReg : Scope::kGroup;
  }

  // The tmp in the output that its one reader writes at the place where it reads.
  StorageBox alias(const PlacedComp& comp, int output) {
    const int tmp = comp.comp->dst;
    const BufferDecl& decl = kernel_.buffers[static_cast<size_t>(tmp)];
    const BufferDecl& out = kernel_.buffers[static_cast<size_t>(output)];
    if (out.access != BufferAccess::kOut || out.dtype != decl.dtype) {
      refuse_plan("comp ", comp.plan->comp, " cannot lie in '", out.name, "'");
    }
    StorageBox storage;
    storage.buffer = output;
    for (size_t number = 0; number < kernel_.body.size(); ++number) {
      const Comp& reader = comp_of(static_cast<int>(number));
      if (reader.dst != output) continue;
      const std::vector<Node> loads = loads_of(reader, tmp);
      const bool writes_all = reader.guard.empty() && !reader.combine;
      if (loads.size() != 1 || load_parts(loads[0]).gated || !writes_all) break;
      for (const Node& index : load_parts(loads[0]).index) {
        int64_t size = is_const(index) && idx_value(index) == 0 ? 1 : -1;  // of what is read
        if (index.op() == Op::kAxis) size = axis_extent(index);
        if (decl.dims[storage.dims.size()] != size) {
          refuse_plan("'", out.name, "' is not written where comp ", comp.plan->comp, " is read");
        }
        storage.dims.push_back(index);
      }
      storage.alias = reader.index;
      std::unordered_set<const void*> used;
      for (const Node& dim : storage.dims)
        used.insert(dim.id());
      for (const AxisUse& use : reader.axes) {
        if (!used.contains(use.axis.id())) {
          refuse_plan("'", out.name, "' has more elements than comp ", comp.plan->comp);
        }
      }
      return storage;
    }
    refuse_plan("'", out.name, "' is not written from comp ", comp.plan->comp);
  }

  // --- accumulators

  // What stands after a reduction sees finished values: reduce loops around it carry the tile.
  static void check_finished(const PlacedComp& comp) {
    const bool is_carried =
        comp.plan->acc && comp.plan->acc->carry_in && comp.plan->acc->depth == comp.start_depth;
    for (size_t i = 0; i < static_cast<size_t>(comp.start_depth); ++i) {
      if (axis_kind(comp.loops[i].use.axis) == AxisKind::kRed && !is_carried) {
        refuse_plan("comp ", comp.plan->comp, " is not finished where it is read");
      }
    }
  }

  void add_acc(PlacedComp& comp, StorageBox& tmp) {
    const Acc& acc = *comp.plan->acc;
    const int number = comp.plan->comp;
    if (acc.depth < comp.start_depth || static_cast<size_t>(acc.depth) > comp.loops.size()) {
      refuse_plan("the accumulator of comp ", number, " stands outside of its tmp's place");
    }
    for (const Node& guard : comp.comp->guard) {
      if (!has_red_axis(guard)) refuse_plan("comp ", number, " leaves out some results");
    }
    if (acc.carry_in && comp.plan->how != How::kRoot)
      refuse_plan("only the root carries in a buffer");
    bool has_outer_red = false;
    for (size_t i = 0; i < comp.loops.size(); ++i) {
      const bool is_red = axis_kind(comp.loops[i].use.axis) == AxisKind::kRed;
      const bool is_inside = i >= static_cast<size_t>(acc.depth);
      if (is_inside && !is_red) {
        refuse_plan("comp ", number, " has par loops inside its accumulator");
      }
      has_outer_red = has_outer_red || (!is_inside && is_red);
    }
    StorageBox tile;
    if (plan_.lanes.empty()) {
      tile.box = own_box(comp, acc.depth);
      widen(tile, comp, comp.comp->index, loops_around({number, acc.depth}));
      tile.is_reg = true;
      note_instances(tile, comp);
    } else if (auto own = lane_box(comp, {number, acc.depth})) {
      tile = std::move(*own);
    } else {
      refuse_plan("comp ", number, " does not write its tmp by its axes");
    }
    const bool is_same = acc.depth == comp.start_depth;
    if (is_same && tmp.is_reg && tmp.alias.empty()) {
      tile = tmp;
      declare(comp.comp->dst, tile);
      result_.storage[comp.comp->dst] = tile;
      comp.acc = tile;
    } else {
      tile.buffer = add_register("acc", comp, tile, {});
      comp.acc = tile;
      declare(comp.comp->dst, tmp);
      result_.storage[comp.comp->dst] = tmp;
    }
    if (num_elements(tile) > kMaxRegElements || !is_by_instances(comp, comp.comp->index, tile)) {
      refuse_plan("the accumulator of comp ", number, " does not lie in registers");
    }
    if (has_outer_red) add_carry(comp, acc);
    if (!has_outer_red && acc.carry_in) refuse_plan("comp ", number, " has nothing to carry");
    add_partials(comp, has_outer_red);
    const auto is_red = [&](const PlacedLane& lane) { return lane.is_red(comp); };
    if (std::ranges::none_of(comp.lanes, is_red)) return;
    if (has_outer_red) refuse_plan("comp ", number, " carries what lanes have yet to fold");
    int64_t count = num_elements(tile);
    for (const int64_t lanes : plan_.lanes)
      count *= lanes;
    const BufferDecl& tmp_decl = kernel_.buffers[static_cast<size_t>(comp.comp->dst)];
    comp.via = result_.nest.add_buffer({.name = concat(tmp_decl.name, "_lanes"),
                                        .dtype = tmp_decl.dtype,
                                        .dims = {count},
                                        .scope = Scope::kGroup});
  }

  void add_carry(PlacedComp& comp, const Acc& acc) {
    comp.carry = acc.carry_in ? alias(comp, *acc.carry_in) : result_.storage.at(comp.comp->dst);
    if (comp.carry->is_reg) {
      refuse_plan("comp ", comp.plan->comp, " needs a buffer to carry its accumulator in");
    }
  }

  void add_partials(PlacedComp& comp, bool is_carried) {
    std::vector<int64_t> extents;
    StorageBox partials = *comp.acc;
    for (const AxisUse& use : comp.instances) {
      if (!is_partial(comp, use)) continue;
      if (use.role == Role::kVec) {
        partials.vec_dim = static_cast<int>(partials.box.size() + extents.size());
      }
      extents.push_back(axis_extent(use.axis));
    }
    if (extents.empty()) return;
    if (is_carried) refuse_plan("comp ", comp.plan->comp, " carries partial accumulators");
    partials.buffer = add_register("part", comp, partials, extents);
    comp.partials = std::move(partials);
  }

 public:
  static bool is_partial(const PlacedComp& comp, const AxisUse& use) {
    return axis_kind(use.axis) == AxisKind::kRed && use.role != Role::kUnit &&
           (use.role == Role::kVec || comp.plan->acc->has_partials);
  }

 private:
  int add_register(std::string_view what, const PlacedComp& comp, const StorageBox& storage,
                   const std::vector<int64_t>& more) {
    BufferDecl decl;
    const BufferDecl& tmp = kernel_.buffers[static_cast<size_t>(comp.comp->dst)];
    decl.name = concat(tmp.name, "_", what);
    decl.dtype = tmp.dtype;
    lay_out(decl, storage, more);
    decl.scope = Scope::kReg;
    return result_.nest.add_buffer(decl);
  }

  // --- staged operands

  void add_stages(PlacedComp& comp) {
    const int number = comp.plan->comp;
    for (const Stage& stage : comp.plan->stages) {
      const LoopPlace at{stage.around.value_or(number), stage.depth};
      const bool is_known = at.comp >= 0 && at.comp < std::ssize(kernel_.body);
      if (!is_known || !is_inside(number, at) || at.depth < 0 ||
          at.depth > std::ssize(placed(at.comp).loops)) {
        refuse_plan("a stage of comp ", number, " stands inside ", at.depth, " loops of comp ",
                    at.comp, ", which are not around it");
      }
      comp.stages.push_back(place_stage(kernel_, comp, stage, loops_around(at), result_.nest));
      comp.stages.back().at = at;
    }
  }

  static constexpr int64_t kMaxRegElements = 4096;

  const Kernel& kernel_;
  const Plan& plan_;
  Placement result_;
  StructuralOrder order_;
  std::vector<int> entry_of_;                              // by comp: its entry of the plan
  std::unordered_map<int, std::vector<AxisRange>> boxes_;  // of tmps that stand before a reader
};

}  // namespace

std::optional<std::vector<AxisRange>> ranges_at(const Kernel& kernel, const Plan& plan, int comp,
                                                How how, LoopPlace place) {
  Plan longer = plan;
  longer.comps.push_back({.comp = comp, .how = how, .at = place});
  return Placer(kernel, longer).ranges_of_last();
}

Placement place_comps(const Kernel& kernel, const Plan& plan) {
  return Placer(kernel, plan).run();
}

bool is_partial(const PlacedComp& comp, const AxisUse& use) {
  return Placer::is_partial(comp, use);
}

}  // namespace tenon
