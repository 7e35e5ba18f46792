// The shrinker: a greedy walk over simpler graphs. SPDX-License-Identifier: MIT

#include "tenon/conform/graph_shrink.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

constexpr int64_t kNoDim = -1;

using Replacements = std::unordered_map<const void*, Node>;

// The inputs that the outputs need, in the old order; nodes that became buffers go last.
void collect_inputs(const TensorGraph& old, TensorGraph& graph, const Replacements& done,
                    const std::string& suffix) {
  const std::vector<Node> order = topological_order(graph.outputs);
  std::vector<Node> buffers;
  for (const Node& node : order) {
    if (node.op() == Op::kBuffer) buffers.push_back(node);
  }
  std::set<std::string> names;
  for (size_t i = 0; i < old.inputs.size(); ++i) {
    const auto found = done.find(old.inputs[i].id());
    const Node node = found == done.end() ? old.inputs[i] : found->second;
    if (std::erase(buffers, node) == 0) continue;
    graph.inputs.push_back(node);
    graph.input_names.push_back(old.input_names[i]);
    names.insert(old.input_names[i]);
  }
  for (const Node& buffer : buffers) {
    int64_t number = 0;
    while (!names.insert(concat("s", number, suffix)).second)
      ++number;
    graph.inputs.push_back(buffer);
    graph.input_names.push_back(concat("s", number, suffix));
  }
}

Shape replaced(ShapeView shape, int64_t from, int64_t to) {
  Shape result(shape.begin(), shape.end());
  std::ranges::replace(result, from, to);
  return result;
}

// What the reshape `node` becomes on a source of new size: groups of source and result dims with
// equal products keep belonging together; where sizes no longer fit, the first result dim of the
// group takes all.
Shape fitted_reshape(const Node& node, ShapeView new_source, int64_t from, int64_t to) {
  const ShapeView source = node.src(0).shape();
  const ShapeView old = node.shape();
  Shape shape = replaced(old, from, to);
  if (source.size() != new_source.size()) return {num_elements(new_source)};
  size_t i = 0;
  size_t j = 0;
  while (i < source.size() || j < old.size()) {
    const size_t first = j;
    int64_t source_product = 1;
    int64_t product = 1;
    int64_t new_product = 1;
    do {
      const bool takes_source = j == old.size() || (i < source.size() && source_product <= product);
      if (takes_source) {
        new_product *= new_source[i];
        source_product *= source[i++];
      } else {
        product *= old[j++];
      }
    } while (source_product != product && (i < source.size() || j < old.size()));
    if (first == j || num_elements(ShapeView(shape).subspan(first, j - first)) == new_product) {
      continue;
    }
    std::fill(shape.begin() + static_cast<std::ptrdiff_t>(first),
              shape.begin() + static_cast<std::ptrdiff_t>(j), 1);
    shape[first] = new_product;
  }
  return shape;
}

Shape fitted_expand(const Node& node, ShapeView new_source, int64_t from, int64_t to) {
  Shape shape = replaced(node.shape(), from, to);
  if (shape.size() != new_source.size()) return shape;  // the builder refuses it
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (node.src(0).shape()[axis] == node.shape()[axis]) shape[axis] = new_source[axis];
  }
  return shape;
}

// The node with every dim `from` made `to`, on sources that have it already.
Node resize(const Node& node, std::span<const Node> srcs, int64_t from, int64_t to) {
  const Shape shape = replaced(node.shape(), from, to);
  if (node.op() == Op::kBuffer && std::ranges::equal(shape, node.shape())) return node;
  if (node.op() == Op::kBuffer) return tensor_buffer(node.dtype(), shape);
  if (node.op() == Op::kIndex) return tensor_index(node.dtype(), shape, node.attr(0));
  if (node.op() == Op::kReshape) {
    return tensor_reshape(srcs[0], fitted_reshape(node, srcs[0].shape(), from, to));
  }
  if (node.op() == Op::kExpand) {
    return tensor_expand(srcs[0], fitted_expand(node, srcs[0].shape(), from, to));
  }
  if (node.op() == Op::kShrink && srcs[0].shape().size() == node.shape().size()) {
    const ShapeView dims = srcs[0].shape();
    std::vector<int64_t> begin(node.attr().begin(), node.attr().begin() + std::ssize(dims));
    std::vector<int64_t> end(node.attr().begin() + std::ssize(dims), node.attr().end());
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      end[axis] = std::min(end[axis], dims[axis]);
      begin[axis] = std::min(begin[axis], end[axis]);
    }
    return tensor_shrink(srcs[0], begin, end);
  }
  return rebuild_tensor_node(node, srcs);
}

// The graph with some nodes replaced and every dim `from` made `to` (kNoDim: none), the other nodes
// fitted to what their sources became; nothing if the result is no sound graph.
std::optional<TensorGraph> with_replacements(const TensorGraph& graph, const std::string& suffix,
                                             Replacements done, int64_t from = kNoDim,
                                             int64_t to = kNoDim) {
  try {
    for (const Node& node : topological_order(graph.outputs)) {
      if (done.contains(node.id())) continue;
      std::vector<Node> srcs;
      for (const Node& src : node.srcs())
        srcs.push_back(done.at(src.id()));
      done.emplace(node.id(), resize(node, srcs, from, to));
    }
  } catch (const Error&) {
    return std::nullopt;
  }
  TensorGraph result;
  result.name = graph.name;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const Node& output = done.at(graph.outputs[i].id());
    if (std::ranges::find(result.outputs, output) != result.outputs.end()) continue;
    result.outputs.push_back(output);
    result.output_names.push_back(graph.output_names[i]);
  }
  collect_inputs(graph, result, done, suffix);
  return result;
}

TensorGraph with_outputs(const TensorGraph& graph, const std::string& suffix,
                         std::vector<Node> outputs) {
  TensorGraph result;
  result.name = graph.name;
  for (size_t i = 0; i < outputs.size(); ++i)
    result.output_names.push_back(concat("y", i));
  result.outputs = std::move(outputs);
  collect_inputs(graph, result, {}, suffix);
  return result;
}

class Shrinker {
 public:
  Shrinker(TensorGraph graph, const std::function<bool(const TensorGraph&)>& still_fails,
           const ShrinkOptions& options)
      : graph_(std::move(graph)),
        still_fails_(still_fails),
        options_(options),
        trials_left_(options.max_trials) {}

  TensorGraph run() {
    bool changed = true;
    if (options_.has_dims_first) reduce_dims();
    while (changed && trials_left_ > 0) {
      changed = drop_outputs();
      changed = cut_above() || changed;
      changed = drop_nodes() || changed;
      changed = reduce_dims() || changed;
    }
    return graph_;
  }

 private:
  bool accept(std::optional<TensorGraph> candidate) {
    if (!candidate || trials_left_ <= 0) return false;
    --trials_left_;
    if (!still_fails_(*candidate)) return false;
    graph_ = std::move(*candidate);
    return true;
  }

  bool drop_outputs() {
    if (graph_.outputs.size() < 2) return false;
    const std::vector<Node> outputs = graph_.outputs;
    for (const Node& output : outputs) {
      if (accept(with_outputs(graph_, options_.suffix, {output}))) return true;
    }
    for (size_t i = 0; i < outputs.size() && outputs.size() > 2; ++i) {
      std::vector<Node> others = outputs;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
      if (accept(with_outputs(graph_, options_.suffix, std::move(others)))) return true;
    }
    return false;
  }

  // An early node as the only output: the first that fails.
  bool cut_above() {
    for (const Node& node : topological_order(graph_.outputs)) {
      if (node.srcs().empty()) continue;
      if (graph_.outputs.size() == 1 && node == graph_.outputs[0]) return false;
      if (accept(with_outputs(graph_, options_.suffix, {node}))) return true;
    }
    return false;
  }

  // Late nodes first, since they take most with them: replaced by a source of the same kind, else
  // by an input. Movement may give way to a source of another shape.
  bool drop_nodes() {
    bool changed = false;
    std::vector<Node> order = topological_order(graph_.outputs);
    for (size_t i = order.size(); i-- > 0;) {
      if (order[i].srcs().empty() || !drop_node(order[i])) continue;
      changed = true;
      order = topological_order(graph_.outputs);
      i = std::min(i + 1, order.size());
    }
    return changed;
  }

  bool drop_node(const Node& node) {
    for (const Node& src : node.srcs()) {
      const bool is_same_kind =
          src.dtype() == node.dtype() &&
          (is_movement(node.op()) || std::ranges::equal(src.shape(), node.shape()));
      if (is_same_kind && accept(with_replacements(graph_, options_.suffix, {{node.id(), src}})))
        return true;
    }
    const bool is_output = std::ranges::find(graph_.outputs, node) != graph_.outputs.end();
    if (is_output) return false;  // an input that is an output fails in its own way
    return accept(with_replacements(graph_, options_.suffix,
                                    {{node.id(), tensor_buffer(node.dtype(), node.shape())}}));
  }

  bool reduce_dims() {
    std::set<int64_t> dims;
    for (const Node& node : topological_order(graph_.outputs))
      dims.insert(node.shape().begin(), node.shape().end());
    bool changed = false;
    for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
      for (const int64_t smaller : {int64_t{1}, int64_t{2}, *dim / 2, *dim - 1}) {
        if (smaller < 1 || smaller >= *dim) continue;
        if (accept(with_replacements(graph_, options_.suffix, {}, *dim, smaller))) {
          changed = true;
          break;
        }
      }
    }
    return changed;
  }

  TensorGraph graph_;
  const std::function<bool(const TensorGraph&)>& still_fails_;
  const ShrinkOptions& options_;
  int trials_left_;
};

}  // namespace

TensorGraph shrink_graph(const TensorGraph& graph,
                         const std::function<bool(const TensorGraph&)>& still_fails,
                         const ShrinkOptions& options) {
  return Shrinker(graph, still_fails, options).run();
}

}  // namespace tenon
