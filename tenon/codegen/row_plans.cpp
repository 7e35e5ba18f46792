// Plans of kernels whose tmps are read row by row: three forms, by what is contiguous.
// SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/placement.h"
#include "tenon/codegen/plan_families.h"

namespace tenon {
namespace {

class RowPlans {
 public:
  RowPlans(const PlanInput& input, std::vector<Candidate>& plans)
      : kernel_(input.kernel),
        target_(input.target),
        walks_(input.walks),
        indices_(row_indices(kernel_)),
        is_row_(row_axes(kernel_)),
        plans_(plans) {}

  void run() {
    for (const int64_t vectors : {4, 8, 2, 1})
      columns(vectors);
    const size_t none = walks_.back().num_axes();
    if (const size_t blocked = blocked_axis(); blocked != none) rows(blocked);
    rows(none);
  }

 private:
  // An output that passes by the caches is written once; else it may hold a tmp of its shape.
  void add(Plan plan, std::string_view family) {
    const Walk& last = walks_.back();
    if (may_bypass(last, target_)) {
      Plan bypassing = plan;
      bypassing.comps[0].store = StoreKind::kNonTemporal;
      plans_.push_back({std::move(bypassing), family});
    }
    for (size_t i = 1; i < plan.comps.size(); ++i) {
      CompPlan& entry = plan.comps[i];
      if (entry.parts.empty() || walks_[static_cast<size_t>(entry.comp)].comp->combine) continue;
      entry.keep = last.comp->dst;
      if (!check_plan(kernel_, plan, target_)) break;
      entry.keep.reset();
    }
    plans_.push_back({std::move(plan), family});
  }

  // The last comp's row axes over groups and loops, each producer inside of them; rows are walked
  // by vectors. Of axis `blocked` (none: num_axes) some rows are computed at once, so that what is
  // contiguous across rows is read by vectors too.
  void rows(size_t blocked) {
    const Walk& last = walks_.back();
    const auto is_marked = [](bool marked) { return marked; };
    if (std::none_of(is_row_.begin(), is_row_.end(), is_marked)) return;
    CompPlan root{.comp = last.number, .how = How::kRoot};
    std::vector<Part> loops;
    int64_t groups = 1;
    const int64_t wanted = kGroupsPerThread * target_.threads;
    int64_t row_bytes = 0;
    for (const Walk& walk : walks_)
      row_bytes += walk.points() * bytes_per_point(walk);
    for (size_t i = 0; i < last.num_axes(); ++i) {
      if (is_row_[i]) row_bytes = ceil_div(row_bytes, last.extent(i));
    }
    std::vector<int64_t> lengths;
    std::vector<size_t> open;
    for (size_t i = 0; i < last.num_axes(); ++i) {
      const int axis = static_cast<int>(i);
      const int64_t extent = last.extent(i);
      const int64_t tile = i == blocked ? lanes_over(extent, common_lanes()) : 1;
      lengths.push_back(i == blocked ? tile : extent);
      if (!is_row_[i] || i == blocked) open.push_back(i);
      if (!is_row_[i]) continue;
      if (root.parts.size() < kMaxGridDims && groups < wanted && extent > 1) {
        const int64_t most = std::max<int64_t>(ceil_div(extent * groups, wanted), 1);
        const int64_t least = std::clamp<int64_t>(kMinGroupBytes / row_bytes, 1, extent);
        const int64_t block = round_up(std::max(most, least), tile);
        root.parts.push_back({axis, Role::kGrid, block});
        if (block > tile) loops.push_back({axis, Role::kSeq, tile});
        groups *= ceil_div(extent, block);
      } else {
        loops.push_back({axis, Role::kSeq, tile});
      }
    }
    root.parts.insert(root.parts.end(), loops.begin(), loops.end());
    const int depth = root.num_loops();
    walk_open(last, open, lengths, root);
    add_with_producers(
        std::move(root), depth, "rows",
        [&](const Walk& walk, const std::vector<AxisRange>& ranges, CompPlan& entry) {
          open.clear();
          lengths.clear();
          for (size_t i = 0; i < walk.num_axes(); ++i) {
            lengths.push_back(ranges[i].length);
            if (!ranges[i].is_bound || ranges[i].length > 1) open.push_back(i);
          }
          walk_open(walk, open, lengths, entry);
          return true;
        });
  }

  // Each producer inside `depth` loops of the root; `fill` gives it its parts, or false: it has no
  // such form.
  template <class Fill>
  void add_with_producers(CompPlan root, int depth, std::string_view family, const Fill& fill) {
    Plan plan{{std::move(root)}};
    const LoopPlace place{walks_.back().number, depth};
    for (size_t number = walks_.size() - 1; number-- > 0;) {
      const Walk& walk = walks_[number];
      CompPlan entry{.comp = walk.number, .how = How::kBefore, .at = place};
      const auto ranges = ranges_at(kernel_, plan, walk.number, How::kBefore, place);
      if (!ranges || !fill(walk, *ranges, entry)) return;
      plan.comps.push_back(std::move(entry));
    }
    add(std::move(plan), family);
  }

  int64_t common_lanes() const {
    int64_t lanes = walks_.back().lanes;
    for (const Walk& walk : walks_)
      lanes = std::min(lanes, walk.lanes);
    return lanes;
  }

  // A row axis across which some parameter is contiguous.
  size_t blocked_axis() const {
    const Walk& last = walks_.back();
    for (size_t i = 0; i < last.num_axes(); ++i) {
      if (!is_row_[i] || last.extent(i) < 2) continue;
      for (const Walk& walk : walks_) {
        for (const Access& access : walk.accesses) {
          if (kernel_.buffers[static_cast<size_t>(access.buffer)].access != BufferAccess::kIn)
            continue;
          for (size_t axis = 0; axis < walk.num_axes(); ++axis) {
            const Node& index = indices_[static_cast<size_t>(walk.number)][axis];
            const bool is_contiguous = access.strides[axis] == 1 && !access.is_irregular[axis];
            if (is_contiguous && index == last.comp->axes[i].axis) return i;
          }
        }
      }
    }
    return last.num_axes();
  }

  // The same where rows lie side by side (their axis is the contiguous one): a group takes the rows
  // of some vectors and walks along them; each lane is a row.
  void columns(int64_t vectors) {
    const Walk& last = walks_.back();
    size_t vec = last.num_axes();
    for (size_t i = 0; i < last.num_axes(); ++i) {
      const bool is_good =
          std::all_of(last.accesses.begin(), last.accesses.end(), [&](const Access& access) {
            return !access.uses(i) || (access.strides[i] == 1 && !access.is_irregular[i]);
          });
      const bool is_contiguous = last.accesses[0].strides[i] == 1 && is_good;
      if (is_row_[i] && is_contiguous && last.extent(i) > 1) vec = i;
    }
    if (vec == last.num_axes()) return;
    const int64_t lanes = lanes_over(last.extent(vec), common_lanes());
    if (lanes < 2 || (vectors > 1 && last.extent(vec) < lanes * vectors)) return;
    const int64_t block = lanes * vectors;
    const auto add_instances = [&](size_t axis, CompPlan& entry) {
      const int number = static_cast<int>(axis);
      if (block > lanes) entry.parts.push_back({number, Role::kUnroll, lanes});
      entry.parts.push_back({number, Role::kVec, 1});
    };
    CompPlan root{.comp = last.number, .how = How::kRoot};
    std::vector<Part> loops;
    for (size_t i = 0; i < last.num_axes(); ++i) {
      if (!is_row_[i] || i == vec) continue;
      const bool is_dealt = root.parts.size() + 1 < kMaxGridDims;
      (is_dealt ? root.parts : loops)
          .push_back({static_cast<int>(i), is_dealt ? Role::kGrid : Role::kSeq, 1});
    }
    root.parts.push_back({static_cast<int>(vec), Role::kGrid, block});
    root.parts.insert(root.parts.end(), loops.begin(), loops.end());
    const int depth = root.num_loops();
    for (size_t i = 0; i < last.num_axes(); ++i) {
      if (!is_row_[i]) root.parts.push_back({static_cast<int>(i), Role::kSeq, 1});
    }
    add_instances(vec, root);
    const auto fill = [&](const Walk& walk, const std::vector<AxisRange>& ranges, CompPlan& entry) {
      const std::vector<Node>& indices = indices_[static_cast<size_t>(walk.number)];
      const auto lane_axis = static_cast<size_t>(
          std::find(indices.begin(), indices.end(), last.comp->axes[vec].axis) - indices.begin());
      if (lane_axis == indices.size()) return false;
      const int64_t extent = walk.extent(lane_axis);
      if (ranges[lane_axis].length != std::min(block, extent)) return false;
      // A place fixes no part of an axis that is shorter than the block.
      if (extent < block) entry.parts.push_back({static_cast<int>(lane_axis), Role::kSeq, block});
      for (const bool is_red : {false, true}) {
        if (is_red && walk.comp->combine) entry.acc = Acc{.depth = entry.num_loops()};
        for (size_t i = 0; i < walk.num_axes(); ++i) {
          const bool is_fixed = ranges[i].is_bound && ranges[i].length == 1;
          if (is_fixed || i == lane_axis || walk.is_red(i) != is_red) continue;
          entry.parts.push_back({static_cast<int>(i), Role::kSeq, 1});
        }
      }
      add_instances(lane_axis, entry);
      return true;
    };
    add_with_producers(std::move(root), depth, "columns", fill);
  }

  // Loops and instances over the axes that are open, in their order; par ones outside. `lengths`:
  // what is to be walked of each axis.
  void walk_open(const Walk& walk, const std::vector<size_t>& open,
                 const std::vector<int64_t>& lengths, CompPlan& entry) const {
    size_t vec = walk.num_axes();
    for (const size_t axis : open) {
      const bool is_good =
          std::all_of(walk.accesses.begin(), walk.accesses.end(), [&](const Access& access) {
            const bool is_used = access.uses(axis);
            if (access.is_store && !is_used) return walk.is_red(axis);
            return !is_used || (access.strides[axis] == 1 && !access.is_irregular[axis]);
          });
      if (is_good && lengths[axis] > 1) vec = axis;
    }
    if (vec == walk.num_axes() && cross_open(walk, open, lengths, entry)) return;
    const int64_t lanes =
        vec == walk.num_axes() ? walk.lanes : lanes_over(lengths[vec], walk.lanes);
    const bool has_vec = vec != walk.num_axes() && lanes > 1;
    for (const bool is_red : {false, true}) {
      if (is_red && walk.comp->combine) entry.acc = Acc{.depth = entry.num_loops()};
      for (const size_t axis : open) {
        if (walk.is_red(axis) != is_red || (has_vec && axis == vec)) continue;
        entry.parts.push_back({static_cast<int>(axis), Role::kSeq, 1});
      }
      if (!has_vec || walk.is_red(vec) != is_red) continue;
      if (!is_red && walk.comp->combine && !walk.comp->axes.empty()) {
        // Par vec of a reduction: loops over red axes stand inside its tile.
        entry.parts.push_back({static_cast<int>(vec), Role::kSeq, lanes});
        continue;
      }
      const int64_t unroll = std::clamp<int64_t>(lengths[vec] / lanes, 1, 4);
      entry.parts.push_back({static_cast<int>(vec), Role::kSeq, lanes * unroll, Tail::kPeel});
      if (unroll > 1) entry.parts.push_back({static_cast<int>(vec), Role::kUnroll, lanes});
    }
    if (has_vec) entry.parts.push_back({static_cast<int>(vec), Role::kVec, 1});
    // Instances stand inside of all loops.
    std::stable_partition(entry.parts.begin(), entry.parts.end(),
                          [](const Part& part) { return is_loop(part.role); });
  }

  // Squares of two open axes that are transposed in registers: one along which the store is
  // contiguous, one along which loads are.
  bool cross_open(const Walk& walk, const std::vector<size_t>& open,
                  const std::vector<int64_t>& lengths, CompPlan& entry) const {
    const int64_t lanes = walk.lanes;
    const size_t none = walk.num_axes();
    size_t vec = none;
    for (const size_t axis : open) {
      if (walk.accesses[0].strides[axis] == 1 && lengths[axis] >= lanes) vec = axis;
    }
    if (vec == none || lanes < 2 || walk.comp->combine) return false;
    const size_t cross = crossed_axis(walk, vec);
    const bool is_open = std::find(open.begin(), open.end(), cross) != open.end();
    if (!is_open || lengths[cross] % lanes != 0) return false;
    for (const size_t axis : open) {
      if (axis != vec && axis != cross) entry.parts.push_back({static_cast<int>(axis)});
    }
    if (lengths[cross] > lanes) {
      entry.parts.push_back({static_cast<int>(cross), Role::kSeq, lanes});
    }
    entry.parts.push_back({static_cast<int>(vec), Role::kSeq, lanes});
    entry.parts.push_back({static_cast<int>(cross), Role::kUnroll, 1});
    entry.parts.push_back({static_cast<int>(vec), Role::kVec, 1});
    return true;
  }

  const Kernel& kernel_;
  const Target& target_;
  const std::vector<Walk>& walks_;
  const std::vector<std::vector<Node>> indices_;
  const std::vector<bool> is_row_;
  std::vector<Candidate>& plans_;
};

}  // namespace

void add_row_plans(const PlanInput& input, std::vector<Candidate>& plans) {
  RowPlans(input, plans).run();
}

}  // namespace tenon
