// SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/codegen/plan_families.h"

namespace tenon {
namespace {

constexpr int64_t kMaxUnroll = 4;
constexpr int64_t kBlocks[] = {64, 128, 32};  // edges of blocks of squares, in elements

class StreamPlans {
 public:
  StreamPlans(const PlanInput& input, std::vector<Candidate>& plans)
      : target_(input.target), walk_(input.walks[0]), plans_(plans) {}

  void run() {
    const Access& store = walk_.accesses[0];
    const size_t none = walk_.num_axes();
    size_t vec = none;
    for (size_t i = 0; i < none; ++i) {
      if (store.strides[i] == 1 && walk_.extent(i) > 1) vec = i;
    }
    if (vec == none) return;
    const int64_t lanes = lanes_over(walk_.extent(vec), walk_.lanes);
    if (lanes < 2) return;
    const size_t cross = crossed_axis(walk_, vec);
    const int64_t edge = cross == none ? 1 : lanes_over(walk_.extent(cross), lanes);
    if (edge > 1) {
      for (const int64_t block : kBlocks)
        add(crossed(vec, cross, edge, block), "crossed");
    }
    const int64_t most = std::clamp<int64_t>(walk_.extent(vec) / lanes, 1, kMaxUnroll);
    for (int64_t unroll = most; unroll > 0; unroll /= 2)
      add(straight(vec, lanes, unroll), "stream");
  }

 private:
  void add(CompPlan entry, std::string_view family) {
    plans_.push_back({{{entry}}, family});
    if (!may_bypass(walk_, target_)) return;
    entry.store = StoreKind::kNonTemporal;
    plans_.push_back({{{std::move(entry)}}, family});
  }

  CompPlan straight(size_t vec, int64_t lanes, int64_t unroll) const {
    CompPlan entry{.comp = 0, .how = How::kRoot};
    entry.parts = dealt(vec, lanes * unroll);
    if (unroll > 1) entry.parts.push_back({static_cast<int>(vec), Role::kUnroll, lanes});
    entry.parts.push_back({static_cast<int>(vec), Role::kVec, 1});
    return entry;
  }

  // Loops of a streaming kernel: outer axes over groups, then the vec axis in steps.
  std::vector<Part> dealt(size_t vec, int64_t step) const {
    std::vector<Part> grid;
    std::vector<Part> loops;
    int64_t rest = walk_.points();
    int64_t groups = 1;
    const int64_t wanted = kGroupsPerThread * target_.threads;
    const int64_t min_points = std::max<int64_t>(kMinGroupBytes / bytes_per_point(walk_), 1);
    for (size_t i = 0; i < walk_.num_axes(); ++i) {
      if (i == vec) continue;
      const int axis = static_cast<int>(i);
      const int64_t extent = walk_.extent(i);
      rest /= extent;
      const bool is_dealt = grid.size() + 1 < kMaxGridDims && groups < wanted && extent > 1;
      if (!is_dealt) {
        loops.push_back({axis, Role::kSeq, 1});
        continue;
      }
      const int64_t least = std::clamp<int64_t>(ceil_div(min_points, rest), 1, extent);
      const int64_t most = std::max<int64_t>(ceil_div(extent * groups, wanted), 1);
      const int64_t tile = std::max(least, std::min(most, extent));
      grid.push_back({axis, Role::kGrid, tile});
      if (tile > 1) loops.push_back({axis, Role::kSeq, 1});
      groups *= ceil_div(extent, tile);
    }
    const int axis = static_cast<int>(vec);
    if (groups < wanted) {
      // The inner axis too, as far as each group keeps enough.
      const int64_t extent = walk_.extent(vec);
      const int64_t most = round_up(std::max<int64_t>(ceil_div(extent * groups, wanted), 1), step);
      const int64_t tile = std::max(round_up(std::min(min_points, extent), step), most);
      if (tile < extent) grid.push_back({axis, Role::kGrid, tile});
    }
    grid.insert(grid.end(), loops.begin(), loops.end());
    const bool is_split = std::any_of(grid.begin(), grid.end(), [&](const Part& part) {
      return part.axis == axis && part.step == step;
    });
    if (!is_split) grid.push_back({axis, Role::kSeq, step, Tail::kPeel});
    return grid;
  }

  // Square blocks that are transposed in registers.
  CompPlan crossed(size_t vec, size_t cross, int64_t lanes, int64_t block) const {
    CompPlan entry{.comp = 0, .how = How::kRoot};
    const int vec_axis = static_cast<int>(vec);
    const int cross_axis = static_cast<int>(cross);
    std::vector<Part>& parts = entry.parts;
    parts.push_back({cross_axis, Role::kGrid, block});
    parts.push_back({vec_axis, Role::kGrid, block});
    for (size_t i = 0; i < walk_.num_axes(); ++i) {
      if (i == vec || i == cross) continue;
      const int axis = static_cast<int>(i);
      if (parts.size() == 2) {
        parts.insert(parts.begin(), {axis, Role::kGrid, 1});
      } else {
        parts.push_back({axis, Role::kSeq, 1});
      }
    }
    parts.push_back({cross_axis, Role::kSeq, lanes});
    parts.push_back({vec_axis, Role::kSeq, lanes});
    parts.push_back({cross_axis, Role::kUnroll, 1});
    parts.push_back({vec_axis, Role::kVec, 1});
    return entry;
  }

  const Target& target_;
  const Walk& walk_;
  std::vector<Candidate>& plans_;
};

}  // namespace

void add_stream_plans(const PlanInput& input, std::vector<Candidate>& plans) {
  StreamPlans(input, plans).run();
}

}  // namespace tenon
