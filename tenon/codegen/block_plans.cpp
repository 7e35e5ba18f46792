// Blocks of rows: contractions in register tiles over the rows of a block, other comps row by row,
// all tmps in group memory. SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/placement.h"
#include "tenon/codegen/plan_families.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

// Rows of a block, in the least that Target::block_rows says: each load of what they share serves
// all, and a block of tmps should stay in cache.
constexpr int64_t kBlocks[] = {1, 2};
// Rows of a group at least: what a group stages serves them all.
constexpr int64_t kMinGroupRows = 128;
constexpr int64_t kMaxVectors = 4;     // of a row at once
constexpr int64_t kPitchBytes = 4096;  // rows at such distances meet in the same cache sets

/// Register tile of a contraction: rows of the block by vectors of one more axis.
struct Tile {
  size_t row = 0;
  size_t vec = 0;
  int64_t rows = 1;
  int64_t vectors = 1;
  int64_t lanes = 1;
  std::vector<size_t> staged;  // accesses whose operand is copied to panels

  int64_t columns() const { return vectors * lanes; }
};

class BlockPlans {
 public:
  BlockPlans(const PlanInput& input, int64_t block)
      : kernel_(input.kernel),
        target_(input.target),
        indices_(row_indices(kernel_)),
        walks_(input.walks),
        is_row_(row_axes(kernel_)),
        last_(walks_.size() - 1),
        block_(block) {}

  std::optional<Plan> run() {
    if (walks_.size() < 3 || !find_block_axis()) return std::nullopt;
    for (size_t number = 0; number < walks_.size(); ++number) {
      row_of_.push_back(axis_of(number, block_axis_));
      if (row_of_[number] == walks_[number].num_axes()) return std::nullopt;
    }
    block_ = std::min(block_, walks_[last_].extent(block_axis_));
    for (const Walk& walk : walks_)
      tiles_.push_back(tile_of(walk));
    if (std::ranges::none_of(tiles_, [](const auto& tile) { return tile.has_value(); })) {
      return std::nullopt;
    }
    root_ = tiles_[last_ - 1] && is_read_by_last_only() ? last_ - 1 : last_;
    if (!add_root()) return std::nullopt;
    home_.assign(walks_.size(), root_);
    for (size_t number = walks_.size(); number-- > 0;) {
      if (number == root_ || number == last_) continue;
      if (!add_producer(number)) return std::nullopt;
    }
    return std::move(plan_);
  }

 private:
  // --- rows
  // ----------------------------------------------------------------------------------------

  // The axis of the comp that runs over this axis of the last one; its number of axes: none.
  size_t axis_of(size_t number, size_t last_axis) const {
    const std::vector<Node>& own = indices_[number];
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if (own[axis] && own[axis] == walks_[last_].comp->axes[last_axis].axis) return axis;
    }
    return own.size();
  }

  // The comp reduces, and reads the same for all rows of the axis beside what is of one row.
  static bool shares(const Walk& walk, size_t row) {
    if (!walk.comp->combine || row == walk.num_axes()) return false;
    bool has_shared = false;
    bool has_own = false;
    for (const Access& access : walk.accesses) {
      if (access.is_store) continue;
      (access.uses(row) ? has_own : has_shared) = true;
    }
    return has_shared && has_own;
  }

  // The longest row axis across which a tmp's contraction shares an operand.
  bool find_block_axis() {
    const Walk& last = walks_[last_];
    block_axis_ = last.num_axes();
    for (size_t axis = 0; axis < last.num_axes(); ++axis) {
      if (!is_row_[axis]) continue;
      bool has_contraction = false;
      for (size_t number = 0; number < last_; ++number) {
        const bool is_root = number + 1 == last_;
        has_contraction |= !is_root && shares(walks_[number], axis_of(number, axis));
      }
      const bool is_longer =
          block_axis_ == last.num_axes() || last.extent(axis) > last.extent(block_axis_);
      if (has_contraction && is_longer) block_axis_ = axis;
    }
    return block_axis_ != last.num_axes();
  }

  bool is_read_by_last_only() const {
    const int buffer = walks_[last_ - 1].comp->dst;
    return is_read(walks_[last_], buffer) &&
           std::none_of(walks_.begin(), walks_.end() - 1,
                        [&](const Walk& walk) { return is_read(walk, buffer); });
  }

  // --- the root
  // ------------------------------------------------------------------------------------

  bool add_root() {
    const Walk& walk = walks_[root_];
    CompPlan root{.comp = walk.number, .how = How::kRoot};
    const int row = static_cast<int>(row_of_[root_]);
    const int64_t num_rows = walk.extent(row_of_[root_]);
    int64_t groups = 1;
    const int64_t wanted = kGroupsPerThread * target_.threads;
    std::vector<Part> loops;
    for (size_t axis = 0; axis < walks_[last_].num_axes(); ++axis) {
      if (!is_row_[axis] || axis == block_axis_) continue;
      const size_t own = axis_of(root_, axis);
      if (own == walk.num_axes()) return false;
      const int64_t extent = walk.extent(own);
      if (root.parts.size() + 1 < kMaxGridDims && groups < wanted && extent > 1) {
        const int64_t step = std::max<int64_t>(extent * groups / wanted, 1);
        root.parts.push_back({static_cast<int>(own), Role::kGrid, step});
        if (step > 1) loops.push_back({static_cast<int>(own), Role::kSeq, 1});
        groups *= ceil_div(extent, step);
      } else {
        loops.push_back({static_cast<int>(own), Role::kSeq, 1});
      }
    }
    const int64_t most = ceil_div(num_rows * groups, wanted);
    const int64_t chunk = round_up(std::max(most, kMinGroupRows), block_);
    if (groups < wanted && chunk < num_rows) root.parts.push_back({row, Role::kGrid, chunk});
    root.parts.insert(root.parts.end(), loops.begin(), loops.end());
    stage_depth_ = root.num_loops();
    root.parts.push_back({row, Role::kSeq, block_});
    block_depth_ = root.num_loops();
    if (root_ == last_) {
      if (block_ > 1) root.parts.push_back({row, Role::kSeq, 1});
      row_depth_ = root.num_loops();
      walk_rows(walk, open_axes(walk, {}), root);
      plan_.comps.push_back(std::move(root));
      return true;
    }
    const std::vector<size_t> open = open_axes(walk, {});
    const Tile& tile = *tiles_[root_];
    add_tile(walk, tile, open, root);
    CompPlan after{.comp = static_cast<int>(last_), .how = How::kAfter};
    after.at = {walk.number, root.acc->depth};
    if (!add_epilogue(tile, after)) return false;
    plan_.comps.push_back(std::move(root));
    plan_.comps.push_back(std::move(after));
    return true;
  }

  // Axes of the comp that a block leaves open, beside the rows themselves.
  std::vector<size_t> open_axes(const Walk& walk, const std::vector<AxisRange>& ranges) const {
    std::vector<size_t> open;
    const auto number = static_cast<size_t>(walk.number);
    for (size_t axis = 0; axis < walk.num_axes(); ++axis) {
      if (axis == row_of_[number] || walk.extent(axis) == 1) continue;
      bool is_open = ranges.empty() || !ranges[axis].is_bound || ranges[axis].length > 1;
      if (ranges.empty()) {
        for (size_t row = 0; row < is_row_.size(); ++row)
          is_open = is_open && !(is_row_[row] && axis_of(number, row) == axis);
      }
      if (is_open) open.push_back(axis);
    }
    return open;
  }

  bool add_epilogue(const Tile& tile, CompPlan& after) const {
    const Walk& last = walks_[last_];
    size_t columns = last.num_axes();
    for (size_t axis = 0; axis < last.num_axes(); ++axis) {
      if (indices_[root_][tile.vec] == last.comp->axes[axis].axis) columns = axis;
    }
    if (columns == last.num_axes()) return false;
    if (tile.rows > 1) after.parts.push_back({static_cast<int>(block_axis_), Role::kUnroll, 1});
    if (tile.vectors > 1) {
      after.parts.push_back({static_cast<int>(columns), Role::kUnroll, tile.lanes});
    }
    after.parts.push_back({static_cast<int>(columns), Role::kVec, 1});
    return true;
  }

  // --- contractions
  // --------------------------------------------------------------------------------

  // Nothing if the comp is no contraction over what rows share, or has no axis for vectors.
  std::optional<Tile> tile_of(const Walk& walk) const {
    const size_t row = row_of_[static_cast<size_t>(walk.number)];
    if (!shares(walk, row)) return std::nullopt;
    Tile tile{.row = row, .vec = walk.num_axes(), .staged = {}};
    for (const size_t axis : open_axes(walk, {})) {
      if (walk.accesses[0].strides[axis] == 1 && !walk.is_red(axis)) tile.vec = axis;
    }
    if (tile.vec == walk.num_axes()) return std::nullopt;
    tile.lanes = std::min(walk.lanes, walks_[last_].lanes);
    while (tile.lanes > 1 && tile.lanes > walk.extent(tile.vec))
      tile.lanes /= 2;
    if (tile.lanes < 2) return std::nullopt;
    for (size_t i = 1; i < walk.accesses.size(); ++i) {
      const Access& access = walk.accesses[i];
      if (!access.uses(tile.vec)) continue;
      if (access.is_irregular[tile.vec]) return std::nullopt;
      const bool is_input =
          kernel_.buffers[static_cast<size_t>(access.buffer)].access == BufferAccess::kIn;
      if (is_dense(walk, access, tile.vec)) continue;
      if (is_input && !access.is_gated && !access.uses(row)) {
        tile.staged.push_back(i);
      } else if (access.strides[tile.vec] != 1) {
        return std::nullopt;
      }
    }
    choose_size(walk.extent(tile.vec), tile);
    return tile;
  }

  // As many accumulators as registers hold beside a row of operands and what is broadcast. A step
  // of the reduction takes the operations or the loads, whichever are more, and waits for some
  // loads.
  void choose_size(int64_t columns, Tile& tile) const {
    constexpr int64_t kMinAccumulators = 8;  // to hide the latency of each
    double best = 0;
    for (int64_t vectors = 1; vectors * tile.lanes <= columns; ++vectors) {
      for (int64_t rows = 1; rows <= block_; ++rows) {
        const bool fits = rows * vectors + vectors + 1 < target_.vector_registers;
        if (!fits || block_ % rows != 0) continue;
        const int64_t steps = std::max({rows * vectors, rows + vectors, kMinAccumulators});
        const int64_t tiles = ceil_div(columns, vectors * tile.lanes);
        const int64_t quarters = 4 * steps + rows + vectors;
        const double cost = static_cast<double>(tiles * quarters) / static_cast<double>(rows);
        if (best != 0 && cost > best) continue;
        best = cost;
        tile.rows = rows;
        tile.vectors = vectors;
      }
    }
  }

  // Contiguous along the axis, with lines that follow one another and do not meet in the cache.
  static bool is_dense(const Walk& walk, const Access& access, size_t vec) {
    if (access.strides[vec] != 1) return false;
    for (size_t axis = 0; axis < walk.num_axes(); ++axis) {
      if (axis == vec || !access.uses(axis) || !walk.is_red(axis)) continue;
      const int64_t bytes = std::abs(access.strides[axis]) * dtype_size_bytes(access.dtype);
      if (access.strides[axis] != walk.extent(vec) || bytes % kPitchBytes == 0) return false;
    }
    return true;
  }

  void add_tile(const Walk& walk, const Tile& tile, const std::vector<size_t>& open,
                CompPlan& entry) const {
    const int row = static_cast<int>(tile.row);
    const int vec = static_cast<int>(tile.vec);
    for (const size_t axis : open) {
      if (!walk.is_red(axis) && axis != tile.vec) {
        entry.parts.push_back({static_cast<int>(axis), Role::kSeq, 1});
      }
    }
    const bool divides = walk.extent(tile.vec) % tile.columns() == 0;
    entry.parts.push_back({vec, Role::kSeq, tile.columns(), divides ? Tail::kNone : Tail::kPeel});
    if (tile.rows < block_) entry.parts.push_back({row, Role::kSeq, tile.rows});
    entry.acc = Acc{.depth = entry.num_loops()};
    for (const size_t axis : open) {
      if (walk.is_red(axis)) entry.parts.push_back({static_cast<int>(axis), Role::kSeq, 1});
    }
    const bool is_exact = walk.extent(tile.row) % block_ == 0;
    if (tile.rows > 1) {
      entry.parts.push_back({row, Role::kUnroll, 1, is_exact ? Tail::kNone : Tail::kClamp});
    }
    if (tile.vectors > 1) entry.parts.push_back({vec, Role::kUnroll, tile.lanes});
    entry.parts.push_back({vec, Role::kVec, 1});
    for (const size_t i : tile.staged)
      entry.stages.push_back(panels(walk, walk.accesses[i], tile));
  }

  // The operand of one run of the loops around the blocks, its vec dim cut by the tile's columns.
  Stage panels(const Walk& walk, const Access& access, const Tile& tile) const {
    Stage stage{.buffer = access.buffer, .depth = stage_depth_, .layout = {}};
    if (static_cast<size_t>(walk.number) != root_) stage.around = static_cast<int>(root_);
    const std::span<const Node> index = load_parts(access.load).index;
    std::vector<int64_t> lengths(index.size(), 1);
    int vec_dim = 0;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      for (const Node& node : topological_order(std::span(&index[dim], 1))) {
        for (size_t axis = 0; axis < walk.num_axes(); ++axis) {
          if (!(walk.comp->axes[axis].axis == node)) continue;
          const bool is_vec = axis == tile.vec;
          if (is_vec) vec_dim = static_cast<int>(dim);
          const bool is_open = is_vec || walk.is_red(axis);
          if (is_open) lengths[dim] *= walk.extent(axis);
        }
      }
    }
    const auto vec_length = lengths[static_cast<size_t>(vec_dim)];
    stage.layout.push_back({vec_dim, ceil_div(vec_length, tile.columns()), 0});
    for (size_t dim = 0; dim < index.size(); ++dim) {
      if (static_cast<int>(dim) != vec_dim) {
        stage.layout.push_back({static_cast<int>(dim), lengths[dim], 0});
      }
    }
    stage.layout.push_back({vec_dim, tile.columns(), 0});
    return stage;
  }

  // --- producers
  // -----------------------------------------------------------------------------------

  // What is not shared across rows stands in the row loop of its reader, if it has one; else it
  // has a loop over the block's rows of its own, in which what it reads may stand.
  bool add_producer(size_t number) {
    const Walk& walk = walks_[number];
    home_[number] = number;
    if (!tiles_[number]) {
      std::optional<size_t> home;
      bool is_one = true;
      for (size_t reader = number + 1; reader < walks_.size(); ++reader) {
        if (!is_read(walks_[reader], walk.comp->dst)) continue;
        const bool has_rows = reader != root_ ? reader != last_ && !tiles_[reader] : root_ == last_;
        is_one = is_one && has_rows && (!home || *home == home_[reader]);
        home = home_[reader];
      }
      if (!home) return false;
      if (is_one) home_[number] = *home;
    }
    CompPlan entry{.comp = walk.number, .how = How::kBefore};
    const bool is_inside = home_[number] != number;
    entry.at = {static_cast<int>(root_), block_depth_};
    if (is_inside) {
      const int around = static_cast<int>(home_[number]);
      entry.at = {around, home_[number] == root_ ? row_depth_ : 1};
    }
    const auto ranges = ranges_at(kernel_, plan_, walk.number, How::kBefore, entry.at);
    if (!ranges) return false;
    const std::vector<size_t> open = open_axes(walk, *ranges);
    if (tiles_[number]) {
      add_tile(walk, *tiles_[number], open, entry);
    } else {
      if (!is_inside && block_ > 1) {
        entry.parts.push_back({static_cast<int>(row_of_[number]), Role::kSeq, 1});
      }
      walk_rows(walk, open, entry);
    }
    plan_.comps.push_back(std::move(entry));
    return true;
  }

  // One row: loops over the open axes, vectors along the one in which all is contiguous.
  void walk_rows(const Walk& walk, const std::vector<size_t>& open, CompPlan& entry) const {
    size_t vec = walk.num_axes();
    for (const size_t axis : open) {
      const bool is_good =
          std::all_of(walk.accesses.begin(), walk.accesses.end(), [&](const Access& access) {
            if (access.is_store && walk.is_red(axis)) return true;
            return !access.uses(axis) || (access.strides[axis] == 1 && !access.is_irregular[axis]);
          });
      if (is_good) vec = axis;
    }
    int64_t lanes = walk.lanes;
    while (vec != walk.num_axes() && lanes > 1 && lanes > walk.extent(vec))
      lanes /= 2;
    const bool has_vec = vec != walk.num_axes() && lanes > 1;
    std::vector<Part> instances;
    for (const bool is_red : {false, true}) {
      if (is_red && walk.comp->combine) entry.acc = Acc{.depth = entry.num_loops()};
      for (const size_t axis : open) {
        if (walk.is_red(axis) != is_red) continue;
        const int number = static_cast<int>(axis);
        if (!has_vec || axis != vec) {
          entry.parts.push_back({number, Role::kSeq, 1});
          continue;
        }
        const bool is_whole = is_red || !walk.comp->combine;
        const int64_t unroll =
            is_whole ? std::clamp<int64_t>(walk.extent(axis) / lanes, 1, kMaxVectors) : 1;
        entry.parts.push_back({number, Role::kSeq, lanes * unroll, Tail::kPeel});
        if (unroll > 1) instances.push_back({number, Role::kUnroll, lanes});
        instances.push_back({number, Role::kVec, 1});
      }
    }
    entry.parts.insert(entry.parts.end(), instances.begin(), instances.end());
  }

  const Kernel& kernel_;
  const Target& target_;
  const std::vector<std::vector<Node>> indices_;  // row_indices
  const std::vector<Walk>& walks_;
  const std::vector<bool> is_row_;          // axes of the last comp
  size_t last_;                             // comp
  size_t root_ = 0;                         // comp: the last, or the contraction in front of it
  size_t block_axis_ = 0;                   // of the last comp
  std::vector<size_t> row_of_;              // by comp: its axis along the block
  std::vector<std::optional<Tile>> tiles_;  // by comp: of contractions over what rows share
  std::vector<size_t> home_;                // by comp: in whose row loop it stands; itself: in none
  int64_t block_;                           // rows
  int stage_depth_ = 0;                     // loops of the root around the blocks
  int block_depth_ = 0;
  int row_depth_ = 0;
  Plan plan_;
};

}  // namespace

void add_block_plans(const PlanInput& input, std::vector<Candidate>& plans) {
  const int64_t least = input.target.block_rows();
  for (const int64_t blocks : kBlocks) {
    if (auto plan = BlockPlans(input, blocks * least).run()) {
      plans.push_back({*std::move(plan), "blocks"});
    }
  }
}

}  // namespace tenon
