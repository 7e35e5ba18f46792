// One plan for each unit on vectors: operand b, which moves with the columns, is staged in panels
// of the tile's columns with the unit's groups side by side; operand a is read in place, a group at
// a time, for each row of the tile. SPDX-License-Identifier: MIT

#include "tenon/codegen/unit_plans.h"

#include <algorithm>

#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

// Rows for which laying operand b out is worth its time.
constexpr int64_t kMinRows = 8;
// Rows of a tile at most.
constexpr int64_t kMaxTileRows = 12;

struct Tile {
  int64_t rows = 1;
  int64_t vectors = 1;
};

// The largest that registers hold beside a row of operands, wasting few places.
Tile tile_of(int64_t rows, int64_t columns, int64_t lanes, int registers) {
  Tile best;
  double best_cost = 0;
  for (int64_t vectors = 1; vectors <= 4; ++vectors) {
    for (int64_t count = 1; count <= std::min<int64_t>(rows, kMaxTileRows); ++count) {
      if (count * vectors + vectors + 1 > registers - 1) continue;
      const auto places = static_cast<double>(round_up(columns, vectors * lanes)) *
                          static_cast<double>(round_up(rows, count));
      const auto tile = static_cast<double>(count * vectors);
      const double loads = static_cast<double>(count + vectors) / tile;
      // Units need more sums under way than multiply-adds do.
      const double chains = std::max(1.0, 12.0 / tile);
      const double cost = places * chains * (1.0 + 0.5 * loads);
      if (best_cost != 0 && cost >= best_cost) continue;
      best_cost = cost;
      best = {count, vectors};
    }
  }
  return best;
}

class UnitPlanner {
 public:
  UnitPlanner(const ProductSum& sum, const Target& target)
      : sum_(sum),
        walk_(sum.sum),
        target_(target),
        column_(sum.column),
        row_(sum.row),
        depth_(sum.depth) {}

  void add(const MatrixUnit& unit, std::vector<Candidate>& plans) const {
    const int number = find_vector_unit(target_.units, sum_.factors, acc(), unit.n, unit.k);
    if (number < 0 || !(target_.units[static_cast<size_t>(number)] == unit)) return;
    if (unit.n > 4 && unit.n >= 2 * sum_.columns()) return;
    plans.push_back({plan_for(unit), "unit"});
  }

 private:
  DType acc() const { return walk_.comp->value.dtype(); }
  size_t none() const { return sum_.none(); }

  Plan plan_for(const MatrixUnit& unit) const {
    const int64_t rows = sum_.rows();
    const int64_t lanes = unit.n;
    const Tile tile = tile_of(rows, sum_.columns(), lanes, target_.vector_registers);
    const int64_t width = tile.vectors * lanes;
    int64_t red_points = 1;
    for (size_t i = 0; i < none(); ++i) {
      if (walk_.is_red(i)) red_points *= walk_.extent(i);
    }
    int64_t depth = round_up(walk_.extent(depth_), unit.k);
    const int64_t most = most_depth(unit);
    if (depth > most + most / 2 && red_points == walk_.extent(depth_) &&
        can_carry_in_output(sum_.kernel, walk_, sum_.last)) {
      depth = round_up(ceil_div(depth, ceil_div(depth, most)), unit.k);
    }
    const bool is_cut = depth < walk_.extent(depth_);
    CompPlan entry{.comp = walk_.number, .how = How::kRoot};
    deal(tile, width, depth * red_points / std::max<int64_t>(walk_.extent(depth_), 1), rows, entry);
    const auto add = [&](size_t number, Role role, int64_t step, Tail tail = Tail::kNone) {
      const int axis = static_cast<int>(number);
      const bool is_known =
          std::any_of(entry.parts.begin(), entry.parts.end(),
                      [&](const Part& part) { return part.axis == axis && part.step == step; });
      if (!is_known) entry.parts.push_back({axis, role, step, tail});
    };
    if (is_cut) add(depth_, Role::kSeq, depth);
    const int stage_depth = static_cast<int>(entry.parts.size());
    add(row_, Role::kSeq, tile.rows);
    add(column_, Role::kSeq, width);
    const int acc_depth = static_cast<int>(entry.parts.size());
    for (size_t i = 0; i < none(); ++i) {
      if (walk_.is_red(i) && i != depth_) add(i, Role::kSeq, 1);
    }
    // The last groups of the depth are gated where they may be short.
    const bool is_even = walk_.extent(depth_) % unit.k == 0 && (!is_cut || depth % unit.k == 0);
    add(depth_, Role::kSeq, unit.k, is_even ? Tail::kNone : Tail::kPeel);
    if (tile.rows > 1) add(row_, Role::kUnroll, 1, Tail::kClamp);
    if (tile.vectors > 1) add(column_, Role::kUnroll, lanes);
    add(column_, Role::kVec, 1);
    entry.parts.push_back({static_cast<int>(depth_), Role::kUnit, 1});
    entry.acc = Acc{.depth = acc_depth};
    if (is_cut) entry.acc->carry_in = sum_.last.comp->dst;
    const int depth_of_b = sum_.stage_depth(sum_.b, entry, stage_depth);
    entry.stages.push_back(
        {.buffer = sum_.b.buffer,
         .depth = depth_of_b,
         .layout = sum_.panels(sum_.b, column_, width, unit.group, entry, depth_of_b)});

    CompPlan after{.comp = sum_.last.number, .how = How::kAfter, .at = {walk_.number, acc_depth}};
    if (tile.rows > 1)
      after.parts.push_back({static_cast<int>(sum_.consumer[row_]), Role::kUnroll, 1});
    const int last_vec = static_cast<int>(sum_.consumer[column_]);
    if (tile.vectors > 1) after.parts.push_back({last_vec, Role::kUnroll, lanes});
    after.parts.push_back({last_vec, Role::kVec, 1});
    Plan plan{{std::move(entry), std::move(after)}};
    if (sum_.kernel.body.size() == 3) plan.comps.push_back(beside(plan.comps[0], lanes));
    return plan;
  }

  // The comp between the two, a sum for each column: once in each group.
  CompPlan beside(const CompPlan& root, int64_t lanes) const {
    const Walk walk = walk_of(sum_.kernel, 1);
    CompPlan entry{.comp = 1, .how = How::kBefore};
    entry.at = {walk_.number, static_cast<int>(std::count_if(
                                  root.parts.begin(), root.parts.end(),
                                  [](const Part& part) { return part.role == Role::kGrid; }))};
    int vec = -1;
    int deep = -1;  // a red axis along which the operand is contiguous
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      const int64_t stride = walk.accesses.back().strides[i];
      if (stride == 1 && walk.is_red(i) && walk.extent(i) >= 2 * lanes) deep = static_cast<int>(i);
      if (stride == 1 && !walk.is_red(i)) vec = static_cast<int>(i);
    }
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      const int axis = static_cast<int>(i);
      if (walk.is_red(i) || is_fixed(walk, i, root)) continue;
      entry.parts.push_back({axis, Role::kSeq, axis == vec ? lanes : 1});
    }
    entry.acc = Acc{.depth = entry.num_loops()};
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      const int axis = static_cast<int>(i);
      if (!walk.is_red(i)) continue;
      if (axis == deep) {
        entry.parts.push_back({axis, Role::kSeq, lanes, Tail::kPeel});
      } else {
        entry.parts.push_back({axis, Role::kSeq, 1});
      }
    }
    if (deep >= 0) entry.parts.push_back({deep, Role::kVec, 1});
    if (vec >= 0) entry.parts.push_back({vec, Role::kVec, 1});
    return entry;
  }

  // A par axis of the comp between that a grid part with step 1 of the root fixes.
  bool is_fixed(const Walk& walk, size_t number, const CompPlan& root) const {
    const size_t read_by = consumer_axes(walk, sum_.last)[number];
    return read_by < sum_.last.num_axes() && std::ranges::any_of(root.parts, [&](const Part& part) {
             return part.role == Role::kGrid && part.step == 1 &&
                    sum_.consumer[static_cast<size_t>(part.axis)] == read_by;
           });
  }

  // Groups: other par axes first, then column blocks, then bands of rows.
  void deal(const Tile& tile, int64_t width, int64_t depth, int64_t rows, CompPlan& entry) const {
    const int64_t columns = walk_.extent(column_);
    const int64_t wanted = kGroupsPerThread * target_.threads;
    int64_t groups = 1;
    const std::vector<Part> outer = sum_.deal_others(entry, groups);
    const int64_t bytes = depth * dtype_size_bytes(sum_.factors.b.dtype());
    // All bands of rows read a block again: half of the second-level cache holds it.
    const int64_t cache = target_.caches.size() > 1 ? target_.caches[1].bytes : INT64_MAX;
    const int64_t budget = std::min(target_.max_local_bytes, cache) / 2;
    const int64_t most = std::max<int64_t>(budget / bytes, width);
    const int64_t pieces = std::max(ceil_div(wanted, groups), ceil_div(columns, most));
    const int64_t block = even_block(columns, width, pieces, groups, target_);
    groups *= ceil_div(columns, block);
    int64_t band = round_up(rows, tile.rows);
    if (groups < wanted) {
      band = even_block(rows, tile.rows, ceil_div(wanted, groups), groups, target_);
    }
    if (band < rows) entry.parts.push_back({static_cast<int>(row_), Role::kGrid, band});
    entry.parts.push_back({static_cast<int>(column_), Role::kGrid, block});
    entry.parts.insert(entry.parts.end(), outer.begin(), outer.end());
  }

  // Of the depth, so that the rows of a tile stay in the first-level cache.
  int64_t most_depth(const MatrixUnit& unit) const {
    if (target_.caches.empty()) return INT64_MAX / 2;
    const int64_t row_bytes = target_.caches[0].bytes / kMaxTileRows;
    return std::max<int64_t>(row_bytes / dtype_size_bytes(unit.a) / unit.k, 1) * unit.k;
  }

  const ProductSum& sum_;
  const Walk& walk_;
  const Target& target_;
  size_t column_;
  size_t row_;
  size_t depth_;
};

}  // namespace

void add_unit_plans(const Kernel& kernel, const Target& target, std::vector<Candidate>& plans) {
  if (target.units.empty() || kernel.body.size() < 2 || kernel.body.size() > 3) return;
  ProductSum sum(kernel);
  if (!sum.find_columns() || !sum.find_operands()) return;
  if (sum.rows() < kMinRows || sum.columns() < 2) return;
  for (const MatrixUnit& unit : target.units) {
    if (unit.place == UnitPlace::kVectors) UnitPlanner(sum, target).add(unit, plans);
  }
  for (const MatrixUnit& unit : target.units) {
    if (unit.place == UnitPlace::kTiles) add_unit_tile_plans(sum, unit, target, plans);
  }
}

std::optional<Plan> unit_plan(const Kernel& kernel, const Target& target) {
  std::vector<Candidate> plans;
  add_unit_plans(kernel, target, plans);
  for (Candidate& candidate : plans) {
    if (!check_plan(kernel, candidate.plan, target)) return std::move(candidate.plan);
  }
  return std::nullopt;
}

}  // namespace tenon
