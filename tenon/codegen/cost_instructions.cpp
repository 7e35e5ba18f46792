// What one run of an entry's body takes, times its runs. SPDX-License-Identifier: MIT

#include <algorithm>
#include <cmath>

#include "tenon/codegen/cost_parts.h"

namespace tenon {
namespace {

class Instructions {
 public:
  Instructions(const Kernel& kernel, const Target& target, const std::vector<PlanNest>& nests,
               PlanCost& cost)
      : kernel_(kernel), target_(target), nests_(nests), cost_(cost) {}

  void run() {
    for (const PlanNest& nest : nests_)
      compute(nest);
  }

 private:
  static double instances(const PlanNest& nest) {
    double product = 1;
    for (const int64_t count : nest.counts)
      product *= static_cast<double>(count);
    return product;
  }

  /// Instructions that load or store what one run of the body touches.
  static double accesses_of(const PlanNest& nest, const Access& access) {
    double count = 1;
    bool is_square = false;
    for (size_t i = 0; i < nest.counts.size(); ++i) {
      if (!access.uses(i)) continue;
      count *= static_cast<double>(nest.counts[i]);
      is_square = is_square || (access.strides[i] == 1 && padded(nest.counts[i]) >= nest.lanes);
    }
    if (nest.vec == nest.counts.size() || !access.uses(nest.vec)) return count;
    if (!access.is_store && stage_of(nest, access) != nullptr) return count;
    if (access.strides[nest.vec] == 1 && !access.is_irregular[nest.vec]) return count;
    // A square that is transposed in registers takes two shuffles for each of log2 steps.
    const auto lanes = static_cast<double>(nest.lanes);
    if (is_square) return count * (1 + std::log2(lanes));
    return count * lanes * 1.5;
  }

  /// Runs of the body for which what depends on some axes stays: it stands outside of the
  /// innermost loops over others.
  template <class Uses>
  static double repeats(const PlanNest& nest, const Uses& uses) {
    double count = 1;
    for (size_t i = nest.levels.size(); i-- > nest.outer;) {
      const int axis = nest.levels[i].axis;
      if (axis >= 0 && uses(static_cast<size_t>(axis))) break;
      count *= static_cast<double>(nest.levels[i].trips);
    }
    return count;
  }

  void compute(const PlanNest& nest) {
    const Walk& walk = *nest.walk;
    const double bodies = nest.trips(0, nest.levels.size());
    double ops = 0;
    for (const OpGroup& group : walk.ops) {
      double count = group.count;
      for (size_t i = 0; i < group.axes.size(); ++i)
        count *= group.axes[i] ? static_cast<double>(nest.counts[i]) : 1.0;
      ops += count / repeats(nest, [&](size_t axis) { return group.axes[axis]; });
    }
    if (walk.comp->combine) {
      double chains = 1;
      for (size_t i = 0; i < nest.counts.size(); ++i) {
        const bool is_kept = !walk.is_red(i) || !nest.plan->acc || nest.plan->acc->has_partials;
        if (is_kept) chains *= static_cast<double>(nest.counts[i]);
      }
      ops = std::max(ops, ops * target_.mulacc_chains / std::max(chains, 1.0) * 0.9);
    }
    double moves = 0;
    for (const Access& access : walk.accesses) {
      if (in_registers(kernel_, nest, access)) continue;
      const double count = accesses_of(nest, access);
      moves += access.is_store
                   ? count
                   : count / repeats(nest, [&](size_t axis) { return access.uses(axis); });
    }
    // Two loads or stores start with each operation; the last loop's own work is a branch.
    constexpr double kOverlap = 0.1;
    moves += spilled_pointers(nest);
    const double body = std::max(ops, moves) + kOverlap * std::min(ops, moves) + 0.5;
    cost_.vector_ops += bodies * body + reduction_ends(nest);
    cost_.flops += walk.flops * static_cast<double>(walk.points());
    if (nest.plan->how == How::kRoot) {
      for (const PlanLoop& level : nest.levels)
        cost_.groups *= level.is_grid ? level.trips : 1;
    }
    for (const Stage& stage : nest.plan->stages)
      compute_copy(nest, stage);
  }

  /// Rows that are clamped have a pointer each. Where they do not fit beside what else is held (the
  /// stack, blocks of dealt rows, a stage, a carried tile), they and more are loaded again and
  /// again.
  double spilled_pointers(const PlanNest& nest) const {
    int64_t pointers = 1;
    int64_t others = 0;
    for (const Part& part : nest.plan->parts) {
      const auto axis = static_cast<size_t>(part.axis);
      if (part.tail != Tail::kClamp || nest.walk->extent(axis) % nest.counts[axis] == 0) continue;
      pointers *= nest.counts[axis];
      const bool is_dealt = std::any_of(
          nest.levels.begin(), nest.levels.end(),
          [&](const PlanLoop& level) { return level.is_grid && level.axis == part.axis; });
      others += is_dealt ? 2 : 0;
    }
    others += nest.plan->stages.empty() ? 0 : 1;
    others += nest.plan->acc && nest.plan->acc->carry_in ? 1 : 0;
    constexpr double kReloads = 12;
    const int64_t missing = pointers + others + 1 - target_.scalar_registers;
    return kReloads * static_cast<double>(std::max<int64_t>(missing, 0));
  }

  /// Accumulators begin, are folded and end, once for each run of the loops inside.
  double reduction_ends(const PlanNest& nest) const {
    if (!nest.plan->acc) return 0;
    const size_t depth =
        std::min(nest.outer + static_cast<size_t>(nest.plan->acc->depth), nest.levels.size());
    double ends = (nest.plan->acc->carry_in ? 4 : 2) * instances(nest);
    if (nest.vec < nest.counts.size() && nest.walk->is_red(nest.vec)) {
      double results = 1;
      for (size_t i = 0; i < nest.counts.size(); ++i)
        results *= nest.walk->is_red(i) ? 1.0 : static_cast<double>(nest.counts[i]);
      ends += results * 2 * std::log2(static_cast<double>(std::max<int64_t>(nest.lanes, 2)));
    }
    return ends * nest.trips(0, depth);
  }

  const Access* access_to(const Walk& walk, int buffer) const {
    for (size_t i = 1; i < walk.accesses.size(); ++i) {
      if (walk.accesses[i].buffer == buffer) return &walk.accesses[i];
    }
    return nullptr;
  }

  void compute_copy(const PlanNest& nest, const Stage& stage) {
    const Access* access = access_to(*nest.walk, stage.buffer);
    if (access == nullptr) return;
    const size_t depth = nest.outer + static_cast<size_t>(stage.depth);
    const AccessBox box = box_of(*access, nest.lengths[depth]);
    const double elements = static_cast<double>(box.run * box.rows) * nest.trips(0, depth);
    const bool is_crossed =
        nest.vec < nest.counts.size() && access->uses(nest.vec) && access->strides[nest.vec] != 1;
    const auto element_bytes = static_cast<double>(dtype_size_bytes(access->dtype));
    const double lanes = std::max(1.0, target_.max_vector_bytes / element_bytes);
    cost_.vector_ops += elements / lanes * (is_crossed ? 2 + std::log2(lanes) : 2);
    cost_.copied_bytes += static_cast<int64_t>(elements) * dtype_size_bytes(access->dtype);
  }

  const Kernel& kernel_;
  const Target& target_;
  const std::vector<PlanNest>& nests_;
  PlanCost& cost_;
};

}  // namespace

void add_instructions(const Kernel& kernel, const Target& target,
                      const std::vector<PlanNest>& nests, PlanCost& cost) {
  Instructions(kernel, target, nests, cost).run();
}

}  // namespace tenon
