// SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/codegen/plan_families.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

constexpr int64_t kMaxTileRows = 14;
constexpr int64_t kMaxTileVectors = 4;
constexpr size_t kMaxTiles = 3;
// Points of the reduction in one pass over the output, where it is cut.
constexpr int64_t kDepths[] = {1024, 256, 32};

struct TileSize {
  int64_t rows = 1;
  int64_t vectors = 1;
  int64_t lanes = 1;
  int64_t columns() const { return vectors * lanes; }
};

/// What a plan of this family varies.
struct TileOptions {
  TileSize size;
  int64_t depth = 1;  ///< of the longest red axis
  bool has_stage = false;
  bool deals_rows = false;  ///< over groups before columns
};

class TilePlans {
 public:
  TilePlans(const PlanInput& input, std::vector<Candidate>& plans)
      : input_(input),
        target_(input.target),
        walk_(input.walks[0]),
        last_(input.walks[1]),
        none_(walk_.num_axes()),
        consumer_(consumer_axes(input)),
        vec_(none_),
        row_(none_),
        deep_(none_),
        plans_(plans) {}

  void run() {
    if (!find_axes()) return;
    const int64_t reuse = row_ == none_ ? 1 : walk_.extent(row_);
    // Copies pay where many rows read them.
    constexpr int64_t kMinReuse = 24;
    if (must_stage_ && reuse < kMinReuse) return;
    for (const TileSize& size : sizes(reuse)) {
      for (const int64_t depth : depths()) {
        for (const bool has_stage : {true, false}) {
          if (has_stage ? reuse < kMinReuse : must_stage_) continue;
          for (const bool deals_rows : {false, true}) {
            if (deals_rows && row_ == none_) continue;
            add({size, depth, has_stage, deals_rows});
          }
        }
      }
    }
  }

 private:
  bool find_axes() {
    for (size_t i = 0; i < none_; ++i) {
      if (walk_.is_red(i)) continue;
      if (consumer_[i] == last_.num_axes()) return false;
      if (last_.accesses[0].strides[consumer_[i]] == 1 && walk_.extent(i) > 1) vec_ = i;
    }
    if (vec_ == none_) return false;
    lanes_ = std::min(walk_.lanes, last_.lanes);
    // A vector wider than its axis would be cut to a width that none has.
    while (lanes_ > 1 && lanes_ > walk_.extent(vec_))
      lanes_ /= 2;
    if (lanes_ < 2) return false;
    // Operands along the vec axis; one that is not contiguous there is staged, or the form is
    // wrong.
    size_t streams = 0;
    for (const Access& access : walk_.accesses) {
      if (access.is_store || !access.uses(vec_)) continue;
      if (access.is_irregular[vec_]) return false;
      ++streams;
      must_stage_ = must_stage_ || access.strides[vec_] != 1;
    }
    if (must_stage_ && streams != 1) return false;
    find_row_axis();
    red_points_ = 1;
    for (size_t i = 0; i < none_; ++i) {
      if (!walk_.is_red(i)) continue;
      red_points_ *= walk_.extent(i);
      if (deep_ == none_ || walk_.extent(i) > walk_.extent(deep_)) deep_ = i;
    }
    return true;
  }

  // The longest par axis that operands along the vec axis do not move with.
  void find_row_axis() {
    for (size_t i = 0; i < none_; ++i) {
      if (i == vec_ || walk_.is_red(i) || walk_.extent(i) < 2) continue;
      const bool is_reused =
          std::all_of(walk_.accesses.begin() + 1, walk_.accesses.end(),
                      [&](const Access& access) { return !access.uses(vec_) || !access.uses(i); });
      if (is_reused && (row_ == none_ || walk_.extent(i) > walk_.extent(row_))) {
        row_ = i;
      }
    }
  }

  // As many accumulators as registers hold beside one row of operands: the ratio of arithmetic to
  // loads is rows * vectors / (rows + vectors). The best few, one for each number of vectors.
  std::vector<TileSize> sizes(int64_t reuse) const {
    std::vector<std::pair<double, TileSize>> best;
    for (int64_t vectors = 1; vectors <= kMaxTileVectors; ++vectors) {
      std::pair<double, TileSize> found;
      for (int64_t rows = 1; rows <= std::min(reuse, kMaxTileRows); ++rows) {
        if (rows * vectors + vectors + 1 > target_.vector_registers - 1) continue;
        const auto width = static_cast<double>(round_up(walk_.extent(vec_), vectors * lanes_));
        const auto height = static_cast<double>(round_up(reuse, rows));
        const auto tile = static_cast<double>(rows * vectors);
        // Loads for each multiply-add, the latency of the chains, and wasted places.
        const double loads = static_cast<double>(rows + vectors) / tile;
        const double chains = std::max(1.0, target_.mulacc_chains / tile);
        const double cost = width * height * chains * (1.0 + 0.5 * loads);
        if (found.first == 0 || cost < found.first) found = {cost, {rows, vectors, lanes_}};
      }
      if (found.first > 0) best.push_back(found);
    }
    std::stable_sort(best.begin(), best.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<TileSize> sizes;
    for (const auto& [cost, size] : best) {
      if (sizes.size() < kMaxTiles && cost < 1.5 * best.front().first) sizes.push_back(size);
    }
    return sizes;
  }

  // The longest red axis whole, or cut where the output can hold the accumulators in between.
  std::vector<int64_t> depths() const {
    if (deep_ == none_) return {1};
    const int64_t length = walk_.extent(deep_);
    std::vector<int64_t> depths{length};
    if (red_points_ != length || !can_carry_in_output()) return depths;
    for (const int64_t most : kDepths) {
      if (length > most + most / 2) depths.push_back(ceil_div(length, ceil_div(length, most)));
    }
    return depths;
  }

  void add(const TileOptions& options) {
    const TileSize& size = options.size;
    const int vec_axis = static_cast<int>(vec_);
    const int64_t columns = walk_.extent(vec_);
    const int64_t rows = row_ == none_ ? 1 : walk_.extent(row_);
    const int64_t width = dtype_size_bytes(walk_.comp->value.dtype());
    const int64_t depth = options.depth;
    const bool is_cut = deep_ != none_ && depth < walk_.extent(deep_);
    // Dealing: other par axes first, then column blocks, then row_ blocks.
    const int64_t wanted = kGroupsPerThread * target_.threads;
    std::vector<Part> grid;
    std::vector<Part> outer;
    int64_t groups = 1;
    for (size_t i = 0; i < none_; ++i) {
      if (walk_.is_red(i) || i == vec_ || i == row_) continue;
      const bool is_dealt = grid.size() + 2 < kMaxGridDims;
      (is_dealt ? grid : outer)
          .push_back({static_cast<int>(i), is_dealt ? Role::kGrid : Role::kSeq, 1});
      if (is_dealt) groups *= walk_.extent(i);
    }
    int64_t band = round_up(rows, size.rows);
    const auto cut_rows = [&] {
      if (groups >= wanted || row_ == none_) return;
      band = std::max(size.rows, round_up(ceil_div(rows * groups, wanted), size.rows));
      groups *= ceil_div(rows, band);
    };
    if (options.deals_rows) cut_rows();
    const int64_t budget = target_.max_local_bytes / 2;
    const int64_t most = std::max<int64_t>(budget / (depth * width), size.columns());
    const int64_t parts = std::max(ceil_div(wanted, groups), ceil_div(columns, most));
    int64_t block = std::max(size.columns(), round_up(ceil_div(columns, parts), size.columns()));
    block = std::min(block, round_up(columns, size.columns()));
    groups *= ceil_div(columns, block);
    if (!options.deals_rows) cut_rows();
    if (row_ != none_ && band < rows) grid.push_back({static_cast<int>(row_), Role::kGrid, band});
    grid.push_back({vec_axis, Role::kGrid, block});

    CompPlan entry{.comp = walk_.number, .how = How::kRoot};
    entry.parts = grid;
    const auto add = [&](int axis, Role role, int64_t step, Tail tail = Tail::kNone) {
      const bool is_known =
          std::any_of(entry.parts.begin(), entry.parts.end(),
                      [&](const Part& part) { return part.axis == axis && part.step == step; });
      if (!is_known) entry.parts.push_back({axis, role, step, tail});
    };
    entry.parts.insert(entry.parts.end(), outer.begin(), outer.end());
    if (is_cut) add(static_cast<int>(deep_), Role::kSeq, depth);
    const int stage_depth = static_cast<int>(entry.parts.size());
    if (row_ != none_) add(static_cast<int>(row_), Role::kSeq, size.rows);
    add(vec_axis, Role::kSeq, size.columns());
    const int acc_depth = static_cast<int>(entry.parts.size());
    for (size_t i = 0; i < none_; ++i) {
      if (walk_.is_red(i)) add(static_cast<int>(i), Role::kSeq, 1);
    }
    if (row_ != none_ && size.rows > 1) {
      add(static_cast<int>(row_), Role::kUnroll, 1, Tail::kClamp);
    }
    if (size.vectors > 1) add(vec_axis, Role::kUnroll, size.lanes);
    add(vec_axis, Role::kVec, 1);
    entry.acc = Acc{.depth = acc_depth};
    if (is_cut) entry.acc->carry_in = last_.comp->dst;
    if (options.has_stage &&
        !stage_operand(size, stage_depth, block, depth * block * width, entry)) {
      return;
    }

    CompPlan after{.comp = last_.number, .how = How::kAfter};
    after.at = {walk_.number, acc_depth};
    if (row_ != none_ && size.rows > 1) {
      after.parts.push_back({static_cast<int>(consumer_[row_]), Role::kUnroll, 1});
    }
    const int last_vec = static_cast<int>(consumer_[vec_]);
    if (size.vectors > 1) after.parts.push_back({last_vec, Role::kUnroll, size.lanes});
    after.parts.push_back({last_vec, Role::kVec, 1});
    plans_.push_back({{{std::move(entry), std::move(after)}}, "tile"});
  }

  // The output holds accumulators between blocks of the reduction.
  bool can_carry_in_output() const {
    const Comp& reduction = *walk_.comp;
    const Comp& last = *last_.comp;
    const BufferDecl& out = input_.kernel.buffers[static_cast<size_t>(last.dst)];
    int loads = 0;
    for (const Access& access : last_.accesses) {
      if (!access.is_store && access.buffer == reduction.dst) loads += access.is_gated ? 2 : 1;
    }
    return out.dtype == reduction.value.dtype() && loads == 1 &&
           last_.points() == num_elements(out.dims);
  }

  // The operand along the vec axis in panels of the tile's columns. False: there is none that can
  // be copied.
  bool stage_operand(const TileSize& size, int stage_depth, int64_t block, int64_t block_bytes,
                     CompPlan& entry) const {
    if (block_bytes > target_.max_local_bytes) return false;
    for (const Access& access : walk_.accesses) {
      if (access.is_store || !access.uses(vec_) || access.is_gated) continue;
      // Panels: the dim of the vec axis is cut by the tile's columns.
      const std::span<const Node> index = load_parts(access.load).index;
      int vec_dim = -1;
      for (size_t dim = 0; dim < index.size(); ++dim) {
        if (has_axis(index[dim], vec_)) vec_dim = static_cast<int>(dim);
      }
      if (index.size() < 2 || vec_dim < 0) continue;
      Stage stage{.buffer = access.buffer, .depth = stage_depth};
      stage.layout.push_back({vec_dim, ceil_div(block, size.columns()), 0});
      for (size_t dim = 0; dim < index.size(); ++dim) {
        if (static_cast<int>(dim) == vec_dim) continue;
        stage.layout.push_back(
            {static_cast<int>(dim), box_extent(entry, index[dim], stage_depth), 0});
      }
      stage.layout.push_back({vec_dim, size.columns(), 0});
      entry.stages.push_back(std::move(stage));
      return true;
    }
    return false;
  }

  bool has_axis(const Node& index, size_t axis) const {
    const std::vector<Node> nodes = topological_order(std::span(&index, 1));
    return std::find(nodes.begin(), nodes.end(), walk_.comp->axes[axis].axis) != nodes.end();
  }

  // Length of what an index runs through inside the stage's loop.
  int64_t box_extent(const CompPlan& entry, const Node& index, int stage_depth) const {
    int64_t length = 1;
    for (size_t axis = 0; axis < none_; ++axis) {
      if (!has_axis(index, axis)) continue;
      int64_t inner = walk_.extent(axis);
      for (int i = 0; i < stage_depth; ++i) {
        const Part& part = entry.parts[static_cast<size_t>(i)];
        if (part.axis == static_cast<int>(axis)) inner = part.step;
      }
      length *= inner;
    }
    return length;
  }

  const PlanInput& input_;
  const Target& target_;
  const Walk& walk_;
  const Walk& last_;
  const size_t none_;
  const std::vector<size_t> consumer_;
  size_t vec_;
  size_t row_;   // reuses the operands along the vec axis
  size_t deep_;  // the longest red axis
  int64_t red_points_ = 1;
  int64_t lanes_ = 1;
  bool must_stage_ = false;
  std::vector<Candidate>& plans_;
};

}  // namespace

std::vector<size_t> consumer_axes(const PlanInput& input) {
  const Walk& reduction = input.walks[0];
  const Walk& last = input.walks[1];
  std::vector<size_t> result(reduction.num_axes(), last.num_axes());
  for (const Access& access : last.accesses) {
    if (access.is_store || access.buffer != reduction.comp->dst) continue;
    const std::span<const Node> index = load_parts(access.load).index;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      for (size_t i = 0; i < reduction.num_axes(); ++i) {
        if (reduction.comp->index[dim] != reduction.comp->axes[i].axis) continue;
        for (size_t k = 0; k < last.num_axes(); ++k) {
          if (last.comp->axes[k].axis == index[dim]) result[i] = k;
        }
      }
    }
  }
  return result;
}

void add_tile_plans(const PlanInput& input, std::vector<Candidate>& plans) {
  TilePlans(input, plans).run();
}

}  // namespace tenon
