// Plans for groups of many lanes: along rows, along columns, in tiles. The cost model chooses how
// many lanes there are and what each does. SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/placement.h"
#include "tenon/codegen/plan_families.h"

namespace tenon {
namespace {

constexpr int64_t kMinLanes = 8;
constexpr int64_t kMaxUnroll = 8;

/// Which axes go to the lanes: `rows` neighbours of a row axis (of the last comp) to one dim, what
/// each comp walks along inside of a row to the other.
struct Deal {
  size_t row = 0;  ///< the number of axes: none
  int64_t rows = 1;
  int row_dim = 1;
  int64_t lanes = 1;
  int64_t unroll = 1;
  int dim() const { return 1 - row_dim; }
};

/// Lanes in a square over two axes of the first comp, rows and columns, with some points of both in
/// each lane.
struct Tile {
  size_t row = 0;
  size_t column = 0;
  size_t deep = 0;    ///< the red axis that is cut in blocks
  int64_t depth = 0;  ///< of a block, whose operands are in group memory; 0: they are not
  std::array<int64_t, 2> lanes = {1, 1};
  std::array<int64_t, 2> count = {1, 1};
};

class LanePlans {
 public:
  LanePlans(const PlanInput& input, std::vector<Candidate>& plans)
      : kernel_(input.kernel),
        target_(input.target),
        walks_(input.walks),
        last_(walks_.back()),
        none_(last_.num_axes()),
        indices_(row_indices(kernel_)),
        is_row_(row_axes(kernel_)),
        plans_(plans) {}

  void run() {
    if (walks_.size() == 2 && walks_[0].comp->combine) tiles();
    if (walks_.size() == 1 && none_ > 1) squares();
    // A comp alone has no rows: each element stands for itself.
    if (walks_.size() == 1 && none_ > 0) is_row_[along(last_, lengths_of(last_))] = false;
    size_t row = none_;
    size_t column = none_;
    for (size_t i = 0; i < none_; ++i) {
      if (!is_row_[i] || last_.extent(i) < 2) continue;
      row = i;
      if (last_.accesses[0].strides[i] == 1) column = i;
    }
    for (int64_t lanes = lanes_at_most(); lanes > 0; lanes /= 2) {
      for (const int64_t unroll : {4, 1}) {
        if (unroll == 1 && walks_.size() > 1) break;
        for (int64_t rows = 1; rows * lanes <= target_.max_lanes; rows *= 4) {
          if (rows > 1 && (row == none_ || rows / 4 >= last_.extent(row))) break;
          // Few lanes are for many rows.
          if (lanes >= kMinLanes || rows * lanes * 4 > lanes_at_most()) {
            add({row, rows, lanes == 1 ? 0 : 1, lanes, unroll}, "rows of lanes");
          }
        }
      }
      if (column == none_ || lanes < kMinLanes) continue;
      for (int64_t others = 1; others * lanes <= target_.max_lanes; others *= 4)
        add({column, lanes, 0, others, 1}, "columns of lanes");
    }
  }

 private:
  int64_t lanes_at_most() const {
    int64_t lanes = 1;
    while (lanes * 2 <= target_.max_lanes)
      lanes *= 2;
    return lanes;
  }

  static std::vector<int64_t> lengths_of(const Walk& walk) {
    std::vector<int64_t> lengths;
    for (size_t i = 0; i < walk.num_axes(); ++i)
      lengths.push_back(walk.extent(i));
    return lengths;
  }

  // The axis that neighbours of a dim walk along: contiguous in most operands, else the longest.
  static size_t along(const Walk& walk, const std::vector<int64_t>& lengths) {
    size_t best = walk.num_axes();
    int64_t most = -1;
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (lengths[i] < 2 && best != walk.num_axes()) continue;
      int64_t contiguous = 0;
      for (const Access& access : walk.accesses)
        contiguous += access.strides[i] == 1 && !access.is_irregular[i] ? 1 : 0;
      const int64_t score = (contiguous << 40) + std::min(lengths[i], int64_t{1} << 39);
      if (lengths[i] > 1 && score > most) {
        best = i;
        most = score;
      }
    }
    return best == walk.num_axes() && best > 0 ? best - 1 : best;
  }

  // Rows over groups, `rows` of them in each; producers inside.
  void add(const Deal& deal, std::string_view family) {
    Plan plan{.lanes = {1, 1}};
    plan.lanes[static_cast<size_t>(deal.row_dim)] = deal.rows;
    plan.lanes[static_cast<size_t>(deal.dim())] = deal.lanes;
    if (plan.lanes[1] == 1) plan.lanes.pop_back();
    CompPlan root{.comp = last_.number, .how = How::kRoot};
    std::vector<Part> loops;
    std::vector<int64_t> lengths = lengths_of(last_);
    for (size_t i = 0; i < none_; ++i) {
      if (!is_row_[i]) continue;
      const int64_t step = i == deal.row ? deal.rows : 1;
      const bool is_dealt = root.parts.size() + (walks_.size() == 1) < kMaxGridDims;
      if (lengths[i] > 1) {
        (is_dealt ? root.parts : loops)
            .push_back({static_cast<int>(i), is_dealt ? Role::kGrid : Role::kSeq, step});
      }
      lengths[i] = step;
    }
    root.parts.insert(root.parts.end(), loops.begin(), loops.end());
    const LoopPlace place{last_.number, root.num_loops()};
    fill(last_, lengths, deal.row, deal, root);
    plan.comps.push_back(std::move(root));
    for (size_t number = walks_.size() - 1; number-- > 0;) {
      const Walk& walk = walks_[number];
      CompPlan entry{.comp = walk.number, .how = How::kBefore, .at = place};
      // What is read of it in a row is the same however a row is dealt.
      const auto [known, is_new] = open_.try_emplace({deal.row, deal.rows, number});
      if (is_new) {
        const auto ranges = ranges_at(kernel_, plan, walk.number, How::kBefore, place);
        for (const AxisRange& range : ranges.value_or(std::vector<AxisRange>()))
          known->second.push_back(range.length);
      }
      if (known->second.size() != walk.num_axes()) return;
      const std::vector<Node>& own = indices_[number];
      const size_t row =
          deal.row == none_
              ? walk.num_axes()
              : static_cast<size_t>(std::ranges::find(own, last_.comp->axes[deal.row].axis) -
                                    own.begin());
      fill(walk, known->second, row, deal, entry);
      plan.comps.push_back(std::move(entry));
    }
    add_kept(plan, family);
    plans_.push_back({std::move(plan), family});
  }

  // The same with tmps of the output's shape in the output.
  void add_kept(Plan plan, std::string_view family) {
    bool is_kept = false;
    for (CompPlan& entry : plan.comps) {
      const bool is_tile = walks_[static_cast<size_t>(entry.comp)].comp->combine.has_value();
      if (entry.how != How::kBefore || is_tile || entry.parts.empty()) continue;
      entry.keep = last_.comp->dst;
      is_kept = true;
    }
    if (is_kept) plans_.push_back({std::move(plan), family});
  }

  // Loops, lanes and instances of what is open inside of a row; par loops outside.
  void fill(const Walk& walk, std::vector<int64_t> lengths, size_t row, const Deal& deal,
            CompPlan& entry) const {
    std::vector<Part> inner;
    if (row < lengths.size() && lengths[row] > 1 && deal.rows > 1) {
      inner.push_back({static_cast<int>(row), Role::kLane, 1, Tail::kNone, deal.row_dim});
      if (lengths[row] > deal.rows) return;
      lengths[row] = 1;
    }
    const size_t dealt = along(walk, lengths);
    const auto axis_loop = [&](size_t axis) {
      const int number = static_cast<int>(axis);
      if (axis != dealt) return entry.parts.push_back({number, Role::kSeq, 1});
      const bool is_contiguous = std::ranges::all_of(walk.accesses, [&](const Access& access) {
        return !access.uses(axis) || (access.strides[axis] == 1 && !access.is_irregular[axis]);
      });
      const int64_t vec = is_contiguous && lengths[axis] % walk.lanes == 0 ? walk.lanes : 1;
      const int64_t step = vec * deal.lanes;
      const int64_t runs = ceil_div(lengths[axis], step);
      // Short rows are there at once: what is computed of them stays in registers.
      const int64_t unroll =
          deal.unroll > 1 && runs <= kMaxUnroll ? runs : std::min(deal.unroll, runs);
      if (runs > unroll) {
        const bool is_alone =
            walks_.size() == 1 && entry.parts.size() < kMaxGridDims &&
            entry.num_loops() == std::ranges::count(entry.parts, Role::kGrid, &Part::role);
        entry.parts.push_back({number, is_alone ? Role::kGrid : Role::kSeq, step * unroll});
      }
      if (unroll > 1) inner.push_back({number, Role::kUnroll, step});
      if (deal.lanes > 1) inner.push_back({number, Role::kLane, vec, Tail::kNone, deal.dim()});
      if (vec > 1) inner.push_back({number, Role::kVec, 1});
    };
    for (const bool is_red : {false, true}) {
      if (is_red && walk.comp->combine) entry.acc = Acc{.depth = entry.num_loops()};
      for (size_t i = 0; i < walk.num_axes(); ++i) {
        if (lengths[i] > 1 && walk.is_red(i) == is_red) axis_loop(i);
      }
    }
    entry.parts.insert(entry.parts.end(), inner.begin(), inner.end());
  }

  // A reduction with reuse: lanes in squares, each with a tile in registers, both operands in group
  // memory.
  void tiles() {
    const Walk& walk = walks_[0];
    const size_t none = walk.num_axes();
    consumer_ = consumer_axes(walk, last_);
    Tile tile{.row = none, .column = none, .deep = none};
    for (size_t i = 0; i < none; ++i) {
      const bool is_par = !walk.is_red(i) && consumer_[i] < none_ && walk.extent(i) > 1;
      if (is_par && last_.accesses[0].strides[consumer_[i]] == 1) tile.column = i;
      if (walk.is_red(i)) tile.deep = i;
    }
    if (tile.column == none || tile.deep == none) return;
    for (size_t i = 0; i < none; ++i) {
      const bool is_shared = std::ranges::any_of(walk.accesses, [&](const Access& access) {
        return !access.is_store && access.uses(tile.column) && !access.uses(i);
      });
      const bool is_par = i != tile.column && !walk.is_red(i) && consumer_[i] < none_;
      const int64_t longest = tile.row == none ? 1 : walk.extent(tile.row);
      if (is_par && is_shared && walk.extent(i) > longest) tile.row = i;
    }
    if (tile.row == none) return;
    for (const auto& [lane_rows, lane_columns] : {std::pair(16, 16), {8, 16}, {8, 8}, {4, 8}}) {
      for (const auto& [rows, columns] : {std::pair(4, 4), {8, 4}, {8, 8}, {2, 2}}) {
        for (const int64_t depth : {16, 8, 32, 0}) {
          tile.lanes = {lane_rows, lane_columns};
          tile.count = {rows, columns};
          tile.depth = depth;
          add_tile(tile, "tiles of lanes");
        }
      }
    }
  }

  // One comp whose operands are contiguous along another axis than what it writes: squares of them
  // are turned in group memory.
  void squares() {
    Tile tile{.column = along(last_, lengths_of(last_)), .deep = none_};
    for (size_t i = 0; i < none_; ++i) {
      if (last_.accesses[0].strides[i] == 1 && last_.extent(i) > 1) tile.column = i;
    }
    tile.row = crossed_axis(last_, tile.column);
    if (tile.row == none_) return;
    tile.count = {4, 1};
    tile.depth = 1;
    for (const auto& [rows, columns] : {std::pair(8, 32), {4, 16}}) {
      tile.lanes = {rows, columns};
      add_tile(tile, "squares of lanes");
    }
  }

  void add_tile(const Tile& tile, std::string_view family) {
    if (tile.lanes[0] * tile.lanes[1] > target_.max_lanes) return;
    const Walk& walk = walks_[0];
    CompPlan root{.comp = walk.number, .how = How::kRoot};
    std::vector<Part> loops;
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (i == tile.row || i == tile.column || walk.is_red(i) || walk.extent(i) < 2) continue;
      const bool is_dealt = root.parts.empty();
      (is_dealt ? root.parts : loops)
          .push_back({static_cast<int>(i), is_dealt ? Role::kGrid : Role::kSeq, 1});
    }
    const int64_t rows = tile.lanes[0] * tile.count[0];
    const int64_t columns = tile.lanes[1] * tile.count[1];
    root.parts.push_back({static_cast<int>(tile.row), Role::kGrid, rows});
    root.parts.push_back({static_cast<int>(tile.column), Role::kGrid, columns});
    root.parts.insert(root.parts.end(), loops.begin(), loops.end());
    const int depth = root.num_loops();
    const bool is_sum = walk.comp->combine.has_value();
    if (is_sum) root.acc = Acc{.depth = depth};
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (walk.is_red(i) && i != tile.deep && walk.extent(i) > 1) {
        root.parts.push_back({static_cast<int>(i), Role::kSeq, 1});
      }
    }
    const auto deep = static_cast<int>(tile.deep);
    if (is_sum && tile.depth > 0 && tile.depth < walk.extent(tile.deep)) {
      root.parts.push_back({deep, Role::kSeq, tile.depth});
    }
    const int stage_depth = root.num_loops();
    if (is_sum) root.parts.push_back({deep, Role::kSeq, 1});
    add_instances(tile, root, tile.row, tile.column);
    if (tile.depth > 0) add_stages(tile, root, stage_depth);
    Plan plan{.comps = {std::move(root)}, .lanes = {tile.lanes[1], tile.lanes[0]}};
    if (is_sum) {
      CompPlan after{.comp = last_.number, .how = How::kAfter, .at = {walk.number, depth}};
      add_instances(tile, after, consumer_[tile.row], consumer_[tile.column]);
      plan.comps.push_back(std::move(after));
    }
    plans_.push_back({std::move(plan), family});
  }

  void add_instances(const Tile& tile, CompPlan& entry, size_t row, size_t column) const {
    const int64_t lanes = std::min(walks_[0].lanes, last_.lanes);
    const int64_t vec = tile.count[1] % lanes == 0 ? lanes : 1;
    const int r = static_cast<int>(row);
    const int c = static_cast<int>(column);
    if (tile.count[0] > 1) entry.parts.push_back({r, Role::kUnroll, tile.lanes[0]});
    if (tile.count[1] > vec) entry.parts.push_back({c, Role::kUnroll, tile.lanes[1] * vec});
    entry.parts.push_back({r, Role::kLane, 1, Tail::kNone, 1});
    entry.parts.push_back({c, Role::kLane, vec, Tail::kNone, 0});
    if (vec > 1) entry.parts.push_back({c, Role::kVec, 1});
  }

  void add_stages(const Tile& tile, CompPlan& root, int depth) const {
    const Walk& walk = walks_[0];
    for (size_t i = 1; i < walk.accesses.size(); ++i) {
      const Access& access = walk.accesses[i];
      const bool is_turned = access.strides[tile.row] == 1 && access.uses(tile.column);
      const bool is_known = std::ranges::any_of(
          root.stages, [&](const Stage& other) { return other.buffer == access.buffer; });
      if (is_known || (!walk.comp->combine && !is_turned)) continue;
      Stage stage{.buffer = access.buffer, .depth = depth};
      const std::span<const Node> index = load_parts(access.load).index;
      // Lanes that read across its rows find them in different banks.
      for (size_t dim = 0; dim < index.size() && access.strides[tile.column] != 1; ++dim) {
        stage.layout.push_back({static_cast<int>(dim), staged_extent(walk, index[dim], root, depth),
                                dim + 1 == index.size() ? 1 : 0});
      }
      root.stages.push_back(std::move(stage));
    }
  }

  const Kernel& kernel_;
  const Target& target_;
  const std::vector<Walk>& walks_;
  const Walk& last_;
  const size_t none_;
  const std::vector<std::vector<Node>> indices_;
  std::vector<bool> is_row_;
  std::vector<size_t> consumer_;  // by axis of the first comp, of two
  std::map<std::tuple<size_t, int64_t, size_t>, std::vector<int64_t>> open_;  // row, rows, comp
  std::vector<Candidate>& plans_;
};

}  // namespace

void add_lane_plans(const PlanInput& input, std::vector<Candidate>& plans) {
  LanePlans(input, plans).run();
}

}  // namespace tenon
