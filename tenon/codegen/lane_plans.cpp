// Plans for groups of many lanes: along rows, along columns, in tiles. The cost model chooses how
// many lanes there are and what each does. SPDX-License-Identifier: MIT

#include <algorithm>
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
    if (walks_.size() == 2 && walks_[0].comp->combine) {
      for (const bool has_stages : {true, false})
        tiles(has_stages);
    }
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
  void tiles(bool has_stages) {
    const Walk& walk = walks_[0];
    const std::vector<size_t> consumer = consumer_axes(walk, last_);
    size_t column = walk.num_axes();
    size_t deep = walk.num_axes();
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      const bool is_par = !walk.is_red(i) && consumer[i] < none_ && walk.extent(i) > 1;
      if (is_par && last_.accesses[0].strides[consumer[i]] == 1) column = i;
      if (walk.is_red(i)) deep = i;
    }
    if (column == walk.num_axes() || deep == walk.num_axes()) return;
    size_t row = walk.num_axes();
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      const bool is_shared = std::ranges::any_of(walk.accesses, [&](const Access& access) {
        return !access.is_store && access.uses(column) && !access.uses(i);
      });
      const bool is_longer = row == walk.num_axes() || walk.extent(i) > walk.extent(row);
      if (i != column && !walk.is_red(i) && consumer[i] < none_ && is_shared && is_longer) row = i;
    }
    if (row == walk.num_axes() || walk.extent(row) < 2) return;
    constexpr std::pair<int64_t, int64_t> kLanes[] = {{16, 16}, {8, 16}, {8, 8}, {4, 8}};
    constexpr std::pair<int64_t, int64_t> kTiles[] = {{4, 4}, {8, 4}, {8, 8}, {2, 2}};
    for (const auto& [lane_rows, lane_columns] : kLanes) {
      if (lane_rows * lane_columns > target_.max_lanes) continue;
      for (const auto& [rows, columns] : kTiles) {
        for (const int64_t depth : {16, 8, 32}) {
          if (!has_stages && depth != 16) continue;
          Plan plan{.lanes = {lane_columns, lane_rows}};
          plan.comps = tiled(walk, consumer, row, column, deep, {lane_rows * rows, rows},
                             {lane_columns * columns, columns}, has_stages ? depth : 0);
          plans_.push_back({std::move(plan), "tiles of lanes"});
        }
      }
    }
  }

  // `rows` and `columns`: of a group, and of a lane; `depth`: of a stage, 0: none.
  std::vector<CompPlan> tiled(const Walk& walk, const std::vector<size_t>& consumer, size_t row,
                              size_t column, size_t deep, std::pair<int64_t, int64_t> rows,
                              std::pair<int64_t, int64_t> columns, int64_t depth) const {
    CompPlan root{.comp = walk.number, .how = How::kRoot};
    CompPlan after{.comp = last_.number, .how = How::kAfter};
    std::vector<Part> loops;
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (i == row || i == column || walk.is_red(i) || walk.extent(i) < 2) continue;
      const bool is_dealt = root.parts.empty();
      (is_dealt ? root.parts : loops)
          .push_back({static_cast<int>(i), is_dealt ? Role::kGrid : Role::kSeq, 1});
    }
    root.parts.push_back({static_cast<int>(row), Role::kGrid, rows.first});
    root.parts.push_back({static_cast<int>(column), Role::kGrid, columns.first});
    root.parts.insert(root.parts.end(), loops.begin(), loops.end());
    root.acc = Acc{.depth = root.num_loops()};
    after.at = {walk.number, root.num_loops()};
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (walk.is_red(i) && i != deep && walk.extent(i) > 1) {
        root.parts.push_back({static_cast<int>(i), Role::kSeq, 1});
      }
    }
    if (depth > 0 && depth < walk.extent(deep)) {
      root.parts.push_back({static_cast<int>(deep), Role::kSeq, depth});
    }
    const int stage_depth = root.num_loops();
    root.parts.push_back({static_cast<int>(deep), Role::kSeq, 1});
    const int64_t vec = columns.second % walk.lanes == 0 ? std::min(walk.lanes, last_.lanes) : 1;
    const auto add_instances = [&](CompPlan& entry, size_t row_axis, size_t column_axis) {
      const int r = static_cast<int>(row_axis);
      const int c = static_cast<int>(column_axis);
      if (rows.second > 1) entry.parts.push_back({r, Role::kUnroll, rows.first / rows.second});
      if (columns.second > vec) {
        entry.parts.push_back({c, Role::kUnroll, columns.first / columns.second * vec});
      }
      entry.parts.push_back({r, Role::kLane, 1, Tail::kNone, 1});
      entry.parts.push_back({c, Role::kLane, vec, Tail::kNone, 0});
      if (vec > 1) entry.parts.push_back({c, Role::kVec, 1});
    };
    add_instances(root, row, column);
    add_instances(after, consumer[row], consumer[column]);
    for (size_t i = 1; depth > 0 && i < walk.accesses.size(); ++i) {
      const Access& access = walk.accesses[i];
      Stage stage{.buffer = access.buffer, .depth = stage_depth};
      const std::span<const Node> index = load_parts(access.load).index;
      // Lanes that differ in the row read from different banks.
      for (size_t dim = 0; dim < index.size() && !access.uses(column); ++dim) {
        stage.layout.push_back({static_cast<int>(dim),
                                staged_extent(walk, index[dim], root, stage_depth),
                                dim + 1 == index.size() ? 1 : 0});
      }
      const bool is_known = std::ranges::any_of(
          root.stages, [&](const Stage& other) { return other.buffer == access.buffer; });
      if (!is_known) root.stages.push_back(std::move(stage));
    }
    return {std::move(root), std::move(after)};
  }

  const Kernel& kernel_;
  const Target& target_;
  const std::vector<Walk>& walks_;
  const Walk& last_;
  const size_t none_;
  const std::vector<std::vector<Node>> indices_;
  std::vector<bool> is_row_;
  std::map<std::tuple<size_t, int64_t, size_t>, std::vector<int64_t>> open_;  // row, rows, comp
  std::vector<Candidate>& plans_;
};

}  // namespace

void add_lane_plans(const PlanInput& input, std::vector<Candidate>& plans) {
  LanePlans(input, plans).run();
}

}  // namespace tenon
