// SPDX-License-Identifier: MIT

#include "tests/support/random_plan.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/integer.h"
#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/placement.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/codegen/unit_match.h"

namespace tenon::test {
namespace {

// Whole loops in the order of the kernel over the axes that the place leaves open.
std::vector<Part> open_loops(const Comp& comp, const std::vector<AxisRange>& ranges) {
  std::vector<Part> parts;
  for (size_t i = 0; i < comp.axes.size(); ++i) {
    if (!ranges[i].is_bound || ranges[i].length > 1) {
      parts.push_back({static_cast<int>(i), Role::kSeq, 1});
    }
  }
  return parts;
}

// The last comp is the root; producers stand before all of its loops, or inside of all.
Plan ordered_plan(const Kernel& kernel, const Target& target, bool inside) {
  const int last = static_cast<int>(kernel.body.size()) - 1;
  Plan plan;
  CompPlan root{.comp = last, .how = How::kRoot};
  const Comp& comp = std::get<Comp>(kernel.body.back().node);
  for (size_t i = 0; i < comp.axes.size(); ++i)
    root.parts.push_back({static_cast<int>(i), Role::kSeq, 1});
  const int depth = inside ? root.num_loops() : 0;
  plan.comps.push_back(std::move(root));
  for (int i = last - 1; i >= 0; --i) {
    const Comp& producer = std::get<Comp>(kernel.body[static_cast<size_t>(i)].node);
    CompPlan entry{.comp = i, .how = How::kBefore, .at = {last, depth}};
    if (const auto ranges = ranges_at(kernel, plan, i, How::kBefore, entry.at)) {
      entry.parts = open_loops(producer, *ranges);
    }
    plan.comps.push_back(std::move(entry));
  }
  const auto reason = check_plan(kernel, plan, target);
  TENON_ASSERT(!reason, "random plan: ", *reason);
  return plan;
}

std::vector<Part> parts_in_order(const std::vector<int>& axes) {
  std::vector<Part> parts;
  for (const int axis : axes)
    parts.push_back({axis, Role::kSeq, 1});
  return parts;
}

std::vector<int> axes_of(const CompPlan& entry) {
  std::vector<int> axes;
  for (const Part& part : entry.parts)
    axes.push_back(part.axis);
  std::sort(axes.begin(), axes.end());
  return axes;
}

size_t num_orders(size_t num_loops) {
  size_t count = 1;
  for (size_t i = 2; i <= num_loops; ++i)
    count *= i;
  return count;
}

// Orders of all Comps together: saturates, it is only compared.
size_t num_orders(const Plan& plan) {
  size_t count = 1;
  for (const CompPlan& entry : plan.comps)
    count = std::min<size_t>(count * num_orders(entry.parts.size()), 1'000'000);
  return count;
}

// With `combined` each order of a Comp with each of the others, else as many plans as the Comp with
// the most loops has orders, the others going through theirs beside it.
void add_all_orders(const Plan& start, bool combined, std::vector<Plan>& plans) {
  std::vector<std::vector<int>> orders;
  size_t most = 1;
  for (const CompPlan& entry : start.comps) {
    orders.push_back(axes_of(entry));
    most = std::max(most, num_orders(entry.parts.size()));
  }
  const size_t count = combined ? num_orders(start) : most;
  for (size_t number = 0; number < count; ++number) {
    Plan plan = start;
    for (size_t i = 0; i < orders.size(); ++i)
      plan.comps[i].parts = parts_in_order(orders[i]);
    plans.push_back(std::move(plan));
    for (std::vector<int>& order : orders) {  // next_permutation as an odometer over the comps
      if (std::next_permutation(order.begin(), order.end()) && combined) break;
    }
  }
}

/// What a matrix unit on vectors would compute of a comp: the lanes of `column`, `count` points of
/// `depth`; `buffer` is its operand with the columns.
struct UnitUse {
  int column = 0;
  int depth = 0;
  int64_t lanes = 0;
  int64_t count = 0;
  int buffer = 0;
  int column_dim = 0;
  int depth_dim = 0;
};

int dim_that_moves(std::span<const Node> index, const Node& axis) {
  for (size_t dim = 0; dim < index.size(); ++dim) {
    if (uses_axis(index[dim], axis)) return static_cast<int>(dim);
  }
  return -1;
}

std::vector<UnitUse> unit_uses(const Comp& comp, const Target& target) {
  std::vector<UnitUse> uses;
  for (size_t column = 0; column < comp.axes.size(); ++column) {
    const Node& axis = comp.axes[column].axis;
    if (axis_kind(axis) != AxisKind::kPar) continue;
    const auto factors = unit_factors(comp, axis);
    if (!factors) continue;
    const LoadParts load = load_parts(load_under(factors->b));
    const int column_dim = dim_that_moves(load.index, axis);
    for (size_t depth = 0; depth < comp.axes.size(); ++depth) {
      const Node& red = comp.axes[depth].axis;
      const int depth_dim = dim_that_moves(load.index, red);
      if (axis_kind(red) != AxisKind::kRed || depth_dim < 0 || depth_dim == column_dim) continue;
      for (const MatrixUnit& unit : target.units) {
        if (find_vector_unit({&unit, 1}, *factors, comp.value.dtype(), 0, 0) < 0) continue;
        uses.push_back({static_cast<int>(column), static_cast<int>(depth), unit.n, unit.k,
                        load.buffer, column_dim, depth_dim});
      }
    }
  }
  return uses;
}

class PlanGenerator {
 public:
  PlanGenerator(const Kernel& kernel, const Target& target, std::mt19937_64& random)
      : kernel_(kernel), target_(target), random_(random) {}

  // May fit or not.
  Plan run() {
    const int last = static_cast<int>(kernel_.body.size()) - 1;
    const int reduction = last > 0 && below(2) == 0 ? read_by(last) : -1;
    place_root(reduction >= 0 ? reduction : last);
    if (reduction >= 0) place_at(last, How::kAfter, reduction);
    for (int i = last; i >= 0; --i) {
      if (!is_placed(i)) place_before(i);
    }
    for (CompPlan& entry : plan_.comps) {
      const int dst = comp_at(entry.comp).dst;
      const bool is_output = kernel_.buffers[static_cast<size_t>(dst)].access != BufferAccess::kTmp;
      if (is_output && below(4) == 0) entry.store = StoreKind::kNonTemporal;
      if (entry.how == How::kBefore && below(4) == 0) entry.keep = output_written_by_root();
    }
    return plan_;
  }

 private:
  const Comp& comp_at(int number) const {
    return std::get<Comp>(kernel_.body[static_cast<size_t>(number)].node);
  }
  size_t below(size_t bound) { return random_() % bound; }
  bool is_placed(int number) const {
    return std::any_of(plan_.comps.begin(), plan_.comps.end(),
                       [&](const CompPlan& entry) { return entry.comp == number; });
  }

  static bool reads(const Comp& comp, int buffer) {
    for (const Node& node : topological_order(std::span(&comp.value, 1))) {
      if (node.op() == Op::kLoad && load_parts(node).buffer == buffer) return true;
    }
    return false;
  }

  int output_written_by_root() const { return comp_at(plan_.comps.front().comp).dst; }

  // All of the buffer's dims in any order, some in two pieces, some with a gap behind.
  std::vector<LayoutPart> layout(const BufferDecl& decl) {
    std::vector<LayoutPart> parts;
    for (size_t dim = 0; dim < decl.dims.size(); ++dim) {
      int64_t extent = decl.dims[dim];
      if (extent > 2 && below(3) != 0) {
        const int64_t piece = 2 + static_cast<int64_t>(below(std::min<size_t>(8, extent - 2)));
        parts.push_back({static_cast<int>(dim), piece, 0});
        extent = ceil_div(extent, piece);
      }
      const auto pad = static_cast<int64_t>(below(3) == 0 ? below(5) : 0);
      parts.push_back({static_cast<int>(dim), extent, pad});
    }
    std::shuffle(parts.begin(), parts.end(), random_);
    return parts;
  }

  // What a unit reads: inside, some vectors of columns, and for each column a group of the depth.
  std::vector<LayoutPart> layout(const BufferDecl& decl, const UnitUse& use) {
    const auto columns = static_cast<int64_t>(1 + below(3)) * use.lanes;
    std::vector<LayoutPart> parts;
    for (size_t i = 0; i < decl.dims.size(); ++i) {
      const int dim = static_cast<int>(i);
      const int64_t piece = dim == use.column_dim ? columns : dim == use.depth_dim ? use.count : 1;
      const auto pad = static_cast<int64_t>(below(4) == 0 ? below(5) : 0);
      parts.push_back({dim, ceil_div(decl.dims[i], piece), pad});
    }
    std::shuffle(parts.begin(), parts.end(), random_);
    parts.push_back({use.column_dim, columns, 0});
    parts.push_back({use.depth_dim, use.count, 0});
    return parts;
  }

  std::optional<UnitUse> any_unit(const Comp& comp) {
    const std::vector<UnitUse> uses = unit_uses(comp, target_);
    if (uses.empty() || below(3) == 0) return std::nullopt;
    return uses[below(uses.size())];
  }

  // A reduction into a tmp that `reader` reads.
  int read_by(int reader) {
    std::vector<int> found;
    for (int i = 0; i < reader; ++i) {
      if (comp_at(i).combine && reads(comp_at(reader), comp_at(i).dst)) found.push_back(i);
    }
    return found.empty() ? -1 : found[below(found.size())];
  }

  void place_root(int number) {
    const Comp& comp = comp_at(number);
    std::vector<AxisRange> ranges;
    for (const AxisUse& use : comp.axes)
      ranges.push_back({idx_const(0), axis_extent(use.axis), false, true});
    CompPlan entry{.comp = number, .how = How::kRoot};
    const std::optional<UnitUse> unit = any_unit(comp);
    entry.parts = parts(comp, ranges, true, unit);
    finish(comp, entry, unit);
    plan_.comps.push_back(std::move(entry));
  }

  void place_before(int number) {
    std::vector<int> readers;
    for (const CompPlan& entry : plan_.comps) {
      if (reads(comp_at(entry.comp), comp_at(number).dst)) readers.push_back(entry.comp);
    }
    // Now and then in the first reader's own loops, else in the root's.
    const int around = !readers.empty() && below(3) == 0 ? readers[below(readers.size())]
                                                         : plan_.comps.front().comp;
    place_at(number, How::kBefore, around);
  }

  void place_at(int number, How how, int around) {
    const Comp& comp = comp_at(number);
    CompPlan entry{.comp = number, .how = how};
    entry.at.comp = around;
    const CompPlan* outer = nullptr;
    for (const CompPlan& placed : plan_.comps) {
      if (placed.comp == around) outer = &placed;
    }
    const size_t num_loops = static_cast<size_t>(outer->num_loops());
    // Above the loops of the grid a producer is computed by each group: now and then only.
    const size_t num_grid = static_cast<size_t>(
        std::count_if(outer->parts.begin(), outer->parts.end(),
                      [](const Part& part) { return part.role == Role::kGrid; }));
    const size_t lowest = below(8) == 0 ? 0 : num_grid;
    entry.at.depth = static_cast<int>(lowest + below(num_loops + 1 - lowest));
    if (how == How::kAfter && outer->acc) {
      entry.at.depth = static_cast<int>(below(3) == 0 ? below(num_loops + 1)
                                                      : static_cast<size_t>(outer->acc->depth));
    }
    const auto ranges = ranges_at(kernel_, plan_, number, how, entry.at);
    const std::optional<UnitUse> unit = any_unit(comp);
    if (ranges) entry.parts = parts(comp, *ranges, false, unit);
    finish(comp, entry, unit);
    plan_.comps.push_back(std::move(entry));
  }

  void finish(const Comp& comp, CompPlan& entry, const std::optional<UnitUse>& unit) {
    if (!comp.combine) return;
    size_t after_par = 0;
    const size_t num_loops = static_cast<size_t>(entry.num_loops());
    for (size_t i = 0; i < num_loops; ++i) {
      const int axis = entry.parts[i].axis;
      if (axis_kind(comp.axes[static_cast<size_t>(axis)].axis) == AxisKind::kPar) after_par = i + 1;
    }
    const bool has_vec = std::any_of(entry.parts.begin(), entry.parts.end(),
                                     [](const Part& part) { return part.role == Role::kVec; });
    if (!has_vec && below(3) == 0) return;
    Acc acc{.depth = static_cast<int>(after_par + below(num_loops + 1 - after_par))};
    acc.has_partials = below(2) == 0;
    for (int i = 0; i < acc.depth; ++i) {
      const int axis = entry.parts[static_cast<size_t>(i)].axis;
      const bool is_red = axis_kind(comp.axes[static_cast<size_t>(axis)].axis) == AxisKind::kRed;
      if (is_red && entry.how == How::kRoot) acc.carry_in = 0;
    }
    entry.acc = acc;
    for (size_t buffer = 1; buffer < kernel_.buffers.size(); ++buffer) {
      const bool is_of_unit = unit && static_cast<size_t>(unit->buffer) == buffer;
      if (kernel_.buffers[buffer].access != BufferAccess::kIn) continue;
      if (!is_of_unit && below(3) == 0) continue;
      if (!reads(comp, static_cast<int>(buffer))) continue;
      Stage stage{.buffer = static_cast<int>(buffer), .layout = {}};
      stage.depth = static_cast<int>(below(num_loops + 1));
      if (entry.how != How::kRoot && below(2) == 0) {
        stage.around = entry.at.comp;
        stage.depth = static_cast<int>(below(static_cast<size_t>(entry.at.depth) + 1));
      }
      if (is_of_unit) {
        stage.layout = layout(kernel_.buffers[buffer], *unit);
      } else if (below(3) != 0) {
        stage.layout = layout(kernel_.buffers[buffer]);
      }
      entry.stages.push_back(std::move(stage));
    }
  }

  std::vector<Part> parts(const Comp& comp, const std::vector<AxisRange>& ranges, bool has_grid,
                          const std::optional<UnitUse>& unit) {
    std::vector<Part> grid;
    std::vector<std::vector<Part>> loops;  // by axis, outer to inner
    std::vector<Part> unrolls;
    std::vector<Part> vec;  // then the part of a unit
    for (size_t i = 0; i < comp.axes.size(); ++i) {
      const AxisRange& range = ranges[i];
      if (range.is_bound && range.length == 1) continue;
      const int axis = static_cast<int>(i);
      const bool is_par = axis_kind(comp.axes[i].axis) == AxisKind::kPar;
      const auto divides = [&](int64_t step) {
        return !range.is_bound || range.length % step == 0;
      };
      int64_t step = 1;
      const bool is_long = axis_extent(comp.axes[i].axis) > 16;
      const int64_t lanes = int64_t{2} << below(is_long ? 4 : 2);
      const bool may_be_vec = !unit && vec.empty() && target_.max_vector_bytes > 0;
      if (unit && unit->column == axis) {
        vec.insert(vec.begin(), {axis, Role::kVec, 1});
        step = unit->lanes;
      } else if (unit && unit->depth == axis) {
        vec.push_back({axis, Role::kUnit, 1});
        step = unit->count;
      } else if (may_be_vec && below(3) == 0 && divides(lanes)) {
        vec.push_back({axis, Role::kVec, 1});
        step = lanes;
      }
      const auto count = static_cast<int64_t>(2 + below(3));
      if (below(4) == 0 && divides(step * count) && (is_par || !unit)) {
        unrolls.push_back(
            {axis, Role::kUnroll, step, is_par && below(2) == 0 ? Tail::kClamp : Tail::kNone});
        step *= count;
      }
      std::vector<Part> own{{axis, Role::kSeq, step, below(4) == 0 ? Tail::kPeel : Tail::kNone}};
      const auto tile = static_cast<int64_t>(2 + below(4));
      if (below(2) == 0 && divides(step * tile)) {
        step *= tile;
        own.insert(own.begin(), {axis, Role::kSeq, step, Tail::kNone});
      }
      if (has_grid && is_par && grid.size() < 3 && below(2) == 0) {
        own.front().role = Role::kGrid;
        own.front().tail = Tail::kNone;
        grid.push_back(own.front());
        own.erase(own.begin());
      }
      if (!own.empty()) loops.push_back(std::move(own));
    }
    // A random order that keeps the loops of an axis in theirs.
    std::vector<Part> result;
    while (!loops.empty()) {
      const size_t at = below(loops.size());
      result.push_back(loops[at].front());
      loops[at].erase(loops[at].begin());
      if (loops[at].empty()) loops.erase(loops.begin() + static_cast<ptrdiff_t>(at));
    }
    std::shuffle(grid.begin(), grid.end(), random_);
    result.insert(result.begin(), grid.begin(), grid.end());
    std::shuffle(unrolls.begin(), unrolls.end(), random_);
    result.insert(result.end(), unrolls.begin(), unrolls.end());
    result.insert(result.end(), vec.begin(), vec.end());
    return result;
  }

  const Kernel& kernel_;
  const Target& target_;
  std::mt19937_64& random_;
  Plan plan_;
};

}  // namespace

LoopOrders loop_orders(const Kernel& kernel, const Target& target, size_t max_combined) {
  std::vector<Plan> starts{ordered_plan(kernel, target, false)};
  const Plan inside = ordered_plan(kernel, target, true);
  if (!(inside == starts[0])) starts.push_back(inside);
  LoopOrders result{.plans = {}, .is_combined = true};
  for (const Plan& start : starts) {
    const bool combined = num_orders(start) <= max_combined;
    result.is_combined = result.is_combined && combined;
    add_all_orders(start, combined, result.plans);
  }
  return result;
}

std::optional<Plan> random_plan(const Kernel& kernel, const Target& target,
                                std::mt19937_64& random) {
  for (int tries = 0; tries < 40; ++tries) {
    Plan plan = PlanGenerator(kernel, target, random).run();
    if (!check_plan(kernel, plan, target)) return plan;
  }
  return std::nullopt;
}

ManyPlans many_plans(const Kernel& kernel, const Target& target, uint64_t seed, Orders wanted,
                     size_t num_random) {
  constexpr size_t kMaxCombined = 24;
  std::mt19937_64 random(seed);
  LoopOrders orders = loop_orders(kernel, target, kMaxCombined);
  // The chosen one, and one of those after it.
  std::vector<PlanChoice> choices = choose_plans(kernel, target, 2 + seed % 16);
  ManyPlans result{.plans = {std::move(choices.front().plan)},
                   .has_combined_orders = orders.is_combined};
  if (choices.size() > 1) result.plans.push_back(std::move(choices.back().plan));
  std::vector<Plan> known = orders.plans;
  known.insert(known.end(), result.plans.begin(), result.plans.end());
  known.push_back(simple_plan(kernel, target));
  for (size_t tries = 0; tries < 4 * num_random && result.random.size() < num_random; ++tries) {
    std::optional<Plan> plan = random_plan(kernel, target, random);
    if (!plan || std::ranges::find(known, *plan) != known.end()) continue;
    known.push_back(*plan);
    result.random.push_back(*std::move(plan));
  }
  result.num_missing = num_random - result.random.size();
  if (wanted == Orders::kSome && !orders.is_combined) {
    std::shuffle(orders.plans.begin(), orders.plans.end(), random);
    orders.plans.resize(4);
  }
  for (Plan& plan : orders.plans)
    result.plans.push_back(std::move(plan));
  return result;
}

PlanTally::Features PlanTally::features_of(const Plan& plan) {
  Features own;
  for (const CompPlan& entry : plan.comps) {
    if (entry.store == StoreKind::kNonTemporal) own.insert("nt stores");
    if (entry.keep) own.insert("kept tmps");
    if (entry.how == How::kBefore) own.insert("producers before");
    if (entry.how == How::kAfter) own.insert("consumers after");
    if (entry.acc) own.insert("accumulators");
    if (entry.acc && entry.acc->carry_in) own.insert("carried accumulators");
    const bool has_unit =
        std::ranges::any_of(entry.parts, [](const Part& part) { return part.role == Role::kUnit; });
    for (const Stage& stage : entry.stages) {
      own.insert(stage.layout.empty() ? "stages" : "stages with layouts");
      std::set<int> dims;
      for (const LayoutPart& part : stage.layout) {
        if (dims.insert(part.dim).second) continue;
        own.insert(has_unit ? "stages for units" : "stages with split dims");
      }
    }
    for (const Part& part : entry.parts) {
      if (part.tail == Tail::kPeel) own.insert("peeled loops");
      if (part.tail == Tail::kClamp) own.insert("clamped parts");
      if (part.role == Role::kVec) own.insert("vectors");
      if (part.role == Role::kUnit) own.insert("units");
      if (part.role == Role::kGrid) own.insert("grid parts");
    }
  }
  return own;
}

void PlanTally::add(const Plan& plan) {
  ++num_plans_;
  for (const std::string& feature : features_of(plan))
    ++counts_[feature];
}

int PlanTally::count(const std::string& feature) const {
  const auto found = counts_.find(feature);
  return found == counts_.end() ? 0 : found->second;
}

std::string PlanTally::to_text() const {
  std::string text = concat(num_plans_, " plans; with");
  for (const auto& [feature, count] : counts_)
    append(text, " ", feature, " ", count, ",");
  text.back() = '\n';
  return text;
}

}  // namespace tenon::test
