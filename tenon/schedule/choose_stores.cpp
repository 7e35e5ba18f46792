// The rules of storing, and the views ("contexts") through which each node is read.
// SPDX-License-Identifier: MIT

#include "tenon/schedule/choose_stores.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/hash.h"
#include "tenon/base/integer.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/text.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/schedule/unit_operands.h"

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
// Intermediates of one kernel; bounds its size.
constexpr size_t kMaxTmps = 32;
// A kernel of fewer rows gives up parallelism for its tmps: only worth it while it is small.
constexpr int64_t kMinRows = 4;
constexpr int64_t kMaxSmallWork = 1 << 14;  // elements computed by the whole kernel
// A contraction is computed with the rows of its reader, or reads rows that are computed with it,
// if these are so much larger than its operands, or its result, that what memory moves of them
// would count.
constexpr int64_t kContractionGain = 4;

/// What a reduction does with its operands.
enum class Contraction : uint8_t {
  kNone,
  kNarrowing,  ///< an operand is much larger than the result
  kWidening,   ///< the result is much larger than all operands
  kOther,
};

// Where one dim of a node is read: at an index that is a function of some axes of the kernel's
// output.
struct Label {
  uint64_t axes = 0;   // a bit for each
  uint64_t index = 0;  // hash of the function
  bool operator==(const Label&) const = default;
};
constexpr Label kAtZero{};
constexpr Label kAnywhere{.axes = ~uint64_t{0}};
using Labels = std::vector<Label>;

/// One way in which a kernel reads a node: the kernel (its stored node), the comp (the root or a
/// tmp) and the movement between.
struct Context {
  const void* kernel = nullptr;
  const void* tmp = nullptr;  // null: read by the root
  uint64_t view = 0;          // hash of the movement ops from the comp's output to here
  Labels labels = {};         // by dim
  int64_t repeats = 1;        // times an element is computed over again
  bool in_reduction = false;  // read inside a reduction of the kernel
  bool is_one_to_one = true;  // each element is read once at most, never behind a pad
  bool operator==(const Context&) const = default;
};

using Contexts = std::vector<Context>;

uint64_t view_hash(uint64_t outer, const Node& movement) {
  uint64_t hash = hash_combine(outer, static_cast<uint64_t>(movement.op()) + 1);
  for (int64_t dim : movement.shape())
    hash = hash_combine(hash, static_cast<uint64_t>(dim));
  for (int64_t dim : movement.src(0).shape())
    hash = hash_combine(hash, static_cast<uint64_t>(dim));
  for (int64_t value : movement.attr())
    hash = hash_combine(hash, static_cast<uint64_t>(value));
  return hash;
}

// How often a movement op reads an element of its source, on average, rounded up.
int64_t repeats_of(const Node& movement) {
  const int64_t source = std::max<int64_t>(num_elements(movement.src(0).shape()), 1);
  const int64_t result = num_elements(movement.shape());
  if (movement.op() != Op::kExpand && movement.op() != Op::kWindow) return 1;
  return std::max<int64_t>(1, ceil_div(result, source));
}

// Dims are matched in groups with equal products, as lower_movement does; where a group mixes
// several, each is a function of all.
Labels reshaped_labels(const Labels& labels, ShapeView from, ShapeView to) {
  Labels result(to.size(), kAnywhere);
  if (num_elements(from) == 0) return result;
  size_t i = 0;
  size_t j = 0;
  while (i < from.size() || j < to.size()) {
    if (i < from.size() && from[i] == 1) {
      ++i;
    } else if (j < to.size() && to[j] == 1) {
      ++j;
    } else if (from[i] == to[j]) {
      result[j++] = labels[i++];
    } else {
      const size_t first_j = j;
      int64_t product_i = 1;
      int64_t product_j = 1;
      Label mixed;
      do {
        if (product_i <= product_j) {
          mixed.axes |= labels[i].axes;
          mixed.index = hash_combine(hash_combine(mixed.index, labels[i].index),
                                     static_cast<uint64_t>(from[i]));
          product_i *= from[i++];
        } else {
          product_j *= to[j++];
        }
      } while (product_i != product_j);
      int64_t stride = product_j;
      for (size_t dim = first_j; dim < j; ++dim) {
        stride /= to[dim];
        const uint64_t part = hash_combine(mixed.index, static_cast<uint64_t>(stride));
        result[dim] = {mixed.axes, hash_combine(part, static_cast<uint64_t>(to[dim]))};
      }
    }
  }
  return result;
}

// Where the dims of a movement's or a reduction's source are read.
Labels source_labels(const Labels& labels, const Node& node) {
  const ShapeView shape = node.shape();
  const ShapeView source = node.src(0).shape();
  if (node.op() == Op::kReshape) return reshaped_labels(labels, shape, source);
  Labels result(source.size(), kAnywhere);
  for (size_t axis = 0; axis < source.size(); ++axis) {
    const auto moved = [&](const Label& label, int64_t by) {
      return Label{label.axes, hash_combine(label.index, static_cast<uint64_t>(by) + 1)};
    };
    if (source[axis] == 1) {
      result[axis] = kAtZero;
    } else if (node.op() == Op::kPermute) {
      const auto place = std::find(node.attr().begin(), node.attr().end(), axis);
      result[axis] = labels[static_cast<size_t>(place - node.attr().begin())];
    } else if (node.op() == Op::kWindow && axis == static_cast<size_t>(node.attr(0))) {
      result[axis] = moved(labels[axis], node.attr(2));
      result[axis].axes |= labels.back().axes;
    } else if (node.op() == Op::kShrink && node.attr(axis) != 0) {
      result[axis] = moved(labels[axis], node.attr(axis));
    } else if (node.op() == Op::kFlip && node.attr(axis) != 0) {
      result[axis] = moved(labels[axis], -shape[axis]);
    } else if (shape[axis] == source[axis] || node.op() == Op::kShrink) {
      result[axis] = labels[axis];
    }
  }
  for (Label& label : result) {
    if (label.axes == kAnywhere.axes) label = kAnywhere;
  }
  return result;
}

Labels own_labels(const Node& root) {
  Labels labels;
  for (size_t axis = 0; axis < root.shape().size(); ++axis)
    labels.push_back(root.shape()[axis] == 1 ? kAtZero : Label{uint64_t{1} << axis, axis + 1});
  return labels;
}

// Elements that a comp of the node runs over.
int64_t work_of(const Node& node) {
  return num_elements(node.op() == Op::kReduce ? node.src(0).shape() : node.shape());
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
          const std::function<bool(const Node&)>& is_given, int64_t max_local_bytes,
          int64_t block_rows, std::span<const MatrixUnit> units)
      : order_(order),
        is_given_(is_given),
        max_local_bytes_(max_local_bytes),
        block_rows_(block_rows),
        users_(order.size()) {
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
    is_unit_operand_ = unit_operands(order, users_, units);
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
    kernels_.clear();
    for (size_t i = order_.size(); i-- > 0;) {
      const Node& node = order_[i];
      if (is_given_(node)) continue;
      collect_contexts(i, choice);
      Need need = need_of(i);
      if (need.reason.empty()) continue;
      if (need.may_be_tmp && keep_in_kernel(i)) {
        choice.add_tmp(node);
      } else if (!need.may_be_tmp || !is_widened_load(i)) {
        choice.add(node, std::move(need.reason));
      }
    }
    blocked_.clear();
    for (const auto& [kernel, tmps] : kernels_) {
      if (is_blocked(kernel)) blocked_.insert(kernel);
    }
    return choice;
  }

  // Cost and depth of recomputing each node down to what is stored.
  void measure(const StoreChoice& assumed) {
    cost_.assign(order_.size(), 0);
    depth_.assign(order_.size(), 0);
    ends_chain_.assign(order_.size(), false);
    largest_.assign(order_.size(), 0);
    contraction_.assign(order_.size(), Contraction::kNone);
    has_widening_.assign(order_.size(), false);
    reads_memory_.assign(order_.size(), false);
    for (size_t i = 0; i < order_.size(); ++i) {
      const Node& node = order_[i];
      measure_reads(i, assumed);
      if (is_given_(node) || node.srcs().empty() || is_explicit_store(node.op())) continue;
      int64_t cost = 0;
      int64_t depth = 0;
      for (const Node& src : node.srcs()) {
        const size_t number = number_.at(src.id());
        depth = std::max(depth, depth_[number]);
        if (!assumed.has(src) && !assumed.is_tmp(src)) cost += cost_[number];
      }
      ends_chain_[i] = is_elementwise(node.op()) && depth + 1 >= kMaxDepth;
      depth_[i] = ends_chain_[i] ? 0 : depth + 1;
      if (node.op() == Op::kReduce) {
        cost = kReductionCost;
      } else if (is_elementwise(node.op())) {
        cost += op_cost(node);
      } else if (cost * (repeats_of(node) - 1) >= kRecomputeCost && !is_position(i, cost)) {
        cost = 0;  // the source will be stored
      }
      cost_[i] = is_unit_operand_[i] ? 0 : std::min(cost, kMaxCost);
    }
  }

  // The largest value that is read to compute the node, and which contraction is computed there: a
  // reduction over more elements than any value that it reads has (each is read again and again).
  void measure_reads(size_t number, const StoreChoice& assumed) {
    const Node& node = order_[number];
    const bool is_read = is_given_(node) || node.op() == Op::kReduce || node.op() == Op::kIndex;
    int64_t largest = is_read ? num_elements(node.shape()) : 0;
    if (!is_given_(node)) {
      int64_t largest_source = 0;
      for (const Node& src : node.srcs()) {
        const size_t source = number_.at(src.id());
        const bool is_stored = assumed.has(src);
        const bool is_in_memory = is_stored || assumed.is_tmp(src);
        largest_source =
            std::max(largest_source, is_in_memory ? num_elements(src.shape()) : largest_[source]);
        if (!is_in_memory) {
          contraction_[number] = std::max(contraction_[number], contraction_[source]);
        }
        if (!is_stored && has_widening_[source]) has_widening_[number] = true;
        if (is_in_memory || reads_memory_[source]) reads_memory_[number] = true;
      }
      if (node.op() == Op::kReduce) {
        contraction_[number] = contraction_of(node, largest_source);
        if (contraction_[number] == Contraction::kWidening) has_widening_[number] = true;
      } else {
        largest = std::max(largest, largest_source);
      }
    }
    largest_[number] = largest;
    if (is_given_(node) || node.op() == Op::kReduce) reads_memory_[number] = true;
  }

  // Computed from positions and constants with little: loading it would not be cheaper.
  bool is_position(size_t number, int64_t cost) const {
    return !reads_memory_[number] && cost < kRecomputeCost;
  }

  static Contraction contraction_of(const Node& node, int64_t largest_source) {
    if (work_of(node) <= 2 * largest_source) return Contraction::kNone;
    const int64_t results = num_elements(node.shape());
    if (results >= kContractionGain * largest_source) return Contraction::kWidening;
    if (largest_source >= kContractionGain * results) return Contraction::kNarrowing;
    return Contraction::kOther;
  }

  void collect_contexts(size_t number, const StoreChoice& choice) {
    Contexts& contexts = contexts_[number];
    for (size_t user_number : users_[number]) {
      const Node& user = order_[user_number];
      if (choice.has(user)) {
        add(contexts, through(user, Context{.kernel = user.id(), .labels = own_labels(user)}));
        continue;
      }
      if (choice.is_tmp(user)) {
        add(contexts, through(user, Context{.kernel = contexts_[user_number][0].kernel,
                                            .tmp = user.id(),
                                            .labels = agreed_labels(user_number)}));
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
      context.view = hash_combine(view_hash(context.view, user), 1);
      context.labels = source_labels(context.labels, user);
    } else if (is_movement(user.op())) {
      context.view = view_hash(context.view, user);
      context.labels = source_labels(context.labels, user);
      context.repeats = std::min(context.repeats * repeats_of(user), kMaxCost);
      if (user.op() == Op::kPad || user.op() == Op::kWindow || repeats_of(user) > 1) {
        context.is_one_to_one = false;
      }
    }
    return context;
  }

  struct Need {
    std::string reason;  // to have memory; empty: none
    bool may_be_tmp = false;
  };

  Need need_of(size_t number) const {
    const Node& node = order_[number];
    const Contexts& contexts = contexts_[number];
    if (is_output_.contains(node.id())) return {"output"};
    if (is_explicit_store(node.op())) return {concat("asked for by ", op_name(node.op()))};
    if (node.srcs().empty()) return {};
    for (size_t user : users_[number]) {
      if (order_[user].op() == Op::kCopy) return {"copied to another device"};
    }
    if (node.op() == Op::kReduce) {
      const bool is_overlooked =
          is_planted(PlantedFault::kReductionOfTwoViews) &&
          std::all_of(contexts.begin(), contexts.end(),
                      [](const Context& context) { return context.tmp == nullptr; });
      if (contexts.size() != 1 && !is_overlooked)
        return {"reduction read through more than one view", true};
      if (contexts[0].in_reduction) return {"reduction read by a reduction", true};
      if (!contexts[0].is_one_to_one)
        return {"reduction read more than once or behind a pad", true};
      if (contexts[0].tmp != nullptr) return {"reduction read by an intermediate", true};
      return {};
    }
    if (!is_elementwise(node.op())) return {};
    if (contexts.size() > kMaxContexts) {
      return {concat("read through over ", kMaxContexts, " views")};
    }
    if (ends_chain_[number]) return {concat("end of a chain of ", kMaxDepth, " ops")};
    if (is_position(number, cost_[number])) return {};
    if (contexts.size() > 1 && cost_[number] >= kRecomputeCost) {
      return {concat("read through ", contexts.size(), " views; recomputing costs ", cost_[number]),
              true};
    }
    int64_t repeats = 1;
    for (const Context& context : contexts)
      repeats = std::max(repeats, context.repeats);
    if (cost_[number] * (repeats - 1) >= kRecomputeCost) {
      return {concat("each element read ", repeats, " times; recomputing costs ", cost_[number]),
              true};
    }
    return {};
  }

  // The kernel computes blocks of rows, with what it has of tmps so far.
  bool is_blocked(const void* kernel) const {
    const auto tmps = kernels_.find(kernel);
    return tmps != kernels_.end() &&
           std::any_of(tmps->second.begin(), tmps->second.end(), [&](size_t number) {
             return order_[number].op() == Op::kReduce &&
                    contraction_[number] == Contraction::kWidening;
           });
  }

  // A narrow float from memory that only blocks of rows read: to widen it as it is loaded takes
  // less than to store it and to load twice the bytes.
  bool is_widened_load(size_t number) const {
    const Node& node = order_[number];
    if (node.op() != Op::kCast || cost_[number] > op_cost(node)) return false;
    const bool is_widened = node.dtype() == DType::kF32 && (node.src(0).dtype() == DType::kBF16 ||
                                                            node.src(0).dtype() == DType::kF16);
    const Contexts& contexts = contexts_[number];
    return is_widened && std::all_of(contexts.begin(), contexts.end(), [&](const Context& context) {
             return blocked_.contains(context.kernel);
           });
  }

  // --- tmps of one kernel
  // --------------------------------------------------------------------------

  Labels agreed_labels(size_t number) const {
    const Contexts& contexts = contexts_[number];
    Labels labels = contexts[0].labels;
    for (const Context& context : contexts) {
      for (size_t dim = 0; dim < labels.size(); ++dim) {
        if (context.labels[dim] != labels[dim]) labels[dim] = kAnywhere;
      }
    }
    return labels;
  }

  bool keep_in_kernel(size_t number) {
    const Node& node = order_[number];
    const Contexts& contexts = contexts_[number];
    if (contexts.empty() || contexts.size() > kMaxContexts || work_of(node) == 0) return false;
    const void* kernel = contexts[0].kernel;
    const auto is_there = [&](const Context& context) { return context.kernel == kernel; };
    if (!std::all_of(contexts.begin(), contexts.end(), is_there)) return false;
    const size_t root = number_.at(kernel);
    if (!fits_contractions(number, root)) return false;
    std::vector<size_t> tmps = kernels_[kernel];
    if (tmps.size() == kMaxTmps) return false;
    tmps.push_back(number);
    if (!is_worth_keeping(order_[root], tmps)) return false;
    kernels_[kernel] = std::move(tmps);
    return true;
  }

  // A contraction keeps the loops that make it fast, unless rows are wide: then it is computed by
  // blocks of rows.
  bool fits_contractions(size_t number, size_t root) const {
    const bool is_reduction = order_[number].op() == Op::kReduce;
    const Contraction own = is_reduction ? contraction_[number] : Contraction::kNone;
    if (own == Contraction::kOther || own == Contraction::kNarrowing) return false;
    switch (contraction_[root]) {
      case Contraction::kNone:
      case Contraction::kWidening: return true;
      case Contraction::kNarrowing: return has_widening_[number] || is_blocked(order_[root].id());
      case Contraction::kOther: return false;
    }
    return false;
  }

  // The axes of the root at which all tmps are read, as bits.
  uint64_t row_axes(const Node& root, std::span<const size_t> tmps) const {
    uint64_t rows = 0;
    for (const Label& label : own_labels(root))
      rows |= label.axes;
    for (uint64_t before = ~rows; before != rows;) {
      before = rows;
      for (const size_t number : tmps) {
        uint64_t used = 0;
        for (const Label& label : agreed_labels(number)) {
          if ((label.axes & ~rows) == 0) used |= label.axes;
        }
        rows &= used;
      }
    }
    return rows;
  }

  bool is_worth_keeping(const Node& root, std::span<const size_t> tmps) const {
    const uint64_t rows = row_axes(root, tmps);
    int64_t num_rows = 1;
    for (size_t axis = 0; axis < root.shape().size(); ++axis) {
      if ((rows >> axis & 1) != 0) num_rows *= root.shape()[axis];
    }
    int64_t bytes = 0;
    int64_t operand_bytes = 0;
    int64_t work = num_elements(root.shape());
    for (const size_t number : tmps) {
      const Node& node = order_[number];
      const Labels labels = agreed_labels(number);
      int64_t box = 1;
      int64_t num_boxes = 1;
      int num_open = 0;
      for (size_t dim = 0; dim < labels.size(); ++dim) {
        const bool is_fixed = (labels[dim].axes & ~rows) == 0;
        (is_fixed ? num_boxes : box) *= node.shape()[dim];
        if (!is_fixed && node.shape()[dim] > 1) ++num_open;
      }
      if (num_boxes < num_rows) return false;  // several rows would compute the same
      const DType dtype = node.op() == Op::kReduce ? reduce_accumulator(node) : node.dtype();
      if (box > 1) bytes += box * dtype_size_bytes(dtype);
      work += work_of(node);
      if (node.op() == Op::kReduce && contraction_[number] != Contraction::kNone) {
        if (num_open > 1) return false;  // planes, not rows
        // What it reads of the operand that all rows share: an element for each step of a row.
        operand_bytes += work_of(node) / num_rows * dtype_size_bytes(dtype);
      }
    }
    const bool is_blocked = operand_bytes > 0;
    if (is_blocked && operand_bytes + block_rows_ * bytes > max_local_bytes_) return false;
    if (bytes > max_local_bytes_ / 2) return false;
    return num_rows >= kMinRows || work <= kMaxSmallWork;
  }

  std::span<const Node> order_;
  const std::function<bool(const Node&)>& is_given_;
  const int64_t max_local_bytes_;
  const int64_t block_rows_;  // that a kernel with a contraction computes at once
  std::vector<std::vector<size_t>> users_;
  std::unordered_map<const void*, size_t> number_;
  std::unordered_map<const void*, bool> is_output_;
  std::vector<bool> is_unit_operand_;  // a cast that takes no time
  std::vector<Contexts> contexts_;
  std::vector<int64_t> cost_;
  std::vector<int64_t> depth_;
  std::vector<bool> ends_chain_;
  std::vector<int64_t> largest_;          // elements of the largest value that is read for it
  std::vector<Contraction> contraction_;  // that is computed with it, if it is not stored
  std::vector<bool> reads_memory_;        // to be computed
  std::vector<bool> has_widening_;        // a widening one is below it, with nothing stored between
  std::unordered_map<const void*, std::vector<size_t>> kernels_;  // tmps, by stored node
  std::unordered_set<const void*> blocked_;  // stored nodes: is_blocked in the round before
};

}  // namespace

StoreChoice choose_stores(std::span<const Node> order, std::span<const Node> outputs,
                          const std::function<bool(const Node&)>& is_given, int64_t max_local_bytes,
                          int64_t block_rows, std::span<const MatrixUnit> units) {
  return Chooser(order, outputs, is_given, max_local_bytes, block_rows, units).choose();
}

}  // namespace tenon
