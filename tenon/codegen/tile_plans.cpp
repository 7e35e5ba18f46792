// SPDX-License-Identifier: MIT

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "tenon/codegen/plan_families.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/rules/affine.h"

namespace tenon {
namespace {

constexpr int64_t kMaxTileRows = 14;
constexpr int64_t kMaxTileVectors = 4;
constexpr size_t kMaxTiles = 3;
// Points of the reduction in one pass over the output, where it is cut; as few as rows that memory
// is asked for side by side where few rows read them.
constexpr int64_t kDepths[] = {1024, 256, 32, kRowsAtOnce};
// Rows that read a copy, from which it pays.
constexpr int64_t kMinReuse = 24;
// Places of an axis that a window slides along for which what is read is staged at once.
constexpr int64_t kWindows[] = {1, 4, 16};
// Points of a reduction that is unrolled whole, at most.
constexpr int64_t kMaxUnrolled = 16;

/// How tiles lie.
enum class TileForm : uint8_t {
  kAlong,   ///< vectors along what the output is contiguous along
  kAcross,  ///< along the columns of another operand; the output is written in transposed squares
  kWindow,  ///< as kAlong, for a few points that slide along an axis: all of them and several
            ///< places of the axis at once, so that places share what they read
};

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
  int64_t window = 1;       ///< of kWindows
};

class TilePlans {
 public:
  TilePlans(const PlanInput& input, TileForm form, std::vector<Candidate>& plans)
      : input_(input),
        target_(input.target),
        walk_(input.walks[0]),
        last_(input.walks[1]),
        none_(walk_.num_axes()),
        consumer_(consumer_axes(walk_, last_)),
        form_(form),
        vec_(none_),
        row_(none_),
        deep_(none_),
        plans_(plans) {}

  void run() {
    if (!find_axes()) return;
    const int64_t reuse = row_ == none_ ? 1 : walk_.extent(row_);
    if (must_stage_ && reuse < kMinReuse) return;
    for (const TileSize& size : sizes(reuse)) {
      for (const int64_t depth : depths(reuse)) {
        for (const bool has_stage : {true, false}) {
          const bool is_late = reuse < kMinReuse || is_window() || panel_ != 0;
          if (has_stage ? is_late : must_stage_) continue;
          for (const bool deals_rows : {false, true}) {
            if (deals_rows && row_ == none_) continue;
            for (const int64_t window : kWindows) {
              if (window == 1 || (has_stage && has_window_)) {
                add({size, depth, has_stage, deals_rows, window});
              }
            }
          }
        }
      }
    }
  }

 private:
  bool is_across() const { return form_ == TileForm::kAcross; }
  bool is_window() const { return form_ == TileForm::kWindow; }
  const Node& axis(size_t i) const { return walk_.comp->axes[i].axis; }

  bool find_axes() {
    size_t side = none_;
    for (size_t i = 0; i < none_; ++i) {
      if (walk_.is_red(i)) continue;
      if (consumer_[i] == last_.num_axes()) return false;
      if (last_.accesses[0].strides[consumer_[i]] == 1 && walk_.extent(i) > 1) side = i;
    }
    if (side == none_) return false;
    vec_ = is_across() ? crossing(side) : side;
    if (vec_ == none_) return false;
    lanes_ = std::min(walk_.lanes, last_.lanes);
    // Across pays where vectors along the output leave lanes empty, or gather what they read.
    const bool is_even = std::ranges::all_of(walk_.accesses, [&](const Access& access) {
      return access.is_store || !access.uses(side) || access.strides[side] == 1;
    });
    if (is_across() && is_even && walk_.extent(side) % lanes_ == 0) return false;
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
      if (access.is_packed) panel_ = panel_of(input_.kernel, access, axis(vec_));
      ++streams;
      must_stage_ = must_stage_ || access.strides[vec_] != 1;
    }
    if ((must_stage_ || is_across() || panel_ != 0) && streams != 1) return false;
    if (panel_ != 0 && form_ != TileForm::kAlong) return false;
    row_ = is_across() ? side : longest_row_axis();
    if (is_window() && row_ != none_) return false;
    red_points_ = 1;
    for (size_t i = 0; i < none_; ++i) {
      if (!walk_.is_red(i)) continue;
      red_points_ *= walk_.extent(i);
      if (deep_ == none_ || walk_.extent(i) > walk_.extent(deep_)) deep_ = i;
    }
    for (size_t i = 0; i < none_; ++i) {
      if (!slides(i)) continue;
      if (is_window()) row_ = i;
      has_window_ = has_window_ || !is_window();
    }
    return !is_window() || (row_ != none_ && red_points_ <= kMaxUnrolled);
  }

  // The longest par axis whose operands do not move with `side`; none_ if there is none.
  size_t crossing(size_t side) const {
    size_t found = none_;
    for (size_t i = 0; i < none_; ++i) {
      if (i == side || walk_.is_red(i) || !is_reused(i, side)) continue;
      const bool is_read = std::ranges::any_of(
          walk_.accesses, [&](const Access& access) { return !access.is_store && access.uses(i); });
      if (is_read && (found == none_ || walk_.extent(i) > walk_.extent(found))) found = i;
    }
    return found;
  }

  // Whether no operand moves with both.
  bool is_reused(size_t a, size_t b) const {
    return std::all_of(walk_.accesses.begin() + 1, walk_.accesses.end(),
                       [&](const Access& access) { return !access.uses(a) || !access.uses(b); });
  }

  // The longest par axis that operands along the vec axis do not move with.
  size_t longest_row_axis() const {
    size_t found = none_;
    for (size_t i = 0; i < none_; ++i) {
      if (i == vec_ || walk_.is_red(i) || walk_.extent(i) < 2 || !is_reused(i, vec_)) continue;
      if (found == none_ || walk_.extent(i) > walk_.extent(found)) found = i;
    }
    return found;
  }

  // Whether an operand moves with this axis and another in one dim.
  bool slides(size_t i) const {
    if (walk_.is_red(i) || i == vec_ || i == row_) return false;
    return std::ranges::any_of(walk_.accesses, [&](const Access& access) {
      if (access.is_store) return false;
      return std::ranges::any_of(load_parts(access.load).index, [&](const Node& index) {
        return index != axis(i) && uses_axis(index, axis(i));
      });
    });
  }

  // As many accumulators as registers hold beside one row of operands: the ratio of arithmetic to
  // loads is rows * vectors / (rows + vectors). The best few, one for each number of vectors.
  std::vector<TileSize> sizes(int64_t reuse) const {
    std::vector<std::pair<double, TileSize>> best;
    for (int64_t vectors = 1; vectors <= kMaxTileVectors; ++vectors) {
      std::pair<double, TileSize> found;
      if (panel_ != 0 && vectors * lanes_ != panel_) continue;
      for (int64_t rows = 1; rows <= std::min(reuse, kMaxTileRows); ++rows) {
        const int64_t operands = vectors + (is_window() ? red_points_ : 1);
        if (rows * vectors + operands > target_.vector_registers - 1) continue;
        const bool is_square =
            rows > 2 && rows <= lanes_ && std::has_single_bit(static_cast<uint64_t>(rows));
        if (is_across() && !is_square) continue;
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
  std::vector<int64_t> depths(int64_t reuse) const {
    if (deep_ == none_) return {1};
    const int64_t length = walk_.extent(deep_);
    std::vector<int64_t> depths{length};
    if (red_points_ != length || !can_carry_in_output(input_.kernel, walk_, last_)) return depths;
    for (const int64_t most : kDepths) {
      const bool is_for_few_rows = most == kRowsAtOnce;
      if (length <= most + most / 2 || (is_for_few_rows && reuse >= kMinReuse)) continue;
      depths.push_back(round_up(ceil_div(length, ceil_div(length, most)), kRowsAtOnce));
    }
    return depths;
  }

  /// What groups take, and loops around their tiles.
  struct Dealt {
    std::vector<Part> grid;
    std::vector<Part> outer;
    int64_t block = 1;  ///< columns of a group
  };

  // Other par axes first, then column blocks, then row blocks.
  Dealt deal(const TileOptions& options) const {
    const TileSize& size = options.size;
    const int64_t columns = walk_.extent(vec_);
    const int64_t rows = row_ == none_ ? 1 : walk_.extent(row_);
    const int64_t wanted = kGroupsPerThread * target_.threads;
    Dealt dealt;
    int64_t groups = 1;
    for (size_t i = 0; i < none_; ++i) {
      if (walk_.is_red(i) || i == vec_ || i == row_) continue;
      const int64_t window = slides(i) ? std::min(options.window, walk_.extent(i)) : 1;
      const int64_t count = ceil_div(walk_.extent(i), window);
      const bool is_dealt = count > 1 && dealt.grid.size() + 2 < kMaxGridDims;
      (is_dealt ? dealt.grid : dealt.outer)
          .push_back({static_cast<int>(i), is_dealt ? Role::kGrid : Role::kSeq, window});
      if (is_dealt) groups *= count;
    }
    int64_t band = round_up(rows, size.rows);
    const auto cut_rows = [&] {
      if (groups >= wanted || row_ == none_) return;
      band = even_block(rows, size.rows, ceil_div(wanted, groups), groups, target_);
      groups *= ceil_div(rows, band);
    };
    if (options.deals_rows) cut_rows();
    // A staged block of columns is to stay in half of the group's memory.
    const int64_t column_bytes =
        dtype_size_bytes(walk_.comp->value.dtype()) *
        (options.has_stage && !is_cut(options) ? red_points_ : options.depth);
    const int64_t most = std::max(target_.max_local_bytes / 2 / column_bytes, size.columns());
    const int64_t parts = std::max(ceil_div(wanted, groups), ceil_div(columns, most));
    dealt.block = even_block(columns, size.columns(), parts, groups, target_);
    groups *= ceil_div(columns, dealt.block);
    if (!options.deals_rows) cut_rows();
    if (row_ != none_ && band < rows) {
      dealt.grid.push_back({static_cast<int>(row_), Role::kGrid, band});
    }
    dealt.grid.push_back({static_cast<int>(vec_), Role::kGrid, dealt.block});
    return dealt;
  }

  bool is_cut(const TileOptions& options) const {
    return deep_ != none_ && options.depth < walk_.extent(deep_);
  }

  void add(const TileOptions& options) {
    const TileSize& size = options.size;
    const auto [grid, outer, block] = deal(options);
    CompPlan entry{.comp = walk_.number, .how = How::kRoot};
    entry.parts = grid;
    const auto add = [&](size_t i, Role role, int64_t step, Tail tail = Tail::kNone) {
      const int axis = static_cast<int>(i);
      const bool is_known = std::ranges::any_of(
          entry.parts, [&](const Part& part) { return part.axis == axis && part.step == step; });
      if (i != none_ && !is_known) entry.parts.push_back({axis, role, step, tail});
    };
    const auto add_reds = [&](Role role) {
      for (size_t i = 0; i < none_; ++i) {
        if (walk_.is_red(i)) add(i, role, 1);
      }
    };
    entry.parts.insert(entry.parts.end(), outer.begin(), outer.end());
    if (panel_ != 0) add(vec_, Role::kSeq, size.columns());  // panels in the order of memory
    if (is_cut(options)) add(deep_, Role::kSeq, options.depth);
    const int stage_depth = static_cast<int>(entry.parts.size());
    const auto add_tile = [&](bool is_vec) {
      add(is_vec ? vec_ : row_, Role::kSeq, is_vec ? size.columns() : size.rows);
    };
    add_tile(is_across());
    for (size_t i = 0; i < none_; ++i) {
      if (slides(i)) add(i, Role::kSeq, 1);
    }
    add_tile(!is_across());
    const int acc_depth = static_cast<int>(entry.parts.size());
    if (is_window()) {
      // A vector's rows and points follow each other: they share its loads.
      if (size.vectors > 1) add(vec_, Role::kUnroll, size.lanes);
      add(row_, Role::kUnroll, 1, Tail::kClamp);
      add_reds(Role::kUnroll);
    } else {
      add_reds(Role::kSeq);
      add(row_, Role::kUnroll, 1, Tail::kClamp);
      if (size.vectors > 1) add(vec_, Role::kUnroll, size.lanes);
    }
    add(vec_, Role::kVec, 1);
    entry.acc = Acc{.depth = acc_depth, .has_partials = !is_window()};
    if (is_cut(options)) entry.acc->carry_in = last_.comp->dst;
    if (options.has_stage && !stage_operands(size, stage_depth, block, entry)) return;

    CompPlan after{.comp = last_.number, .how = How::kAfter};
    after.at = {walk_.number, acc_depth};
    const auto add_after = [&](size_t i, Role role, int64_t step) {
      after.parts.push_back({static_cast<int>(consumer_[i]), role, step});
    };
    if (is_across()) {
      // In squares, which are read along the vectors and written across.
      add_after(vec_, Role::kUnroll, size.rows);
      add_after(vec_, Role::kUnroll, 1);
      add_after(row_, Role::kVec, 1);
    } else {
      if (row_ != none_ && size.rows > 1) add_after(row_, Role::kUnroll, 1);
      if (size.vectors > 1) add_after(vec_, Role::kUnroll, size.lanes);
      add_after(vec_, Role::kVec, 1);
    }
    plans_.push_back({{{std::move(entry), std::move(after)}}, "tile"});
  }

  // The operand along the vec axis, where it has no gate or must be, and all that have one, so that
  // the innermost loop has none. False: there is none that can be copied.
  bool stage_operands(const TileSize& size, int stage_depth, int64_t block, CompPlan& entry) const {
    for (const Access& access : walk_.accesses) {
      if (access.is_store || !(access.is_gated || access.uses(vec_))) continue;
      const bool is_known = std::ranges::any_of(
          entry.stages, [&](const Stage& stage) { return stage.buffer == access.buffer; });
      if (is_known) continue;
      if (!stage_operand(access, size, stage_depth, block, entry)) return false;
    }
    return !entry.stages.empty();
  }

  // In panels of the tile's columns where a dim runs along the vec axis alone, else as it lies.
  bool stage_operand(const Access& access, const TileSize& size, int stage_depth, int64_t block,
                     CompPlan& entry) const {
    const std::span<const Node> index = load_parts(access.load).index;
    // Outside of loops that do not move it.
    const auto moves = [&](const Part& part) {
      return part.role == Role::kGrid || access.uses(static_cast<size_t>(part.axis));
    };
    while (stage_depth > 0 && !moves(entry.parts[static_cast<size_t>(stage_depth - 1)]))
      --stage_depth;
    Stage stage{.buffer = access.buffer, .depth = stage_depth};
    int64_t bytes = dtype_size_bytes(access.load.dtype());
    const auto add = [&](size_t dim, int64_t length) {
      stage.layout.push_back({static_cast<int>(dim), length, 0});
      bytes *= length;
    };
    const size_t vec_dim =
        static_cast<size_t>(std::ranges::find(index, axis(vec_)) - index.begin());
    const bool has_panels = index.size() > 1 && vec_dim < index.size();
    if (has_panels) add(vec_dim, ceil_div(block, size.columns()));
    for (size_t dim = 0; dim < index.size(); ++dim) {
      if (!has_panels || dim != vec_dim) {
        add(dim, staged_extent(walk_, index[dim], entry, stage_depth));
      }
    }
    if (has_panels) add(vec_dim, size.columns());
    if (!has_panels) stage.layout.clear();
    entry.stages.push_back(std::move(stage));
    return bytes > 0 && bytes <= target_.max_local_bytes;
  }

  const PlanInput& input_;
  const Target& target_;
  const Walk& walk_;
  const Walk& last_;
  const size_t none_;
  const std::vector<size_t> consumer_;
  const TileForm form_;
  size_t vec_;
  size_t row_;   // reuses the operands along the vec axis
  size_t deep_;  // the longest red axis
  int64_t red_points_ = 1;
  int64_t lanes_ = 1;
  int64_t panel_ = 0;  // columns of a tile, where the operand along them is packed
  bool must_stage_ = false;
  bool has_window_ = false;  // an axis slides
  std::vector<Candidate>& plans_;
};

}  // namespace

std::vector<size_t> consumer_axes(const Walk& comp, const Walk& last) {
  std::vector<size_t> result(comp.num_axes(), last.num_axes());
  for (const Access& access : last.accesses) {
    if (access.is_store || access.buffer != comp.comp->dst) continue;
    const std::span<const Node> index = load_parts(access.load).index;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      for (size_t i = 0; i < comp.num_axes(); ++i) {
        if (comp.comp->index[dim] != comp.comp->axes[i].axis) continue;
        for (size_t k = 0; k < last.num_axes(); ++k) {
          if (last.comp->axes[k].axis == index[dim]) result[i] = k;
        }
      }
    }
  }
  return result;
}

bool can_carry_in_output(const Kernel& kernel, const Walk& reduction, const Walk& last) {
  int loads = 0;
  for (const Access& access : last.accesses) {
    const bool is_read = !access.is_store && access.buffer == reduction.comp->dst;
    if (is_read) loads += access.is_gated ? 2 : 1;
  }
  const BufferDecl& out = kernel.buffers[static_cast<size_t>(last.comp->dst)];
  return out.dtype == reduction.comp->value.dtype() && loads == 1 &&
         last.points() == num_elements(out.dims);
}

int64_t staged_extent(const Walk& walk, const Node& index, const CompPlan& entry, int num_loops) {
  StructuralOrder order;
  const auto form = to_affine(index, order);
  if (!form) return 0;
  const auto places_of = [&](size_t axis) {
    int64_t inner = walk.extent(axis);
    int64_t step = 1;
    for (size_t part = 0; part < entry.parts.size(); ++part) {
      if (entry.parts[part].axis != static_cast<int>(axis)) continue;
      if (static_cast<int>(part) < num_loops) inner = entry.parts[part].step;
      if (static_cast<int>(part) >= num_loops) step = std::max(step, entry.parts[part].step);
    }
    return round_up(inner, step);
  };
  int64_t length = 1;
  for (const AffineTerm& term : form->terms) {
    for (const Node& node : topological_order(std::span(&term.node, 1))) {
      size_t i = 0;
      while (i < walk.num_axes() && walk.comp->axes[i].axis != node)
        ++i;
      if (node.op() == Op::kLoad) return 0;
      if (i == walk.num_axes() || places_of(i) == 1) continue;  // one place of h/4
      if (node != term.node) return 0;
      length += std::abs(term.coefficient) * (places_of(i) - 1);
    }
  }
  return length;
}

void add_tile_plans(const PlanInput& input, std::vector<Candidate>& plans) {
  for (const TileForm form : {TileForm::kAlong, TileForm::kAcross, TileForm::kWindow})
    TilePlans(input, form, plans).run();
}

}  // namespace tenon
