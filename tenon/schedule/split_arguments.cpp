// SPDX-License-Identifier: MIT

#include "tenon/schedule/split_arguments.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tenon {
namespace {

using Ids = std::vector<const void*>;  // each once, in the order of reading

void add_ids(Ids& ids, const Ids& more) {
  for (const void* id : more) {
    if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  }
}

class Splitter {
 public:
  Splitter(const std::function<bool(const Node&)>& is_given, const StoreChoice& choice,
           size_t max_inputs)
      : is_given_(is_given), choice_(choice), max_inputs_(max_inputs) {}

  void split(const Node& kernel) {
    const std::vector<Node> inside = nodes_inside(kernel);
    if (num_inputs_ <= max_inputs_) return;
    inputs_.clear();
    for (const Node& node : inside)
      inputs_.emplace(node.id(), inputs_of(node));
  }

  std::vector<Node> take() { return std::move(to_store_); }

 private:
  bool is_stored(const Node& node) const {
    return is_given_(node) || choice_.has(node) || cut_.contains(node.id());
  }

  // What the kernel computes, sources before users; counts what it reads.
  std::vector<Node> nodes_inside(const Node& kernel) {
    num_inputs_ = 0;
    std::vector<Node> inside;
    std::unordered_set<const void*> seen{kernel.id()};
    std::vector<std::pair<Node, size_t>> stack{{kernel, 0}};
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next < node.srcs().size()) {
        const Node src = node.src(next++);
        if (!seen.insert(src.id()).second) continue;
        if (is_stored(src)) {
          ++num_inputs_;
        } else {
          stack.emplace_back(src, 0);
        }
        continue;
      }
      inside.push_back(node);
      stack.pop_back();
    }
    return inside;
  }

  // Movement of a value costs nothing where it is read, so the value is what is stored.
  Node value_of(Node node) const {
    while (is_movement(node.op()) && !is_stored(node))
      node = node.src(0);
    return node;
  }

  Ids inputs_of(const Node& node) {
    while (true) {
      Ids ids;
      Node widest;
      size_t most = 1;
      for (const Node& src : node.srcs()) {
        const Node value = value_of(src);
        if (is_stored(value)) {
          add_ids(ids, {value.id()});
          continue;
        }
        const Ids& theirs = inputs_.at(value.id());
        add_ids(ids, theirs);
        if (theirs.size() > most) {
          widest = value;
          most = theirs.size();
        }
      }
      if (ids.size() <= max_inputs_ || !widest) return ids;
      cut_.insert(widest.id());
      to_store_.push_back(widest);
    }
  }

  const std::function<bool(const Node&)>& is_given_;
  const StoreChoice& choice_;
  const size_t max_inputs_;
  size_t num_inputs_ = 0;
  std::unordered_map<const void*, Ids> inputs_;  // of the kernel under way, by node inside
  std::unordered_set<const void*> cut_;
  std::vector<Node> to_store_;
};

}  // namespace

std::vector<Node> values_to_store(std::span<const Node> order,
                                  const std::function<bool(const Node&)>& is_given,
                                  const StoreChoice& choice, int max_arguments) {
  Splitter splitter(is_given, choice, static_cast<size_t>(std::max(max_arguments - 1, 0)));
  for (const Node& node : order) {
    if (!is_given(node) && choice.has(node) && node.op() != Op::kCopy) splitter.split(node);
  }
  return splitter.take();
}

}  // namespace tenon
