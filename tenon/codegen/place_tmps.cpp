// Memory of tmps: the box that is alive at once, in registers where instances alone index it, in an
// output, or in the group; tiles of reductions; copies of operands. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/base/text.h"
#include "tenon/codegen/places.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/codegen/stage_copy.h"
#include "tenon/rules/affine.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/simplify_index.h"

namespace tenon {
namespace {

bool has_node(const Node& expr, const std::unordered_set<const void*>& wanted) {
  for (const Node& node : topological_order(std::span(&expr, 1))) {
    if (wanted.contains(node.id())) return true;
  }
  return false;
}

class TmpPlacer : public Places {
 public:
  explicit TmpPlacer(PlacingState& state) : Places(state) {}

  void run() {
    for (size_t i = 0; i < plan_.comps.size(); ++i)
      finish(static_cast<int>(i));
  }

 private:
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
      return alias(comp, *comp.plan->keep);
    }
    const LoopPlace place =
        comp.after.empty() ? comp.plan->at : LoopPlace{comp.plan->comp, comp.start_depth};
    const auto outer = loops_around(place);
    widen(storage, comp, comp.comp->index, outer);
    for (size_t number = 0; number < kernel_.body.size(); ++number) {
      const PlacedComp& reader = placed(static_cast<int>(number));
      for (const Node& load : loads_of(*reader.comp, buffer))
        widen(storage, reader, load_parts(load).index, outer);
    }
    storage.is_reg = fits_registers(comp, storage);
    storage.vec_dim = vec_dim(comp, comp.comp->index).first;
    return storage;
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
    if (num_elements(storage) == 1) return true;
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

  // The dim along which one instance with this index takes several elements of a register buffer,
  // and how many; -1 and 1 without a vec axis in it.
  std::pair<int, int64_t> vec_dim(const PlacedComp& comp, std::span<const Node> index) const {
    const auto values = axis_values(comp);
    for (const AxisUse& use : comp.instances) {
      if (use.role != Role::kVec) continue;
      for (size_t dim = 0; dim < index.size(); ++dim) {
        if (has_node(substitute(index[dim], values), {use.axis.id()})) {
          return {static_cast<int>(dim), axis_extent(use.axis)};
        }
      }
    }
    return {-1, 1};
  }

  // Registers are vectors along one dim, so that is the innermost.
  static void put_innermost(BufferDecl& decl, int dim) {
    if (dim < 0 || static_cast<size_t>(dim) + 1 == decl.dims.size()) return;
    for (size_t i = 0; i < decl.dims.size(); ++i) {
      if (static_cast<int>(i) != dim) decl.layout.push_back({static_cast<int>(i), decl.dims[i], 0});
    }
    decl.layout.push_back({dim, decl.dims[static_cast<size_t>(dim)], 0});
  }

  bool is_by_instances(const PlacedComp& comp, std::span<const Node> index,
                       const StorageBox& storage, bool covers = false) {
    const auto values = axis_values(comp);
    std::unordered_set<const void*> own;
    for (const AxisUse& use : comp.instances)
      own.insert(use.axis.id());
    for (size_t dim = 0; dim < index.size(); ++dim) {
      const int64_t last = storage.box[dim].length - 1;
      if (last == 0) continue;
      const Node local = simplify_index(
          make_expr(Op::kSub, substitute(index[dim], values), storage.box[dim].base));
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

  static int64_t num_elements(const StorageBox& storage) {
    int64_t count = 1;
    for (const AxisRange& range : storage.box)
      count *= range.length;
    return count;
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
    for (size_t dim = 0; dim < decl.dims.size(); ++dim)
      decl.dims[dim] = storage.box[dim].length;
    decl.scope = storage.is_reg ? Scope::kReg : Scope::kGroup;
    if (storage.is_reg) put_innermost(decl, storage.vec_dim);
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
        if (index.op() != Op::kAxis && !(is_const(index) && idx_value(index) == 0)) {
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
    tile.box = own_box(comp, acc.depth);
    widen(tile, comp, comp.comp->index, loops_around({number, acc.depth}));
    tile.is_reg = true;
    tile.vec_dim = vec_dim(comp, comp.comp->index).first;
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

  int add_register(std::string_view what, const PlacedComp& comp, const StorageBox& storage,
                   const std::vector<int64_t>& more) {
    BufferDecl decl;
    const BufferDecl& tmp = kernel_.buffers[static_cast<size_t>(comp.comp->dst)];
    decl.name = concat(tmp.name, "_", what);
    decl.dtype = tmp.dtype;
    for (const AxisRange& range : storage.box)
      decl.dims.push_back(range.length);
    decl.dims.insert(decl.dims.end(), more.begin(), more.end());
    decl.scope = Scope::kReg;
    put_innermost(decl, storage.vec_dim);
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

  StructuralOrder order_;
};

}  // namespace

bool is_partial(const PlacedComp& comp, const AxisUse& use) {
  return axis_kind(use.axis) == AxisKind::kRed && use.role != Role::kUnit &&
         (use.role == Role::kVec || comp.plan->acc->has_partials);
}

void place_tmps(PlacingState& state) {
  TmpPlacer(state).run();
}

}  // namespace tenon
