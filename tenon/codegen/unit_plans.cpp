// One plan: operand b, which moves with the columns, is staged in panels of the tile's columns with
// the unit's groups side by side; operand a is read in place, a group at a time, for each row of
// the tile. SPDX-License-Identifier: MIT

#include "tenon/codegen/unit_plans.h"

#include <algorithm>
#include <array>

#include "tenon/codegen/offset_products.h"
#include "tenon/codegen/unit_match.h"
#include "tenon/codegen/walk.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

// Rows for which laying operand b out is worth its time.
constexpr int64_t kMinRows = 8;
// Groups of the depth that a block of operand b has.
constexpr int64_t kBlockGroups = 1024;
// Bytes of a block of operand b, which all bands of rows read again: a second-level cache holds it.
constexpr int64_t kBlockBytes = 512 << 10;

struct Tile {
  int64_t rows = 1;
  int64_t vectors = 1;
};

// The largest that registers hold beside a row of operands, wasting few places.
Tile tile_of(int64_t rows, int64_t columns, int64_t lanes, int registers) {
  Tile best;
  double best_cost = 0;
  for (int64_t vectors = 1; vectors <= 4; ++vectors) {
    for (int64_t count = 1; count <= std::min<int64_t>(rows, 12); ++count) {
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
  UnitPlanner(const Kernel& kernel, const Target& target)
      : kernel_(kernel),
        target_(target),
        sum_(walk_of(kernel, 0)),
        last_(walk_of(kernel, static_cast<int>(kernel.body.size()) - 1)) {}

  Node column() { return find_axes() ? axis(vec_) : Node(); }

  std::optional<Plan> run() {
    if (!find_axes() || !find_operands()) return std::nullopt;
    const int64_t rows = row_ < none() ? sum_.extent(row_) : 1;
    if (rows < kMinRows || sum_.extent(vec_) < 2) return std::nullopt;
    const Comp& comp = *sum_.comp;
    for (const MatrixUnit& unit : target_.units) {
      const int number =
          find_vector_unit(target_.units, factors_, comp.value.dtype(), unit.n, unit.k);
      if (number < 0 || !(target_.units[static_cast<size_t>(number)] == unit)) continue;
      if (unit.n > 4 && unit.n >= 2 * sum_.extent(vec_)) continue;
      Plan plan = plan_for(unit, rows);
      if (!check_plan(kernel_, plan, target_)) return plan;
    }
    return std::nullopt;
  }

 private:
  size_t none() const { return sum_.num_axes(); }

  const Node& axis(size_t i) const { return sum_.comp->axes[i].axis; }

  // The vec axis is what the last comp writes side by side; each par axis of the sum is one of it.
  bool find_axes() {
    consumer_.assign(none(), last_.num_axes());
    for (const Access& access : last_.accesses) {
      if (access.is_store || access.buffer != sum_.comp->dst) continue;
      const std::span<const Node> index = load_parts(access.load).index;
      for (size_t dim = 0; dim < index.size(); ++dim) {
        for (size_t i = 0; i < none(); ++i) {
          if (sum_.comp->index[dim] != axis(i)) continue;
          for (size_t k = 0; k < last_.num_axes(); ++k) {
            if (last_.comp->axes[k].axis == index[dim]) consumer_[i] = k;
          }
        }
      }
    }
    vec_ = none();
    for (size_t i = 0; i < none(); ++i) {
      if (sum_.is_red(i)) continue;
      if (consumer_[i] == last_.num_axes()) return false;
      if (last_.accesses[0].strides[consumer_[i]] == 1 && sum_.extent(i) > 1) vec_ = i;
    }
    return vec_ < none();
  }

  bool find_operands() {
    const auto factors = unit_factors(*sum_.comp, axis(vec_));
    if (!factors) return false;
    factors_ = *factors;
    Node load = factors_.b;
    while (load.op() == Op::kBitcast)
      load = load.src(0);
    const LoadParts parts = load_parts(load);
    if (parts.gated) return false;
    b_ = parts.buffer;
    b_index_.assign(parts.index.begin(), parts.index.end());
    // The depth: a red axis of both operands, which one dim of b runs along; the longest.
    depth_ = none();
    for (size_t i = 0; i < none(); ++i) {
      const bool is_shared = uses_axis(factors_.a, axis(i)) && uses_axis(load, axis(i));
      if (!sum_.is_red(i) || !is_shared || dim_of(i) < 0) continue;
      if (depth_ == none() || sum_.extent(i) > sum_.extent(depth_)) depth_ = i;
    }
    if (depth_ == none() || dim_of(vec_) < 0 || dim_of(vec_) == dim_of(depth_)) return false;
    // Rows share operand b.
    row_ = none();
    for (size_t i = 0; i < none(); ++i) {
      if (i == vec_ || sum_.is_red(i) || uses_axis(load, axis(i))) continue;
      if (row_ == none() || sum_.extent(i) > sum_.extent(row_)) row_ = i;
    }
    return true;
  }

  // The one dim of operand b whose index moves with the axis; -1: none or several.
  int dim_of(size_t axis_number) const {
    int result = -1;
    for (size_t dim = 0; dim < b_index_.size(); ++dim) {
      if (!uses_axis(b_index_[dim], axis(axis_number))) continue;
      if (result >= 0) return -1;
      result = static_cast<int>(dim);
    }
    return result;
  }

  Plan plan_for(const MatrixUnit& unit, int64_t rows) const {
    const int64_t columns = sum_.extent(vec_);
    const int64_t lanes = unit.n;
    const Tile tile = tile_of(rows, columns, lanes, target_.vector_registers);
    const int64_t width = tile.vectors * lanes;
    int64_t red_points = 1;
    for (size_t i = 0; i < none(); ++i) {
      if (sum_.is_red(i)) red_points *= sum_.extent(i);
    }
    int64_t depth = round_up(sum_.extent(depth_), unit.k);
    const int64_t most = kBlockGroups * unit.k;
    if (depth > most + most / 2 && red_points == sum_.extent(depth_) && can_carry_in_output()) {
      depth = round_up(ceil_div(depth, ceil_div(depth, most)), unit.k);
    }
    const bool is_cut = depth < sum_.extent(depth_);
    CompPlan entry{.comp = sum_.number, .how = How::kRoot};
    deal(tile, width, depth * red_points / std::max<int64_t>(sum_.extent(depth_), 1), rows, entry);
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
    add(vec_, Role::kSeq, width);
    const int acc_depth = static_cast<int>(entry.parts.size());
    for (size_t i = 0; i < none(); ++i) {
      if (sum_.is_red(i) && i != depth_) add(i, Role::kSeq, 1);
    }
    // The last groups of the depth are gated where they may be short.
    const bool is_even = sum_.extent(depth_) % unit.k == 0 && (!is_cut || depth % unit.k == 0);
    add(depth_, Role::kSeq, unit.k, is_even ? Tail::kNone : Tail::kPeel);
    if (tile.rows > 1) add(row_, Role::kUnroll, 1, Tail::kClamp);
    if (tile.vectors > 1) add(vec_, Role::kUnroll, lanes);
    add(vec_, Role::kVec, 1);
    entry.parts.push_back({static_cast<int>(depth_), Role::kUnit, 1});
    entry.acc = Acc{.depth = acc_depth};
    if (is_cut) entry.acc->carry_in = last_.comp->dst;
    entry.stages.push_back(
        {.buffer = b_, .depth = stage_depth, .layout = layout_of(entry, stage_depth, width, unit)});

    CompPlan after{.comp = last_.number, .how = How::kAfter, .at = {sum_.number, acc_depth}};
    if (tile.rows > 1) after.parts.push_back({static_cast<int>(consumer_[row_]), Role::kUnroll, 1});
    const int last_vec = static_cast<int>(consumer_[vec_]);
    if (tile.vectors > 1) after.parts.push_back({last_vec, Role::kUnroll, lanes});
    after.parts.push_back({last_vec, Role::kVec, 1});
    Plan plan{{std::move(entry), std::move(after)}};
    if (kernel_.body.size() == 3) plan.comps.push_back(beside(plan.comps[0], lanes));
    return plan;
  }

  // The comp between the two, a sum for each column: once in each group.
  CompPlan beside(const CompPlan& root, int64_t lanes) const {
    const Walk walk = walk_of(kernel_, 1);
    CompPlan entry{.comp = 1, .how = How::kBefore};
    entry.at = {sum_.number, static_cast<int>(std::count_if(
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
    const Node& own = walk.comp->axes[number].axis;
    for (size_t dim = 0; dim < walk.comp->index.size(); ++dim) {
      if (walk.comp->index[dim] != own) continue;
      for (const Part& part : root.parts) {
        const bool is_its = part.role == Role::kGrid && part.step == 1 &&
                            axis_extent(axis(static_cast<size_t>(part.axis))) == axis_extent(own) &&
                            static_cast<size_t>(part.axis) != vec_;
        if (is_its) return true;
      }
    }
    return false;
  }

  // Groups: other par axes first, then column blocks, then bands of rows.
  void deal(const Tile& tile, int64_t width, int64_t depth, int64_t rows, CompPlan& entry) const {
    const int64_t columns = sum_.extent(vec_);
    const int64_t wanted = kGroupsPerThread * target_.threads;
    std::vector<Part> outer;
    int64_t groups = 1;
    for (size_t i = 0; i < none(); ++i) {
      if (sum_.is_red(i) || i == vec_ || i == row_) continue;
      const bool is_dealt = entry.parts.size() + 2 < kMaxGridDims;
      (is_dealt ? entry.parts : outer)
          .push_back({static_cast<int>(i), is_dealt ? Role::kGrid : Role::kSeq, 1});
      if (is_dealt) groups *= sum_.extent(i);
    }
    const int64_t bytes = depth * dtype_size_bytes(factors_.b.dtype());
    const int64_t budget = std::min(target_.max_local_bytes / 2, kBlockBytes);
    const int64_t most = std::max<int64_t>(budget / bytes, width);
    const int64_t pieces = std::max(ceil_div(wanted, groups), ceil_div(columns, most));
    const int64_t block =
        std::clamp(round_up(ceil_div(columns, pieces), width), width, round_up(columns, width));
    groups *= ceil_div(columns, block);
    int64_t band = round_up(rows, tile.rows);
    if (groups < wanted) {
      band = std::max(tile.rows, round_up(ceil_div(rows * groups, wanted), tile.rows));
    }
    if (band < rows) entry.parts.push_back({static_cast<int>(row_), Role::kGrid, band});
    entry.parts.push_back({static_cast<int>(vec_), Role::kGrid, block});
    entry.parts.insert(entry.parts.end(), outer.begin(), outer.end());
  }

  // Panels of the tile's columns; in them the other dims, the depth in groups, the columns, a
  // group.
  std::vector<LayoutPart> layout_of(const CompPlan& entry, int stage_depth, int64_t width,
                                    const MatrixUnit& unit) const {
    const int vec_dim = dim_of(vec_);
    const int depth_dim = dim_of(depth_);
    std::vector<LayoutPart> layout;
    const auto length = [&](int dim) { return box_extent(entry, stage_depth, dim); };
    layout.push_back({vec_dim, ceil_div(length(vec_dim), width), 0});
    for (int dim = 0; dim < static_cast<int>(b_index_.size()); ++dim) {
      if (dim != vec_dim && dim != depth_dim) layout.push_back({dim, length(dim), 0});
    }
    layout.push_back({depth_dim, ceil_div(length(depth_dim), unit.group), 0});
    layout.push_back({vec_dim, width, 0});
    layout.push_back({depth_dim, unit.group, 0});
    return layout;
  }

  // What an index of operand b runs through inside the stage's loops.
  int64_t box_extent(const CompPlan& entry, int stage_depth, int dim) const {
    int64_t length = 1;
    for (size_t i = 0; i < none(); ++i) {
      if (!uses_axis(b_index_[static_cast<size_t>(dim)], axis(i))) continue;
      int64_t inner = sum_.extent(i);
      int64_t step = 1;
      for (size_t part = 0; part < entry.parts.size(); ++part) {
        if (entry.parts[part].axis != static_cast<int>(i)) continue;
        if (static_cast<int>(part) < stage_depth) inner = entry.parts[part].step;
        if (static_cast<int>(part) >= stage_depth) step = std::max(step, entry.parts[part].step);
      }
      length *= round_up(inner, step);
    }
    return length;
  }

  // The output holds accumulators between blocks of the depth.
  bool can_carry_in_output() const {
    int loads = 0;
    for (const Access& access : last_.accesses) {
      if (!access.is_store && access.buffer == sum_.comp->dst) loads += access.is_gated ? 2 : 1;
    }
    const BufferDecl& out = kernel_.buffers[static_cast<size_t>(last_.comp->dst)];
    return out.dtype == sum_.comp->value.dtype() && loads == 1 &&
           last_.points() == num_elements(out.dims);
  }

  const Kernel& kernel_;
  const Target& target_;
  Walk sum_;
  Walk last_;
  std::vector<size_t> consumer_;  // by axis of the sum: axis of the last comp; its count: none
  UnitFactors factors_;
  int b_ = 0;
  std::vector<Node> b_index_;
  size_t vec_ = 0;
  size_t row_ = 0;
  size_t depth_ = 0;
};

}  // namespace

std::optional<Plan> unit_plan(const Kernel& kernel, const Target& target) {
  if (target.units.empty() || kernel.body.size() < 2 || kernel.body.size() > 3) return std::nullopt;
  return UnitPlanner(kernel, target).run();
}

Node unit_column(const Kernel& kernel) {
  return kernel.body.size() < 2 ? Node() : UnitPlanner(kernel, Target()).column();
}

Kernel prepared_for_units(const Kernel& kernel, const Target& target) {
  const auto offset = offset_products(kernel, target);
  return offset && unit_plan(*offset, target) ? *offset : kernel;
}

}  // namespace tenon
