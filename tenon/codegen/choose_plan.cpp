// The families of plans, by how the heaviest comp walks memory. Each proposes one plan; the first
// that fits is taken. SPDX-License-Identifier: MIT

#include "tenon/codegen/choose_plan.h"

#include <algorithm>
#include <bit>

#include "tenon/codegen/block_plans.h"
#include "tenon/codegen/row_plans.h"
#include "tenon/codegen/unit_plans.h"
#include "tenon/codegen/walk.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

class Chooser {
 public:
  Chooser(const Kernel& kernel, const Target& target) : kernel_(kernel), target_(target) {
    for (size_t i = 0; i < kernel.body.size(); ++i)
      walks_.push_back(walk_of(kernel, static_cast<int>(i)));
  }

  Plan run() {
    if (target_.max_vector_bytes > 0) {
      if (auto plan = unit_plan(kernel_, target_)) return *plan;
      if (walks_.size() == 1) {
        if (auto plan = accepted(stream())) return *plan;
      } else if (walks_.size() == 2 && is_read(walks_[1], walks_[0].comp->dst)) {
        if (auto plan = accepted(tile())) return *plan;
        if (auto plan = accepted(dot())) return *plan;
      }
      if (auto plan = block_plan(kernel_, target_)) return *plan;
      if (auto plan = row_plan(kernel_, target_)) return *plan;
    }
    return simple_plan(kernel_, target_);
  }

 private:
  std::optional<Plan> accepted(std::optional<Plan> plan) const {
    if (!plan || check_plan(kernel_, *plan, target_)) return std::nullopt;
    return plan;
  }

  // --- streaming: one elementwise comp
  // -------------------------------------------------------------

  std::optional<Plan> stream() const {
    const Walk& walk = walks_[0];
    const Access& store = walk.accesses[0];
    const size_t none = walk.num_axes();
    size_t vec = none;
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (store.strides[i] == 1 && walk.extent(i) > 1) vec = i;
    }
    if (vec == none) return std::nullopt;
    int64_t lanes = lanes_of(walk, kernel_, target_);
    while (lanes > 1 && lanes / 2 >= walk.extent(vec))
      lanes /= 2;
    if (lanes < 2) return std::nullopt;
    const size_t cross = crossed_axis(walk, vec);
    if (cross != none && walk.extent(cross) >= lanes && walk.extent(vec) >= lanes) {
      return crossed(walk, vec, cross, lanes);
    }
    const int64_t unroll = std::clamp<int64_t>(walk.extent(vec) / lanes, 1, 4);
    CompPlan entry{.comp = 0, .how = How::kRoot};
    const int64_t step = lanes * unroll;
    const bool is_large = bytes_of(walk.accesses[0], walk) > kNonTemporalBytes;
    if (is_large && !is_read(walk, store.buffer)) entry.store = StoreKind::kNonTemporal;
    entry.parts = dealt(walk, vec, step, bytes_per_point(walk));
    if (unroll > 1) entry.parts.push_back({static_cast<int>(vec), Role::kUnroll, lanes});
    entry.parts.push_back({static_cast<int>(vec), Role::kVec, 1});
    return Plan{{std::move(entry)}};
  }

  // Loops of a streaming kernel: outer axes over groups, then the vec axis in steps.
  std::vector<Part> dealt(const Walk& walk, size_t vec, int64_t step, int64_t point_bytes) const {
    std::vector<Part> grid;
    std::vector<Part> loops;
    int64_t rest = walk.points();
    int64_t groups = 1;
    const int64_t wanted = kGroupsPerThread * target_.threads;
    const int64_t min_points = std::max<int64_t>(kMinGroupBytes / point_bytes, 1);
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (i == vec) continue;
      const int axis = static_cast<int>(i);
      const int64_t extent = walk.extent(i);
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
      const int64_t extent = walk.extent(vec);
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
  std::optional<Plan> crossed(const Walk& walk, size_t vec, size_t cross, int64_t lanes) const {
    CompPlan entry{.comp = 0, .how = How::kRoot};
    const int vec_axis = static_cast<int>(vec);
    const int cross_axis = static_cast<int>(cross);
    constexpr int64_t kBlock = 64;
    std::vector<Part>& parts = entry.parts;
    if (bytes_of(walk.accesses[0], walk) > kNonTemporalBytes) {
      entry.store = StoreKind::kNonTemporal;
    }
    parts.push_back({cross_axis, Role::kGrid, kBlock});
    parts.push_back({vec_axis, Role::kGrid, kBlock});
    for (size_t i = 0; i < walk.num_axes(); ++i) {
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
    return Plan{{std::move(entry)}};
  }

  // --- one reduction and what follows it
  // -----------------------------------------------------------

  // The axis of the second comp that runs over what this axis of the reduction writes.
  std::vector<size_t> consumer_axes() const {
    const Walk& reduction = walks_[0];
    const Walk& last = walks_[1];
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

  // The reduction in a register tile of rows x vectors: the operand that is contiguous along the
  // vec axis is reused by every row.
  std::optional<Plan> tile() const {
    const Walk& walk = walks_[0];
    const Walk& last = walks_[1];
    const std::vector<size_t> consumer = consumer_axes();
    const size_t none = walk.num_axes();
    size_t vec = none;
    for (size_t i = 0; i < none; ++i) {
      if (walk.is_red(i)) continue;
      if (consumer[i] == last.num_axes()) return std::nullopt;
      if (last.accesses[0].strides[consumer[i]] == 1 && walk.extent(i) > 1) vec = i;
    }
    if (vec == none) return std::nullopt;
    const int64_t lanes =
        std::min(lanes_of(walk, kernel_, target_), lanes_of(last, kernel_, target_));
    if (lanes < 2 || walk.extent(vec) < lanes) return std::nullopt;
    // Operands along the vec axis; one that is not contiguous there is staged, or the form is
    // wrong.
    int staged = -1;
    size_t streams = 0;
    for (const Access& access : walk.accesses) {
      if (access.is_store || !access.uses(vec)) continue;
      if (access.is_irregular[vec]) return std::nullopt;
      ++streams;
      if (access.strides[vec] != 1) staged = access.buffer;
    }
    const size_t row = row_axis(walk, vec);
    const int64_t rows = row == none ? 1 : walk.extent(row);
    constexpr int64_t kMinReuse = 24;
    if (staged >= 0 && (streams != 1 || rows < kMinReuse)) return std::nullopt;
    const TileSize size = tile_size(walk.extent(vec), rows, lanes);
    return tiled(walk, consumer, vec, row, size, staged);
  }

  // The longest par axis that operands along the vec axis do not move with.
  static size_t row_axis(const Walk& walk, size_t vec) {
    size_t best = walk.num_axes();
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (i == vec || walk.is_red(i) || walk.extent(i) < 2) continue;
      const bool is_reused =
          std::all_of(walk.accesses.begin() + 1, walk.accesses.end(),
                      [&](const Access& access) { return !access.uses(vec) || !access.uses(i); });
      if (is_reused && (best == walk.num_axes() || walk.extent(i) > walk.extent(best))) best = i;
    }
    return best;
  }

  struct TileSize {
    int64_t rows = 1;
    int64_t vectors = 1;
    int64_t lanes = 1;
    int64_t columns() const { return vectors * lanes; }
  };

  // As many accumulators as registers hold beside one row of operands: the ratio of arithmetic to
  // loads is rows * vectors / (rows + vectors).
  static TileSize tile_size(int64_t columns, int64_t rows, int64_t lanes) {
    TileSize best{.lanes = lanes};
    double best_cost = 0;
    for (int64_t vectors = 1; vectors <= 4; ++vectors) {
      for (int64_t count = 1; count <= std::min<int64_t>(rows, 14); ++count) {
        if (count * vectors + vectors + 1 > kVectorRegisters - 1) continue;
        const double width = static_cast<double>(round_up(columns, vectors * lanes));
        const double height = static_cast<double>(round_up(rows, count));
        const auto tile = static_cast<double>(count * vectors);
        // Loads for each multiply-add, at least the latency of four of them, and wasted places.
        const double loads = static_cast<double>(count + vectors) / tile;
        const double chains = std::max(1.0, 8.0 / tile);
        const double cost = width * height * chains * (1.0 + 0.5 * loads);
        if (best_cost == 0 || cost < best_cost) {
          best_cost = cost;
          best.rows = count;
          best.vectors = vectors;
        }
      }
    }
    return best;
  }

  std::optional<Plan> tiled(const Walk& walk, const std::vector<size_t>& consumer, size_t vec,
                            size_t row, const TileSize& size, int staged) const {
    const size_t none = walk.num_axes();
    const int vec_axis = static_cast<int>(vec);
    const int64_t columns = walk.extent(vec);
    const int64_t rows = row == none ? 1 : walk.extent(row);
    const int64_t width = dtype_size_bytes(walk.comp->value.dtype());
    // The longest red axis is cut where its block of the vec operand would leave the cache.
    size_t deep = none;
    int64_t red_points = 1;
    for (size_t i = 0; i < none; ++i) {
      if (!walk.is_red(i)) continue;
      red_points *= walk.extent(i);
      if (deep == none || walk.extent(i) > walk.extent(deep)) deep = i;
    }
    const int64_t budget = target_.max_local_bytes / 2;
    const int64_t max_depth = budget >= (2 << 20) ? 1024 : 256;
    int64_t depth = deep == none ? 1 : walk.extent(deep);
    const bool can_carry = deep != none && red_points == depth && can_carry_in_output();
    if (can_carry && depth > max_depth + max_depth / 2) {
      depth = ceil_div(depth, ceil_div(depth, max_depth));
    }
    const bool is_cut = deep != none && depth < walk.extent(deep);
    // Dealing: other par axes first, then column blocks, then row blocks.
    const int64_t wanted = kGroupsPerThread * target_.threads;
    std::vector<Part> grid;
    std::vector<Part> outer;
    int64_t groups = 1;
    for (size_t i = 0; i < none; ++i) {
      if (walk.is_red(i) || i == vec || i == row) continue;
      const bool is_dealt = grid.size() + 2 < kMaxGridDims;
      (is_dealt ? grid : outer)
          .push_back({static_cast<int>(i), is_dealt ? Role::kGrid : Role::kSeq, 1});
      if (is_dealt) groups *= walk.extent(i);
    }
    int64_t block = round_up(columns, size.columns());
    const int64_t most = std::max<int64_t>(budget / (depth * width), size.columns());
    const int64_t parts = std::max(ceil_div(wanted, groups), ceil_div(columns, most));
    block = std::max(size.columns(), round_up(ceil_div(columns, parts), size.columns()));
    block = std::min(block, round_up(columns, size.columns()));
    groups *= ceil_div(columns, block);
    int64_t band = round_up(rows, size.rows);
    if (groups < wanted && row != none) {
      band = std::max(size.rows, round_up(ceil_div(rows * groups, wanted), size.rows));
    }
    if (row != none && band < rows) grid.push_back({static_cast<int>(row), Role::kGrid, band});
    grid.push_back({vec_axis, Role::kGrid, block});

    CompPlan entry{.comp = walk.number, .how = How::kRoot};
    entry.parts = grid;
    const auto add = [&](int axis, Role role, int64_t step, Tail tail = Tail::kNone) {
      const bool is_known =
          std::any_of(entry.parts.begin(), entry.parts.end(),
                      [&](const Part& part) { return part.axis == axis && part.step == step; });
      if (!is_known) entry.parts.push_back({axis, role, step, tail});
    };
    entry.parts.insert(entry.parts.end(), outer.begin(), outer.end());
    if (is_cut) add(static_cast<int>(deep), Role::kSeq, depth);
    const int stage_depth = static_cast<int>(entry.parts.size());
    if (row != none) add(static_cast<int>(row), Role::kSeq, size.rows);
    add(vec_axis, Role::kSeq, size.columns());
    const int acc_depth = static_cast<int>(entry.parts.size());
    for (size_t i = 0; i < none; ++i) {
      if (walk.is_red(i)) add(static_cast<int>(i), Role::kSeq, 1);
    }
    if (row != none && size.rows > 1) {
      add(static_cast<int>(row), Role::kUnroll, 1, Tail::kClamp);
    }
    if (size.vectors > 1) add(vec_axis, Role::kUnroll, size.lanes);
    add(vec_axis, Role::kVec, 1);
    entry.acc = Acc{.depth = acc_depth};
    if (is_cut) entry.acc->carry_in = walks_[1].comp->dst;
    stage_operand(walk, vec, row, size, staged, stage_depth, depth * block * width, rows, entry);

    CompPlan after{.comp = walks_[1].number, .how = How::kAfter};
    after.at = {walk.number, acc_depth};
    if (row != none && size.rows > 1) {
      after.parts.push_back({static_cast<int>(consumer[row]), Role::kUnroll, 1});
    }
    const int last_vec = static_cast<int>(consumer[vec]);
    if (size.vectors > 1) after.parts.push_back({last_vec, Role::kUnroll, size.lanes});
    after.parts.push_back({last_vec, Role::kVec, 1});
    return Plan{{std::move(entry), std::move(after)}};
  }

  // The output holds accumulators between blocks of the reduction.
  bool can_carry_in_output() const {
    const Comp& reduction = *walks_[0].comp;
    const Comp& last = *walks_[1].comp;
    const BufferDecl& out = kernel_.buffers[static_cast<size_t>(last.dst)];
    int loads = 0;
    for (const Access& access : walks_[1].accesses) {
      if (!access.is_store && access.buffer == reduction.dst) loads += access.is_gated ? 2 : 1;
    }
    return out.dtype == reduction.value.dtype() && loads == 1 &&
           walks_[1].points() == num_elements(out.dims);
  }

  // The vec operand in panels of the tile's columns, if it is reused often enough, or if it is not
  // contiguous along the vec axis.
  void stage_operand(const Walk& walk, size_t vec, size_t row, const TileSize& size, int staged,
                     int stage_depth, int64_t block_bytes, int64_t rows, CompPlan& entry) const {
    constexpr int64_t kMinReuse = 24;
    constexpr int64_t kMinBytes = 1 << 20;
    if (row == walk.num_axes()) return;
    for (const Access& access : walk.accesses) {
      if (access.is_store || !access.uses(vec) || access.is_gated) continue;
      const bool is_forced = access.buffer == staged;
      const bool is_large = bytes_of(access, walk) > kMinBytes;
      if (!is_forced && (!is_large || rows < kMinReuse * 2)) continue;
      if (block_bytes > target_.max_local_bytes) continue;
      // Panels: the dim of the vec axis is cut by the tile's columns.
      const std::span<const Node> index = load_parts(access.load).index;
      int vec_dim = -1;
      for (size_t dim = 0; dim < index.size(); ++dim) {
        for (const Node& node : topological_order(std::span(&index[dim], 1))) {
          if (node == walk.comp->axes[vec].axis) vec_dim = static_cast<int>(dim);
        }
      }
      if (index.size() < 2 || vec_dim < 0) continue;
      Stage stage{.buffer = access.buffer, .depth = stage_depth};
      const int64_t block = block_of(entry, static_cast<int>(vec), walk.extent(vec), size);
      stage.layout.push_back({vec_dim, ceil_div(block, size.columns()), 0});
      for (size_t dim = 0; dim < index.size(); ++dim) {
        if (static_cast<int>(dim) == vec_dim) continue;
        stage.layout.push_back(
            {static_cast<int>(dim), box_extent(walk, entry, index[dim], stage_depth), 0});
      }
      stage.layout.push_back({vec_dim, size.columns(), 0});
      entry.stages.push_back(std::move(stage));
      return;
    }
  }

  static int64_t block_of(const CompPlan& entry, int axis, int64_t extent, const TileSize& size) {
    for (const Part& part : entry.parts) {
      if (part.axis == axis && part.role == Role::kGrid) return part.step;
    }
    return round_up(extent, size.columns());
  }

  // Length of what an index runs through inside the stage's loop.
  static int64_t box_extent(const Walk& walk, const CompPlan& entry, const Node& index,
                            int stage_depth) {
    int64_t length = 1;
    for (size_t axis = 0; axis < walk.num_axes(); ++axis) {
      const std::vector<Node> nodes = topological_order(std::span(&index, 1));
      if (std::find(nodes.begin(), nodes.end(), walk.comp->axes[axis].axis) == nodes.end())
        continue;
      int64_t inner = walk.extent(axis);
      for (int i = 0; i < stage_depth; ++i) {
        const Part& part = entry.parts[static_cast<size_t>(i)];
        if (part.axis == static_cast<int>(axis)) inner = part.step;
      }
      length *= inner;
    }
    return length;
  }

  // The reduction along a contiguous red axis: vectors of partial sums.
  std::optional<Plan> dot() const {
    const Walk& walk = walks_[0];
    const Walk& last = walks_[1];
    const std::vector<size_t> consumer = consumer_axes();
    const size_t none = walk.num_axes();
    const size_t vec = contiguous_red_axis(walk);
    if (vec == none) return std::nullopt;
    int64_t lanes = lanes_of(walk, kernel_, target_);
    while (lanes > 1 && lanes > walk.extent(vec))
      lanes /= 2;
    if (lanes < 2) return std::nullopt;
    // Rows and columns of results at once: each operand vector is used by all of the other's.
    std::vector<size_t> tiles;
    for (size_t i = none; i-- > 0 && tiles.size() < 2;) {
      if (walk.is_red(i)) continue;
      if (consumer[i] == last.num_axes()) return std::nullopt;
      if (walk.extent(i) > 1) tiles.push_back(i);
    }
    constexpr int64_t kMaxTile = 4;
    const auto tile_of = [&](size_t axis) {
      const bool is_tiled = std::find(tiles.begin(), tiles.end(), axis) != tiles.end();
      return is_tiled ? std::min<int64_t>(walk.extent(axis), kMaxTile) : 1;
    };
    int64_t results = 1;
    for (const size_t axis : tiles)
      results *= tile_of(axis);
    const int64_t vectors = walk.extent(vec) / lanes;
    const int64_t unroll =
        std::clamp<int64_t>(std::min(vectors, int64_t{8} / std::min<int64_t>(results, 8)), 1, 8);
    CompPlan entry{.comp = walk.number, .how = How::kRoot};
    CompPlan after{.comp = last.number, .how = How::kAfter};
    std::vector<Part> loops;
    std::vector<Part> instances;
    int64_t groups = 1;
    const int64_t wanted = kGroupsPerThread * target_.threads;
    for (size_t i = 0; i < none; ++i) {
      if (walk.is_red(i)) continue;
      const int axis = static_cast<int>(i);
      const int64_t tile = tile_of(i);
      const int64_t blocks = ceil_div(walk.extent(i), tile);
      if (entry.parts.size() < kMaxGridDims && groups < wanted && blocks > 1) {
        const int64_t block = std::max<int64_t>(ceil_div(blocks * groups, wanted), 1) * tile;
        entry.parts.push_back({axis, Role::kGrid, block});
        if (block > tile) loops.push_back({axis, Role::kSeq, tile});
        groups *= ceil_div(walk.extent(i), block);
      } else {
        loops.push_back({axis, Role::kSeq, tile});
      }
      if (tile == 1) continue;
      instances.push_back({axis, Role::kUnroll, 1, Tail::kClamp});
      after.parts.push_back({static_cast<int>(consumer[i]), Role::kUnroll, 1});
    }
    entry.parts.insert(entry.parts.end(), loops.begin(), loops.end());
    entry.acc = Acc{.depth = entry.num_loops()};
    after.at = {walk.number, entry.num_loops()};
    add_red_parts(walk, vec, unroll, lanes, entry, std::move(instances));
    return Plan{{std::move(entry), std::move(after)}};
  }

  // The red axis along which some load is contiguous and none is gathered; the number of axes if
  // there is none.
  static size_t contiguous_red_axis(const Walk& walk) {
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (!walk.is_red(i) || walk.extent(i) < 2) continue;
      bool is_contiguous = false;
      bool is_good = true;
      for (const Access& access : walk.accesses) {
        if (access.is_store || !access.uses(i)) continue;
        is_contiguous = is_contiguous || access.strides[i] == 1;
        is_good = is_good && access.strides[i] == 1 && !access.is_irregular[i];
      }
      if (is_contiguous && is_good) return i;
    }
    return walk.num_axes();
  }

  // Loops over the other red axes, then the vec axis in steps of unrolled vectors.
  static void add_red_parts(const Walk& walk, size_t vec, int64_t unroll, int64_t lanes,
                            CompPlan& entry, std::vector<Part> instances) {
    const int axis = static_cast<int>(vec);
    for (size_t i = 0; i < walk.num_axes(); ++i) {
      if (walk.is_red(i) && i != vec) entry.parts.push_back({static_cast<int>(i), Role::kSeq, 1});
    }
    entry.parts.push_back({axis, Role::kSeq, unroll * lanes, Tail::kPeel});
    entry.parts.insert(entry.parts.end(), instances.begin(), instances.end());
    if (unroll > 1) entry.parts.push_back({axis, Role::kUnroll, lanes});
    entry.parts.push_back({axis, Role::kVec, 1});
  }

  const Kernel& kernel_;
  const Target& target_;
  std::vector<Walk> walks_;
};

}  // namespace

Plan choose_plan(const Kernel& kernel, const Target& target) {
  return Chooser(kernel, target).run();
}

}  // namespace tenon
