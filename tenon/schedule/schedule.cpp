// Puts the stored nodes in order and makes a kernel for each. SPDX-License-Identifier: MIT

#include "tenon/schedule/schedule.h"

#include <unordered_map>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/rules/fold.h"
#include "tenon/schedule/choose_stores.h"
#include "tenon/schedule/lower_movement.h"
#include "tenon/schedule/split_arguments.h"
#include "tenon/schedule/split_reductions.h"
#include "tenon/types/support.h"

namespace tenon {
namespace {

// Nodes reachable from the outputs without looking below given ones, sources before users.
std::vector<Node> order_to_given(std::span<const Node> outputs,
                                 const std::function<bool(const Node&)>& is_given) {
  std::vector<Node> order;
  std::unordered_set<const void*> seen;
  std::vector<std::pair<Node, size_t>> stack;
  for (const Node& output : outputs) {
    if (!seen.insert(output.id()).second) continue;
    stack.emplace_back(output, 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (!is_given(node) && next < node.srcs().size()) {
        const Node src = node.src(next++);
        if (seen.insert(src.id()).second) stack.emplace_back(src, 0);
        continue;
      }
      order.push_back(node);
      stack.pop_back();
    }
  }
  return order;
}

void check_nodes(std::span<const Node> nodes) {
  const std::vector<std::string> findings = verify_nodes(nodes);
  TENON_CHECK(findings.empty(), ErrorCode::kInternal, "schedule: the graph breaks ",
              findings.size(), " rules of its level\n  ", join(findings, "\n  "));
}

void fold(Kernel& kernel) {
  Folder folder;
  for (Stmt& stmt : kernel.body) {
    Comp& comp = std::get<Comp>(stmt.node);
    comp.value = folder.run(comp.value);
  }
}

// The bits that a kernel writes everywhere, if its value is a constant.
std::optional<uint64_t> written_constant(const Kernel& kernel) {
  if (kernel.body.size() != 1 || kernel.buffers.size() != 1) return std::nullopt;
  const Comp& comp = std::get<Comp>(kernel.body[0].node);
  if (comp.combine || !comp.guard.empty()) return std::nullopt;
  return is_const(comp.value) ? std::optional(const_bits(comp.value)) : std::nullopt;
}

class Scheduler {
 public:
  explicit Scheduler(const ScheduleOptions& options) : options_(options) {}

  Schedule run(std::span<const Node> outputs) {
    const std::function<bool(const Node&)> is_given = [this](const Node& node) {
      return node.op() == Op::kBuffer || (options_.is_known && options_.is_known(node));
    };
    std::vector<Node> results(outputs.begin(), outputs.end());
    std::vector<Node> order = order_to_given(results, is_given);
    if (setting_bool(Setting::kVerifyIr)) check_nodes(order);
    StoreChoice stored = choose(order, results, is_given);
    const SplitReductions split = split_reductions(order, is_given, stored, options_.threads);
    if (!split.changed.empty()) {
      for (const Node& node : order) {
        const auto found = split.changed.find(node.id());
        if (found != split.changed.end()) written_.emplace(found->second.id(), node);
      }
      for (Node& result : results) {
        const auto found = split.changed.find(result.id());
        if (found != split.changed.end()) result = found->second;
      }
      order = order_to_given(results, is_given);
      if (setting_bool(Setting::kVerifyIr)) check_nodes(order);
      stored = choose(order, results, is_given);
    }
    fit_arguments(order, results, is_given, stored);
    const std::function<bool(const Node&)> is_stored = [&](const Node& node) {
      return is_given(node) || stored.has(node);
    };
    const std::function<bool(const Node&)> is_tmp = [&](const Node& node) {
      return stored.is_tmp(node);
    };
    for (const Node& node : order) {
      if (is_given(node)) {
        add_buffer(node, "given").is_given = true;
      } else if (stored.has(node)) {
        const bool is_partial = split.partials.contains(node.id());
        add_buffer(node, is_partial ? "partial results, for all threads" : stored.reason(node));
        if (num_elements(node.shape()) > 0) add_call(node, is_stored, is_tmp);
      }
    }
    for (const Node& result : results) {
      const int number = number_.at(result.id());
      result_.buffers[static_cast<size_t>(number)].is_output = true;
      result_.outputs.push_back(number);
    }
    return std::move(result_);
  }

 private:
  StoreChoice choose(std::span<const Node> order, std::span<const Node> to_store,
                     const std::function<bool(const Node&)>& is_given) const {
    return choose_stores(order, to_store, is_given, options_.max_local_bytes, options_.block_rows,
                         options_.units);
  }

  // Stores more until each kernel binds what the device can, or nothing helps.
  void fit_arguments(std::span<const Node> order, std::span<const Node> results,
                     const std::function<bool(const Node&)>& is_given, StoreChoice& stored) const {
    if (options_.max_arguments == 0) return;
    std::vector<Node> to_store(results.begin(), results.end());
    while (true) {
      const std::vector<Node> more =
          values_to_store(order, is_given, stored, options_.max_arguments);
      if (more.empty()) return;
      to_store.insert(to_store.end(), more.begin(), more.end());
      stored = choose(order, to_store, is_given);
      for (size_t i = results.size(); i < to_store.size(); ++i)
        stored.add(to_store[i], concat("a kernel binds ", options_.max_arguments, " buffers"));
    }
  }

  ScheduledBuffer& add_buffer(const Node& node, std::string reason) {
    number_.emplace(node.id(), static_cast<int>(result_.buffers.size()));
    const auto written = written_.find(node.id());
    ScheduledBuffer buffer{.node = written == written_.end() ? node : written->second,
                           .computed = node,
                           .dtype = node.dtype(),
                           .reason = std::move(reason)};
    buffer.shape.assign(node.shape().begin(), node.shape().end());
    result_.buffers.push_back(std::move(buffer));
    return result_.buffers.back();
  }

  void add_call(const Node& node, const std::function<bool(const Node&)>& is_stored,
                const std::function<bool(const Node&)>& is_tmp) {
    ScheduledCall call;
    call.buffers.push_back(number_.at(node.id()));
    if (node.op() == Op::kCopy) {
      call.copy_from = number_.at(node.src(0).id());
      result_.calls.push_back(std::move(call));
      return;
    }
    MovedKernel moved = lower_movement(node, is_stored, is_tmp);
    for (const Node& input : moved.inputs)
      call.buffers.push_back(number_.at(input.id()));
    Target bound;
    bound.max_arguments = options_.max_arguments;
    require(supports(bound, Limit::kArguments, std::ssize(call.buffers)), "schedule: kernel '",
            moved.kernel.name, "' ");
    fold(moved.kernel);
    call.constant = written_constant(moved.kernel);
    call.kernel = std::move(moved.kernel);
    result_.calls.push_back(std::move(call));
  }

  const ScheduleOptions& options_;
  Schedule result_;
  std::unordered_map<const void*, int> number_;
  /// The node as it was written, of those that stand for another one.
  std::unordered_map<const void*, Node> written_;
};

}  // namespace

ScheduleOptions schedule_options(const Target& target) {
  return {.is_known = {},
          .max_arguments = target.max_arguments,
          .max_local_bytes = target.max_local_bytes,
          .block_rows = target.block_rows(),
          .threads = target.threads,
          .units = target.units};
}

Schedule schedule_graph(std::span<const Node> outputs, const ScheduleOptions& options) {
  return Scheduler(options).run(outputs);
}

}  // namespace tenon
