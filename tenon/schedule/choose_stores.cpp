// The rules of storing, and the views ("contexts") through which each node is read.
// SPDX-License-Identifier: MIT

#include "tenon/schedule/choose_stores.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/text.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

// Costs in elementary operations for each element. A store and a load of an intermediate cost about
// eight (12 bytes of traffic at the ratio of arithmetic to memory speed of current CPUs).
constexpr int64_t kRecomputeCost = 8;
constexpr int64_t kBoundedOpCost = 10;  // of the order of the steps that exp and log decompose into
constexpr int64_t kDivisionCost = 4;    // divisions and roots are not pipelined as sums are
// A reduction is as long as its axes; it counts as too much to compute twice, however short.
constexpr int64_t kReductionCost = 1000;
constexpr int64_t kMaxCost = 1'000'000;  // sums of products of costs stay far from overflow
// Views through which one node may be read inside kernels before it gets memory of its own; bounds
// the growth of expressions when views of one value meet again and again.
constexpr size_t kMaxContexts = 8;
// Depth of one kernel's expression; bounds the size of a kernel for endless elementwise chains.
constexpr int64_t kMaxDepth = 256;

/// One way in which a kernel reads a node: the kernel (its stored node) and the movement between.
struct Context {
  const void* kernel = nullptr;
  uint64_t view = 0;          // hash of the movement ops from the kernel's output to here
  int64_t repeats = 1;        // times an element is computed over again
  bool in_reduction = false;  // read inside a reduction of the kernel
  bool is_one_to_one = true;  // each element is read once at most, never behind a pad
  bool operator==(const Context&) const = default;
};

using Contexts = std::vector<Context>;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15U + (hash << 6) + (hash >> 2);
  return hash * 0xff51afd7ed558ccdU;
}

uint64_t view_hash(uint64_t outer, const Node& movement) {
  uint64_t hash = mix(outer, static_cast<uint64_t>(movement.op()) + 1);
  for (int64_t dim : movement.shape())
    hash = mix(hash, static_cast<uint64_t>(dim));
  for (int64_t dim : movement.src(0).shape())
    hash = mix(hash, static_cast<uint64_t>(dim));
  for (int64_t value : movement.attr())
    hash = mix(hash, static_cast<uint64_t>(value));
  return hash;
}

// How often a movement op reads an element of its source, on average, rounded up.
int64_t repeats_of(const Node& movement) {
  const int64_t source = std::max<int64_t>(num_elements(movement.src(0).shape()), 1);
  const int64_t result = num_elements(movement.shape());
  if (movement.op() != Op::kExpand && movement.op() != Op::kWindow) return 1;
  return std::max<int64_t>(1, (result + source - 1) / source);
}

int64_t op_cost(const Node& node) {
  if (is_bounded_class(node.op())) return kBoundedOpCost;
  const bool divides = node.op() == Op::kDiv || node.op() == Op::kMod ||
                       node.op() == Op::kFloorDiv || node.op() == Op::kFloorMod ||
                       node.op() == Op::kSqrt;
  return divides ? kDivisionCost : 1;
}

bool is_explicit_store(Op op) {
  return op == Op::kContiguous || op == Op::kCopy || op == Op::kAssign;
}

class Chooser {
 public:
  Chooser(std::span<const Node> order, std::span<const Node> outputs,
          const std::function<bool(const Node&)>& is_given)
      : order_(order), is_given_(is_given), users_(order.size()) {
    for (size_t i = 0; i < order.size(); ++i) {
      number_.emplace(order[i].id(), i);
      if (is_given_(order[i])) continue;
      for (const Node& src : order[i].srcs()) {
        std::vector<size_t>& users = users_[number_.at(src.id())];
        if (users.empty() || users.back() != i) users.push_back(i);
      }
    }
    for (const Node& output : outputs)
      is_output_.emplace(output.id(), true);
  }

  StoreChoice choose() {
    // The cost of recomputing a node depends on what below it is stored, and that on the costs: the
    // second round uses the costs that follow from the first.
    StoreChoice first = round(StoreChoice());
    return round(first);
  }

 private:
  StoreChoice round(const StoreChoice& assumed) {
    measure(assumed);
    StoreChoice choice;
    contexts_.assign(order_.size(), {});
    for (size_t i = order_.size(); i-- > 0;) {
      const Node& node = order_[i];
      if (is_given_(node)) continue;
      collect_contexts(i, choice);
      std::string reason = reason_to_store(i);
      if (!reason.empty()) choice.add(node, std::move(reason));
    }
    return choice;
  }

  // Cost and depth of recomputing each node down to what is stored.
  void measure(const StoreChoice& assumed) {
    cost_.assign(order_.size(), 0);
    depth_.assign(order_.size(), 0);
    ends_chain_.assign(order_.size(), false);
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node& node = order_[i];
      if (is_given_(node) || node.srcs().empty() || is_explicit_store(node.op())) continue;
      int64_t cost = 0;
      int64_t depth = 0;
      for (const Node& src : node.srcs()) {
        const size_t number = number_.at(src.id());
        depth = std::max(depth, depth_[number]);
        if (!assumed.has(src)) cost += cost_[number];
      }
      ends_chain_[i] = is_elementwise(node.op()) && depth + 1 >= kMaxDepth;
      depth_[i] = ends_chain_[i] ? 0 : depth + 1;
      if (node.op() == Op::kReduce) {
        cost = kReductionCost;
      } else if (is_elementwise(node.op())) {
        cost += op_cost(node);
      } else if (cost * (repeats_of(node) - 1) >= kRecomputeCost) {
        cost = 0;  // the source will be stored
      }
      cost_[i] = std::min(cost, kMaxCost);
    }
  }

  void collect_contexts(size_t number, const StoreChoice& choice) {
    Contexts& contexts = contexts_[number];
    for (size_t user_number : users_[number]) {
      const Node& user = order_[user_number];
      if (choice.has(user)) {
        add(contexts, through(user, Context{.kernel = user.id()}));
        continue;
      }
      for (const Context& context : contexts_[user_number]) {
        add(contexts, through(user, context));
      }
    }
  }

  static void add(Contexts& contexts, const Context& context) {
    // One beyond the limit is enough to know that there are too many.
    if (contexts.size() > kMaxContexts) return;
    if (std::find(contexts.begin(), contexts.end(), context) == contexts.end()) {
      contexts.push_back(context);
    }
  }

  // The context of a source of `user`, given one of `user` itself.
  static Context through(const Node& user, Context context) {
    if (user.op() == Op::kReduce) {
      context.in_reduction = true;
      context.is_one_to_one = false;
      context.view = mix(view_hash(context.view, user), 1);
    } else if (is_movement(user.op())) {
      context.view = view_hash(context.view, user);
      context.repeats = std::min(context.repeats * repeats_of(user), kMaxCost);
      if (user.op() == Op::kPad || user.op() == Op::kWindow || repeats_of(user) > 1) {
        context.is_one_to_one = false;
      }
    }
    return context;
  }

  std::string reason_to_store(size_t number) const {
    const Node& node = order_[number];
    const Contexts& contexts = contexts_[number];
    if (is_output_.contains(node.id())) return "output";
    if (is_explicit_store(node.op())) return concat("asked for by ", op_name(node.op()));
    if (node.srcs().empty()) return "";
    for (size_t user : users_[number]) {
      if (order_[user].op() == Op::kCopy) return "copied to another device";
    }
    if (node.op() == Op::kReduce) {
      const bool is_overlooked = is_planted(PlantedFault::kReductionOfTwoViews);
      if (contexts.size() != 1 && !is_overlooked)
        return "reduction read through more than one view";
      if (contexts[0].in_reduction) return "reduction read by a reduction";
      if (!contexts[0].is_one_to_one) return "reduction read more than once or behind a pad";
      return "";
    }
    if (!is_elementwise(node.op())) return "";
    if (contexts.size() > kMaxContexts) return concat("read through over ", kMaxContexts, " views");
    if (ends_chain_[number]) return concat("end of a chain of ", kMaxDepth, " ops");
    if (contexts.size() > 1 && cost_[number] >= kRecomputeCost) {
      return concat("read through ", contexts.size(), " views; recomputing costs ", cost_[number]);
    }
    int64_t repeats = 1;
    for (const Context& context : contexts)
      repeats = std::max(repeats, context.repeats);
    if (cost_[number] * (repeats - 1) >= kRecomputeCost) {
      return concat("each element read ", repeats, " times; recomputing costs ", cost_[number]);
    }
    return "";
  }

  std::span<const Node> order_;
  const std::function<bool(const Node&)>& is_given_;
  std::vector<std::vector<size_t>> users_;
  std::unordered_map<const void*, size_t> number_;
  std::unordered_map<const void*, bool> is_output_;
  std::vector<Contexts> contexts_;
  std::vector<int64_t> cost_;
  std::vector<int64_t> depth_;
  std::vector<bool> ends_chain_;
};

}  // namespace

StoreChoice choose_stores(std::span<const Node> order, std::span<const Node> outputs,
                          const std::function<bool(const Node&)>& is_given) {
  return Chooser(order, outputs, is_given).choose();
}

}  // namespace tenon
