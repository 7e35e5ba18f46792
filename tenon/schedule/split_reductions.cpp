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
// Results that lie side by side are computed together.
constexpr int64_t kNeighbours = 64;

int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// The reduced axes of a reduction, cut: each one stays whole, becomes pieces, or is kept as
/// results of its own.
class Splitter {
 public:
  Splitter(const Node& node, const Node& source) : node_(node), source_(source) {}

  std::optional<Node> run(int threads) {
    const ShapeView shape = source_.shape();
    const int64_t results = num_elements(node_.shape());
    const int64_t elements = num_elements(shape);
    if (elements < kMinElements || results == 0) return std::nullopt;
    const int64_t spots = ceil_div(results, neighbours());
    if (spots >= kEnoughPerThread * threads) return std::nullopt;
    const int64_t wanted = std::min(ceil_div(kResultsPerThread * threads, spots),
                                    elements / results / kMinPieceElements);
    if (wanted < 2) return std::nullopt;
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

  // Outer axes first, so that a piece is one stretch of memory.
  Node cut(int64_t wanted) const {
    const DType accumulator = reduce_accumulator(node_);
    const Op op = reduce_op(node_);
    const ShapeView shape = source_.shape();
    Shape pieces;                // shape of the source with each cut axis as (pieces, piece)
    std::vector<int64_t> inner;  // axes of `pieces` that the first reduction takes
    std::vector<int64_t> outer;  // and the second
    std::vector<int64_t> after(shape.size(), 0);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const int64_t extent = shape[axis];
      if (!is_reduced(axis) || wanted == 1 || extent == 1) {
        if (is_reduced(axis)) inner.push_back(static_cast<int64_t>(pieces.size()));
        pieces.push_back(extent);
        continue;
      }
      outer.push_back(static_cast<int64_t>(pieces.size()));
      const int64_t count = extent <= wanted ? extent : pieces_of(extent, wanted);
      const int64_t piece = piece_of(extent, count);
      after[axis] = count * piece - extent;
      pieces.push_back(count);
      if (piece > 1) {
        inner.push_back(static_cast<int64_t>(pieces.size()));
        pieces.push_back(piece);
      }
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
    const Node total = tensor_reduce(op, partial, outer, accumulator);
    const Node result = tensor_reshape(total, node_.shape());
    return result.dtype() == node_.dtype() ? result : tensor_cast(result, node_.dtype());
  }

  const Node& node_;
  const Node& source_;
};

}  // namespace

std::unordered_map<const void*, Node> split_reductions(
    std::span<const Node> order, const std::function<bool(const Node&)>& is_given,
    const StoreChoice& choice, int threads) {
  std::unordered_map<const void*, Node> changed;
  if (threads < 2) return changed;
  for (const Node& node : order) {
    if (is_given(node)) continue;
    std::vector<Node> srcs(node.srcs().begin(), node.srcs().end());
    bool is_changed = false;
    for (Node& src : srcs) {
      const auto replaced = changed.find(src.id());
      if (replaced == changed.end()) continue;
      src = replaced->second;
      is_changed = true;
    }
    if (node.op() == Op::kReduce && !choice.is_tmp(node)) {
      if (auto split = Splitter(node, srcs[0]).run(threads)) {
        changed.emplace(node.id(), std::move(*split));
        continue;
      }
    }
    if (is_changed) changed.emplace(node.id(), rebuild_tensor_node(node, srcs));
  }
  return changed;
}

}  // namespace tenon
