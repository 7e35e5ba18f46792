// SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/codegen/plan_families.h"

namespace tenon {
namespace {

/// Results that are computed at once along the last two par axes: each vector of an operand is used
/// by all of the other's.
struct DotTile {
  int64_t inner;
  int64_t outer;
};
constexpr DotTile kTiles[] = {{4, 4}, {8, 1}, {4, 2}, {4, 1}, {2, 1}, {1, 1}};
constexpr int64_t kMaxUnroll = 8;

class DotPlans {
 public:
  DotPlans(const PlanInput& input, std::vector<Candidate>& plans)
      : target_(input.target),
        walk_(input.walks[0]),
        last_(input.walks[1]),
        none_(walk_.num_axes()),
        consumer_(consumer_axes(walk_, last_)),
        vec_(contiguous_red_axis()),
        lanes_(walk_.lanes),
        plans_(plans) {}

  void run() {
    if (vec_ == none_) return;
    while (lanes_ > 1 && lanes_ > walk_.extent(vec_))
      lanes_ /= 2;
    if (lanes_ < 2) return;
    for (size_t i = none_; i-- > 0;) {
      if (walk_.is_red(i)) continue;
      if (consumer_[i] == last_.num_axes()) return;
      if (walk_.extent(i) > 1 && tiled_.size() < 2) tiled_.push_back(i);
    }
    std::vector<DotTile> known;
    for (const DotTile& tile : kTiles) {
      if (tile.inner + tile.outer + tile.inner * tile.outer >= target_.vector_registers) continue;
      DotTile own{1, 1};
      if (!tiled_.empty()) own.inner = std::min(tile.inner, walk_.extent(tiled_[0]));
      if (tiled_.size() > 1) own.outer = std::min(tile.outer, walk_.extent(tiled_[1]));
      const bool is_known = std::any_of(known.begin(), known.end(), [&](const DotTile& other) {
        return other.inner == own.inner && other.outer == own.outer;
      });
      if (is_known) continue;
      known.push_back(own);
      // As many chains as hide the latency; or vectors enough for the reads to run ahead.
      const int64_t vectors = walk_.extent(vec_) / lanes_;
      const int64_t results = own.inner * own.outer;
      const int64_t unroll =
          std::clamp<int64_t>(std::min(vectors, target_.mulacc_chains / results), 1, kMaxUnroll);
      add(own, unroll);
      if (results < 8 && unroll < 4 && vectors >= 4) add(own, 4);
    }
  }

 private:
  int64_t tile_of(size_t axis, const DotTile& size) const {
    if (!tiled_.empty() && axis == tiled_[0]) return size.inner;
    return tiled_.size() > 1 && axis == tiled_[1] ? size.outer : 1;
  }

  void add(const DotTile& size, int64_t unroll) {
    CompPlan entry{.comp = walk_.number, .how = How::kRoot};
    CompPlan after{.comp = last_.number, .how = How::kAfter};
    std::vector<Part> loops;
    std::vector<Part> instances;
    int64_t groups = 1;
    const int64_t wanted = kGroupsPerThread * target_.threads;
    for (size_t i = 0; i < none_; ++i) {
      if (walk_.is_red(i)) continue;
      const int axis = static_cast<int>(i);
      const int64_t tile = tile_of(i, size);
      const int64_t blocks = ceil_div(walk_.extent(i), tile);
      if (entry.parts.size() < kMaxGridDims && groups < wanted && blocks > 1) {
        const int64_t block = std::max<int64_t>(ceil_div(blocks * groups, wanted), 1) * tile;
        entry.parts.push_back({axis, Role::kGrid, block});
        if (block > tile) loops.push_back({axis, Role::kSeq, tile});
        groups *= ceil_div(walk_.extent(i), block);
      } else {
        loops.push_back({axis, Role::kSeq, tile});
      }
      if (tile == 1) continue;
      instances.push_back({axis, Role::kUnroll, 1, Tail::kClamp});
      after.parts.push_back({static_cast<int>(consumer_[i]), Role::kUnroll, 1});
    }
    entry.parts.insert(entry.parts.end(), loops.begin(), loops.end());
    entry.acc = Acc{.depth = entry.num_loops()};
    after.at = {walk_.number, entry.num_loops()};
    add_red_parts(unroll, entry, std::move(instances));
    plans_.push_back({{{std::move(entry), std::move(after)}}, "dot"});
  }

  // The red axis along which some load is contiguous and none is gathered; the number of axes if
  // there is none.
  size_t contiguous_red_axis() const {
    for (size_t i = 0; i < none_; ++i) {
      if (!walk_.is_red(i) || walk_.extent(i) < 2) continue;
      bool is_contiguous = false;
      bool is_good = true;
      for (const Access& access : walk_.accesses) {
        if (access.is_store || !access.uses(i)) continue;
        is_contiguous = is_contiguous || access.strides[i] == 1;
        is_good = is_good && access.strides[i] == 1 && !access.is_irregular[i];
      }
      if (is_contiguous && is_good) return i;
    }
    return none_;
  }

  // Loops over the other red axes, then the vec axis in steps of unrolled vectors.
  void add_red_parts(int64_t unroll, CompPlan& entry, std::vector<Part> instances) const {
    const int axis = static_cast<int>(vec_);
    for (size_t i = 0; i < none_; ++i) {
      if (walk_.is_red(i) && i != vec_) entry.parts.push_back({static_cast<int>(i), Role::kSeq, 1});
    }
    entry.parts.push_back({axis, Role::kSeq, unroll * lanes_, Tail::kPeel});
    entry.parts.insert(entry.parts.end(), instances.begin(), instances.end());
    if (unroll > 1) entry.parts.push_back({axis, Role::kUnroll, lanes_});
    entry.parts.push_back({axis, Role::kVec, 1});
  }

  const Target& target_;
  const Walk& walk_;
  const Walk& last_;
  const size_t none_;
  const std::vector<size_t> consumer_;
  const size_t vec_;
  int64_t lanes_;
  std::vector<size_t> tiled_;  // the last par axes, innermost first
  std::vector<Candidate>& plans_;
};

}  // namespace

void add_dot_plans(const PlanInput& input, std::vector<Candidate>& plans) {
  DotPlans(input, plans).run();
}

}  // namespace tenon
