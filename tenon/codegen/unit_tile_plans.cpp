// Blocks of rows and columns are dealt; for blocks of the depth both operands are staged in tiles.
// The sums of a block of tiles stay in registers along the depth, and in group memory between
// blocks of it. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/codegen/unit_plans.h"

namespace tenon {
namespace {

// Rows, or columns, of a block at most.
constexpr int64_t kBlockSizes[] = {64, 128, 256, 512, 1024};

/// Tiles that are computed at once.
struct TileBlock {
  int64_t rows = 1;
  int64_t columns = 1;
};

class TilePlanner {
 public:
  TilePlanner(const ProductSum& sum, const MatrixUnit& unit, const Target& target)
      : sum_(sum), walk_(sum.sum), unit_(unit), target_(target), tiles_(tiles_at_once()) {}

  void add(std::vector<Candidate>& plans) const {
    const int64_t limit = target_.caches.size() > 1
                              ? std::min(target_.max_local_bytes, target_.caches[1].bytes * 3 / 4)
                              : target_.max_local_bytes;
    for (const int64_t depth : depths()) {
      bool is_first = true;
      for (const int64_t rows : blocks(sum_.rows(), rows_at_once())) {
        for (const int64_t columns : blocks(sum_.columns(), columns_at_once())) {
          Plan plan = plan_for(rows, columns, depth);
          // Larger blocks are copied less often, but must stay near; the smallest are tried anyway.
          if (!is_first && bytes_of(plan.comps[0], rows, columns, depth) > limit) continue;
          is_first = false;
          plans.push_back({std::move(plan), "unit"});
        }
      }
    }
  }

 private:
  int64_t rows_at_once() const { return tiles_.rows * unit_.m; }
  int64_t columns_at_once() const { return tiles_.columns * unit_.n; }
  bool is_cut(int64_t depth) const { return depth < walk_.extent(sum_.depth); }

  // As many tiles of sums as there are registers beside their operands, wasting few places.
  TileBlock tiles_at_once() const {
    TileBlock best;
    double best_cost = 0;
    for (int64_t rows = 1; rows < target_.tiles.registers; ++rows) {
      for (int64_t columns = 1; columns < target_.tiles.registers; ++columns) {
        if (rows * columns + rows + columns > target_.tiles.registers) continue;
        const auto tiles = static_cast<double>(rows * columns);
        const double places = static_cast<double>(round_up(sum_.rows(), rows * unit_.m)) *
                              static_cast<double>(round_up(sum_.columns(), columns * unit_.n));
        const double chains = std::max(1.0, target_.tiles.chains / tiles);
        const double cost =
            places * chains * (1.0 + 0.25 * static_cast<double>(rows + columns) / tiles);
        if (best_cost != 0 && cost >= best_cost) continue;
        best_cost = cost;
        best = {rows, columns};
      }
    }
    return best;
  }

  // Sizes that cut the extent evenly, in multiples of what is computed at once.
  static std::vector<int64_t> blocks(int64_t extent, int64_t step) {
    std::vector<int64_t> sizes;
    for (const int64_t most : kBlockSizes) {
      const int64_t size = round_up(ceil_div(extent, ceil_div(extent, most)), step);
      if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
    }
    return sizes;
  }

  // All of the depth, and blocks of it whose tiles of both operands stay in the first-level cache.
  std::vector<int64_t> depths() const {
    const int64_t whole = round_up(walk_.extent(sum_.depth), unit_.k);
    if (target_.caches.empty()) return {whole};
    const int64_t row_bytes = (rows_at_once() + columns_at_once()) * dtype_size_bytes(unit_.a);
    const int64_t most = target_.caches[0].bytes * 2 / 3 / row_bytes / unit_.k * unit_.k;
    if (most < unit_.k || 2 * whole <= 3 * most) return {whole};
    return {whole, round_up(ceil_div(whole, ceil_div(whole, most)), unit_.k)};
  }

  Plan plan_for(int64_t rows, int64_t columns, int64_t depth) const {
    CompPlan entry{.comp = walk_.number, .how = How::kRoot};
    const auto add = [&](size_t number, Role role, int64_t step) {
      const int axis = static_cast<int>(number);
      const bool is_known = std::ranges::any_of(entry.parts, [&](const Part& part) {
        return part.axis == axis && part.step == step && is_loop(part.role);
      });
      if (!is_known || !is_loop(role)) entry.parts.push_back({axis, role, step});
    };
    // Groups: other par axes first, then bands of rows, then blocks of columns.
    int64_t groups = 1;
    const std::vector<Part> outer = sum_.deal_others(entry, groups);
    add(sum_.row, Role::kGrid, rows);
    add(sum_.column, Role::kGrid, columns);
    entry.parts.insert(entry.parts.end(), outer.begin(), outer.end());
    const int block_depth = static_cast<int>(entry.parts.size());
    if (is_cut(depth)) add(sum_.depth, Role::kSeq, depth);
    const int stage_depth = static_cast<int>(entry.parts.size());
    add(sum_.row, Role::kSeq, rows_at_once());
    add(sum_.column, Role::kSeq, columns_at_once());
    const int acc_depth = static_cast<int>(entry.parts.size());
    for (size_t i = 0; i < sum_.none(); ++i) {
      if (walk_.is_red(i) && i != sum_.depth) add(i, Role::kSeq, 1);
    }
    add(sum_.depth, Role::kSeq, unit_.k);
    if (tiles_.rows > 1) add(sum_.row, Role::kUnroll, unit_.m);
    if (tiles_.columns > 1) add(sum_.column, Role::kUnroll, unit_.n);
    add(sum_.row, Role::kUnit, 1);
    add(sum_.column, Role::kUnit, 1);
    add(sum_.depth, Role::kUnit, unit_.group);
    add(sum_.depth, Role::kUnit, 1);
    entry.acc = Acc{.depth = acc_depth};
    const int depth_of_a = sum_.stage_depth(*sum_.a, entry, stage_depth);
    const int depth_of_b = sum_.stage_depth(sum_.b, entry, stage_depth);
    // Each tile in one piece: [rows][depth], and [groups of the depth][columns][group].
    entry.stages = {
        {.buffer = sum_.a->buffer,
         .depth = depth_of_a,
         .layout = sum_.panels(*sum_.a, sum_.row, unit_.m, unit_.k, entry, depth_of_a)},
        {.buffer = sum_.b.buffer,
         .depth = depth_of_b,
         .layout = sum_.panels(sum_.b, sum_.column, unit_.n, unit_.group, entry, depth_of_b)}};
    Plan plan{{std::move(entry)}};
    plan.comps.push_back(consumer(is_cut(depth) ? block_depth : acc_depth, is_cut(depth)));
    return plan;
  }

  // What reads the sums, row by row: of a block, or of the tiles that are computed at once.
  CompPlan consumer(int depth, bool is_block) const {
    CompPlan after{.comp = sum_.last.number, .how = How::kAfter, .at = {walk_.number, depth}};
    const auto add = [&](size_t axis, Role role, int64_t step) {
      after.parts.push_back({static_cast<int>(sum_.consumer[axis]), role, step});
    };
    const int64_t lanes = std::min<int64_t>(lanes_of(sum_.last, sum_.kernel, target_), unit_.n);
    add(sum_.row, Role::kSeq, 1);
    if (is_block) add(sum_.column, Role::kSeq, columns_at_once());
    // A vector lies in one tile.
    if (tiles_.columns > 1) add(sum_.column, Role::kUnroll, unit_.n);
    if (lanes < unit_.n) add(sum_.column, Role::kUnroll, lanes);
    add(sum_.column, Role::kVec, 1);
    return after;
  }

  // Group memory: the stages, and the sums.
  int64_t bytes_of(const CompPlan& entry, int64_t rows, int64_t columns, int64_t depth) const {
    int64_t bytes = (is_cut(depth) ? rows * columns : rows_at_once() * columns_at_once()) *
                    dtype_size_bytes(unit_.acc);
    for (const Stage& stage : entry.stages) {
      int64_t elements = dtype_size_bytes(unit_.a);
      for (const LayoutPart& part : stage.layout)
        elements *= part.extent;
      bytes += elements;
    }
    return bytes;
  }

  const ProductSum& sum_;
  const Walk& walk_;
  const MatrixUnit& unit_;
  const Target& target_;
  TileBlock tiles_;
};

}  // namespace

void add_unit_tile_plans(const ProductSum& sum, const MatrixUnit& unit, const Target& target,
                         std::vector<Candidate>& plans) {
  const bool has_types = unit.a == sum.factors.a.dtype() && unit.b == sum.factors.b.dtype() &&
                         unit.acc == sum.sum.comp->value.dtype();
  const bool has_tiles = target.tiles.registers >= 3 && 1 < unit.group && unit.group < unit.k;
  if (!has_types || !has_tiles || !sum.a || sum.kernel.body.size() != 2 || sum.row == sum.none())
    return;
  const int row = sum.dim_of(*sum.a, sum.row);
  const int depth = sum.dim_of(*sum.a, sum.depth);
  if (row < 0 || depth < 0 || row == depth || sum.a->buffer == sum.b.buffer) return;
  TilePlanner(sum, unit, target).add(plans);
}

}  // namespace tenon
