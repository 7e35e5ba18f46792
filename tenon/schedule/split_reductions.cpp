// SPDX-License-Identifier: MIT

#include "tenon/schedule/split_reductions.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

// Elements from which a second kernel is little against what the threads gain.
constexpr int64_t kMinElements = 1 << 18;
// Elements that a piece has at least, so that what is stored of it is nothing against it.
constexpr int64_t kMinPieceElements = 1 << 12;
// Results that keep a thread busy: groups to even out their times, several rows in each.
constexpr int64_t kResultsPerThread = 16;
// From here on results are dealt evenly enough as they are.
constexpr int64_t kEnoughPerThread = 4;
// With fewer threads nothing changes, so that machines of that size have equal results.
constexpr int64_t kMinThreads = 16;
// Results that lie side by side are computed together.
constexpr int64_t kNeighbours = 64;
// Fewer than these lie side by side: so many rows of them are taken for one line.
constexpr int64_t kLine = 16;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// The value lies in memory as it is read, as far as that is known: elementwise ops of given values.
bool is_in_order(const Node& value, const std::function<bool(const Node&)>& is_given) {
  std::vector<Node> todo{value};
  std::unordered_set<const void*> seen;
  while (!todo.empty()) {
    const Node node = std::move(todo.back());
    todo.pop_back();
    if (is_given(node) || !seen.insert(node.id()).second) continue;
    const bool is_number = num_elements(node.shape()) == 1 ||
                           (node.op() == Op::kExpand && num_elements(node.src(0).shape()) == 1);
    if (is_number) continue;
    if (!is_elementwise(node.op())) return false;
    todo.insert(todo.end(), node.srcs().begin(), node.srcs().end());
  }
  return true;
}

struct Cut {
  Node partial;  ///< results of the pieces, stored
  Node result;   ///< what takes the place of the reduction
};

/// The reduced axes of a reduction, cut: each one stays whole, becomes pieces, or is kept as
/// results of its own.
class Splitter {
 public:
  Splitter(const Node& node, const Node& source, const std::function<bool(const Node&)>& is_given)
      : node_(node), source_(source), is_given_(is_given) {}

  // Nothing if it stays whole.
  std::optional<Cut> run(int most_threads) {
    const int64_t threads = std::max<int64_t>(most_threads, kMinThreads);
    const ShapeView shape = source_.shape();
    const int64_t results = num_elements(node_.shape());
    const int64_t elements = num_elements(shape);
    if (elements < kMinElements || results == 0) return std::nullopt;
    const int64_t spots = ceil_div(results, neighbours());
    if (spots >= kEnoughPerThread * threads) return std::nullopt;
    const int64_t wanted = std::min(ceil_div(kResultsPerThread * threads, spots),
                                    elements / results / kMinPieceElements);
    if (wanted < 2) return std::nullopt;
    find_lines();
    return cut(wanted);
  }

 private:
  bool is_reduced(size_t axis) const {
    return std::ranges::count(reduce_axes(node_), static_cast<int64_t>(axis)) > 0;
  }

  // Results that one walk along the memory gives: those of the innermost axis, if it stays.
  int64_t neighbours() const {
    const ShapeView shape = source_.shape();
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (shape[axis] > 1) return is_reduced(axis) ? 1 : std::min(shape[axis], kNeighbours);
    }
    return 1;
  }

  // Pieces of an axis: their number divides the axis, if one of about that size does.
  static int64_t pieces_of(int64_t extent, int64_t wanted) {
    for (int64_t count = wanted; count <= 2 * wanted; ++count) {
      if (extent % count == 0) return count;
    }
    return ceil_div(extent, piece_of(extent, wanted));
  }

  static int64_t piece_of(int64_t extent, int64_t count) {
    if (extent % count == 0) return extent / count;
    const int64_t piece = ceil_div(extent, count);
    return piece <= kNeighbours ? piece : ceil_div(piece, kNeighbours) * kNeighbours;
  }

  // A reduced axis and a short one that stays, side by side.
  void find_lines() {
    const ShapeView shape = source_.shape();
    std::vector<size_t> wide;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] > 1) wide.push_back(axis);
    }
    if (wide.size() < 2 || is_reduced(wide.back()) || !is_reduced(wide[wide.size() - 2])) return;
    const bool is_short = shape[wide.back()] < kLine && shape[wide[wide.size() - 2]] >= kLine;
    if (!is_short || !is_in_order(source_, is_given_)) return;
    lined_ = wide[wide.size() - 2];
    last_ = wide.back();
  }

  // Outer axes first, so that a piece is one stretch of memory.
  Cut cut(int64_t wanted) const {
    const DType accumulator = reduce_accumulator(node_);
    const Op op = reduce_op(node_);
    const ShapeView shape = source_.shape();
    Shape pieces;                // shape of the source with each cut axis as (pieces, piece)
    std::vector<int64_t> inner;  // axes of `pieces` that the first reduction takes
    Shape results;               // its result, with lines as (rows, row)
    std::vector<int64_t> outer;  // axes of `results` that the second reduction takes
    std::vector<int64_t> after(shape.size(), 0);
    const auto reduce = [&](int64_t extent) {
      inner.push_back(static_cast<int64_t>(pieces.size()));
      pieces.push_back(extent);
    };
    const auto keep = [&](int64_t extent, bool is_partial) {
      if (is_partial) outer.push_back(static_cast<int64_t>(results.size()));
      results.push_back(extent);
    };
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const int64_t extent = shape[axis];
      const bool is_lined = axis == lined_;
      if (!is_reduced(axis) || extent == 1) {
        const bool is_line = axis == last_;
        pieces.push_back(is_line ? kLine * extent : extent);
        if (is_line) keep(kLine, true);
        keep(extent, false);
        continue;
      }
      const int64_t count = extent <= wanted ? extent : pieces_of(extent, wanted);
      int64_t piece = piece_of(extent, count);
      if (is_lined) piece = ceil_div(piece, kLine) * kLine;
      after[axis] = count * piece - extent;
      pieces.push_back(count);
      keep(count, true);
      reduce(is_lined ? piece / kLine : piece);
      keep(1, false);
      wanted = std::max<int64_t>(wanted / count, 1);
    }
    Node value = source_;
    if (value.dtype() != accumulator) value = tensor_cast(value, accumulator);
    if (std::ranges::any_of(after, [](int64_t count) { return count > 0; })) {
      const std::vector<int64_t> before(shape.size(), 0);
      value = tensor_pad(value, before, after, const_bits(identity_of(op, accumulator)));
    }
    value = tensor_reshape(value, pieces);
    const Node partial = tensor_contiguous(tensor_reduce(op, value, inner, accumulator));
    const Node total = tensor_reduce(op, tensor_reshape(partial, results), outer, accumulator);
    const Node result = tensor_reshape(total, node_.shape());
    return {partial, result.dtype() == node_.dtype() ? result : tensor_cast(result, node_.dtype())};
  }

  static constexpr size_t kNone = SIZE_MAX;

  const Node& node_;
  const Node& source_;
  const std::function<bool(const Node&)>& is_given_;
  size_t lined_ = kNone;  // reduced, but for lines of some rows of axis `last_`
  size_t last_ = kNone;
};

}  // namespace

SplitReductions split_reductions(std::span<const Node> order,
                                 const std::function<bool(const Node&)>& is_given,
                                 const StoreChoice& choice, int threads) {
  SplitReductions result;
  for (const Node& node : order) {
    if (is_given(node)) continue;
    std::vector<Node> srcs(node.srcs().begin(), node.srcs().end());
    bool is_changed = false;
    for (Node& src : srcs) {
      const auto replaced = result.changed.find(src.id());
      if (replaced == result.changed.end()) continue;
      src = replaced->second;
      is_changed = true;
    }
    if (node.op() == Op::kReduce && !choice.is_tmp(node)) {
      if (const auto cut = Splitter(node, srcs[0], is_given).run(threads)) {
        result.partials.insert(cut->partial.id());
        result.changed.emplace(node.id(), cut->result);
        continue;
      }
    }
    if (is_changed) result.changed.emplace(node.id(), rebuild_tensor_node(node, srcs));
  }
  return result;
}

}  // namespace tenon
