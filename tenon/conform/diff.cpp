// The walk over a program's kernels. SPDX-License-Identifier: MIT

#include "tenon/conform/diff.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/timing.h"
#include "tenon/conform/diff_launch.h"
#include "tenon/conform/graph_shrink.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/eval_op.h"
#include "tenon/schedule/schedule.h"

namespace tenon {
namespace {

using detail::DiffLaunch;
using detail::DiffSides;
using detail::JudgedLaunch;

using Data = std::vector<std::vector<std::byte>>;

DiffArray array_of(std::string name, const Node& node, std::vector<std::byte> bytes = {}) {
  return {.name = std::move(name),
          .dtype = node.dtype(),
          .shape = Shape(node.shape().begin(), node.shape().end()),
          .bytes = std::move(bytes)};
}

/// What a call computes, over inputs for all that is in memory then.
struct CallGraph {
  TensorGraph graph;
  std::vector<int> buffers;  ///< of the schedule, for each input
};

/// All calls of a schedule, one after the other.
class Walk {
 public:
  Walk(const TensorGraph& graph, std::span<const std::vector<std::byte>> data, EngineDevice& device,
       const DiffOptions& options, DiffSides sides)
      : device_(device), options_(options), sides_(sides) {
    schedule_ = schedule_graph(graph.outputs, schedule_options(device.target()));
    values_.resize(schedule_.buffers.size());
    last_use_.resize(schedule_.buffers.size(), 0);
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const Node& node = schedule_.buffers[i].computed;
      number_.emplace(node.id(), static_cast<int>(i));
      if (!schedule_.buffers[i].is_given) continue;
      const auto input = std::ranges::find(graph.inputs, node);
      TENON_CHECK(input != graph.inputs.end(), ErrorCode::kInvalidArgument,
                  "diff: a buffer of shape ", format_shape(node.shape()),
                  " is not among the inputs");
      values_[i] = data[static_cast<size_t>(input - graph.inputs.begin())];
    }
    for (size_t i = 0; i < schedule_.calls.size(); ++i) {
      const ScheduledCall& call = schedule_.calls[i];
      graphs_.push_back(call.copy_from >= 0 ? CallGraph() : graph_of(call));
      // The graph may read more than the kernel, of which nothing was left.
      for (const int used : graphs_.back().buffers)
        last_use_[static_cast<size_t>(used)] = i;
      for (const int used : call.buffers)
        last_use_[static_cast<size_t>(used)] = i;
      if (call.copy_from >= 0) last_use_[static_cast<size_t>(call.copy_from)] = i;
    }
  }

  DiffReport run() {
    find_programs_of_calls();
    DiffReport report;
    for (size_t i = 0; i < schedule_.calls.size() && !report.first; ++i)
      run_call(i, report);
    return report;
  }

  /// Some kernels compute nodes that are not of the graph, but stand for some that are.
  bool has_other_nodes() const {
    return std::ranges::any_of(schedule_.buffers, [](const ScheduledBuffer& buffer) {
      return !(buffer.node == buffer.computed);
    });
  }

  /// Of an output of the graph, after run() has found no difference.
  const std::vector<std::byte>& output(size_t number) const {
    return values_[static_cast<size_t>(schedule_.outputs[number])];
  }

 private:
  void find_programs_of_calls() {
    if (!sides_.device) return;
    std::vector<const Kernel*> kernels;
    for (const ScheduledCall& call : schedule_.calls)
      if (call.copy_from < 0) kernels.push_back(&call.kernel);
    RealizeStats stats;
    programs_ = find_programs(device_, kernels, stats);
  }

  void run_call(size_t number, DiffReport& report) {
    const ScheduledCall& call = schedule_.calls[number];
    std::vector<std::byte>& output = values_[static_cast<size_t>(call.buffers[0])];
    if (call.copy_from >= 0) {
      output = values_[static_cast<size_t>(call.copy_from)];
      return;
    }
    const CallGraph& made = graphs_[number];
    Data data;
    for (const int buffer : made.buffers)
      data.push_back(values_[static_cast<size_t>(buffer)]);
    std::vector<DiffArray> arguments;
    for (size_t i = 0; i < call.buffers.size(); ++i) {
      const auto buffer = static_cast<size_t>(call.buffers[i]);
      arguments.push_back(array_of(call.kernel.buffers[i].name, schedule_.buffers[buffer].computed,
                                   i == 0 ? std::vector<std::byte>() : values_[buffer]));
    }
    const Shadow shadow(device_, call.kernel, nullptr);
    const auto launch_number = static_cast<size_t>(report.kernels);
    JudgedLaunch judged =
        detail::judge_launch(device_,
                             {.shadow = shadow,
                              .loaded = sides_.device ? programs_.at(launch_number).get() : nullptr,
                              .graph = sides_.oracle ? &made.graph : nullptr,
                              .data = data,
                              .arguments = arguments},
                             options_, report);
    if (judged.difference) {
      report.first = std::move(judged.difference);
      report.first->kernel = kernel_symbol(call.kernel);
      report.first->kernel_number = launch_number + 1;
      note_graph(made, *report.first);
      return;
    }
    output = std::move(judged.values[0]);
    for (size_t i = 0; i < values_.size(); ++i)
      if (last_use_[i] == number && !schedule_.buffers[i].is_output) values_[i] = {};
  }

  /// With inputs that no kernel binds as arguments too: nothing of them is left in the program.
  void note_graph(const CallGraph& made, Difference& difference) const {
    for (size_t i = 0; i < made.buffers.size(); ++i) {
      const std::string& name = made.graph.input_names[i];
      if (std::ranges::find(difference.arguments, name, &DiffArray::name) !=
          difference.arguments.end()) {
        continue;
      }
      difference.arguments.push_back(
          array_of(name, made.graph.inputs[i], values_[static_cast<size_t>(made.buffers[i])]));
    }
    difference.graph = made.graph;
  }

  std::string name_of(const ScheduledCall& call, int buffer, size_t number) const {
    for (size_t i = 1; i < call.buffers.size(); ++i)
      if (call.buffers[i] == buffer) return call.kernel.buffers[i].name;
    return concat("unused", number);
  }

  /// Down to what is stored.
  CallGraph graph_of(const ScheduledCall& call) const {
    const ScheduledBuffer& result = schedule_.buffers[static_cast<size_t>(call.buffers[0])];
    const Node root = result.computed;
    CallGraph made;
    made.graph.name = call.kernel.name;
    std::unordered_map<const void*, Node> done;
    std::vector<std::pair<Node, size_t>> stack{{root, root.op() == Op::kAssign ? 1U : 0U}};
    while (!stack.empty()) {
      const Node node = stack.back().first;
      const auto stored = number_.find(node.id());
      if (!(node == root) && stored != number_.end()) {
        if (!done.contains(node.id())) {
          const Node leaf = tensor_buffer(node.dtype(), node.shape());
          done.emplace(node.id(), leaf);
          made.graph.inputs.push_back(leaf);
          made.graph.input_names.push_back(name_of(call, stored->second, made.buffers.size()));
          made.buffers.push_back(stored->second);
        }
        stack.pop_back();
        continue;
      }
      size_t& next = stack.back().second;
      if (next < node.srcs().size()) {
        const Node src = node.src(next++);
        if (!done.contains(src.id())) stack.emplace_back(src, 0);
        continue;
      }
      std::vector<Node> srcs;
      if (node.op() != Op::kAssign) {
        for (const Node& src : node.srcs())
          srcs.push_back(done.at(src.id()));
        done.emplace(node.id(), rebuild_tensor_node(node, srcs));
      } else {
        done.emplace(node.id(), tensor_contiguous(done.at(node.src(1).id())));
      }
      stack.pop_back();
    }
    made.graph.outputs.push_back(done.at(root.id()));
    made.graph.output_names.push_back(call.kernel.buffers[0].name);
    return made;
  }

  EngineDevice& device_;
  const DiffOptions& options_;
  const DiffSides sides_;
  Schedule schedule_;
  std::unordered_map<const void*, int> number_;  ///< of computed nodes
  Data values_;                                  ///< of buffers; empty before and after their use
  std::vector<size_t> last_use_;
  std::vector<CallGraph> graphs_;  ///< of calls
  std::vector<ProgramPtr> programs_;
};

/// All kernels as a program runs them, on the device.
std::vector<std::vector<std::byte>> realized_together(const TensorGraph& graph,
                                                      std::span<const std::vector<std::byte>> data,
                                                      Device& device) {
  std::unordered_map<const void*, Node> done;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Node& input = graph.inputs[i];
    done.emplace(input.id(), buffer_from_bytes(device, input.dtype(), input.shape(), data[i]));
  }
  for (const Node& node : topological_order(graph.outputs)) {
    if (done.contains(node.id())) continue;
    std::vector<Node> srcs;
    for (const Node& src : node.srcs())
      srcs.push_back(done.at(src.id()));
    done.emplace(node.id(), rebuild_tensor_node(node, srcs));
  }
  std::vector<Node> outputs;
  for (const Node& output : graph.outputs)
    outputs.push_back(done.at(output.id()));
  realize(outputs, &device);
  Data results;
  for (const Node& output : outputs)
    results.push_back(read_bytes(output));
  return results;
}

/// What all of `graph` gives, outside of any kernel.
Difference of_graph(DiffVerdict verdict, const TensorGraph& graph,
                    std::span<const std::vector<std::byte>> data, size_t output) {
  Difference found{.verdict = verdict, .kernel = graph.output_names.at(output), .graph = graph};
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    found.arguments.push_back(array_of(graph.input_names[i], graph.inputs[i], data[i]));
  return found;
}

/// Whether the nodes that the schedule has put in the place of others come to the same.
std::optional<Difference> judge_schedule(const TensorGraph& graph,
                                         std::span<const std::vector<std::byte>> data,
                                         const Device& device, const Walk& walk) {
  std::vector<OracleValue> expected;
  try {
    expected = evaluate_oracle(graph.outputs,
                               bind_inputs(graph.inputs, data, deviations_of(device.target())));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return std::nullopt;  // too large
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const Comparison comparison = compare(expected[i], walk.output(i));
    if (comparison.failed == 0) continue;
    Difference found = of_graph(DiffVerdict::kSharedKernel, graph, data, i);
    detail::add_comparison(found, std::move(expected[i]), walk.output(i), comparison);
    found.text.insert(0, "each kernel does what the schedule asks for, which is not the graph: ");
    return found;
  }
  return std::nullopt;
}

std::optional<Difference> judge_together(const TensorGraph& graph,
                                         std::span<const std::vector<std::byte>> data,
                                         Device& device, const Walk& walk) {
  try {
    const Data together = realized_together(graph, data, device);
    for (size_t i = 0; i < together.size(); ++i) {
      const Node& node = graph.outputs[i];
      OracleValue expected = exact_value(node.dtype(), node.shape(), walk.output(i));
      const Comparison comparison = compare(expected, together[i]);
      if (comparison.failed == 0) continue;
      Difference found = of_graph(DiffVerdict::kSequence, graph, data, i);
      detail::add_comparison(found, std::move(expected), together[i], comparison);
      return found;
    }
  } catch (const Error& error) {
    if (detail::is_refusal(error)) throw;
    Difference found = of_graph(DiffVerdict::kSequence, graph, data, 0);
    found.text = error.what();
    return found;
  }
  return std::nullopt;
}

/// Without making it smaller.
DiffReport walk_over(const TensorGraph& graph, std::span<const std::vector<std::byte>> data,
                     EngineDevice& device, const DiffOptions& options, DiffSides sides) {
  Walk walk(graph, data, device, options, sides);
  DiffReport report = walk.run();
  if (!report.first && sides.oracle && walk.has_other_nodes()) {
    report.first = judge_schedule(graph, data, device, walk);
  }
  if (!report.first && sides.device) report.first = judge_together(graph, data, device, walk);
  return report;
}

// --- making it small -----------------------------------------------------------------------------

/// The first elements along each axis. `to` has the rank of `from` and no larger dims.
std::vector<std::byte> corner_of(const DiffArray& from, ShapeView to) {
  const auto width = static_cast<size_t>(dtype_size_bytes(from.dtype));
  const int64_t count = num_elements(to);
  std::vector<std::byte> bytes(static_cast<size_t>(count) * width);
  Shape index(to.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    for (size_t axis = 0; axis < to.size(); ++axis)
      at = at * from.shape[axis] + index[axis];
    std::copy_n(from.bytes.begin() + at * static_cast<int64_t>(width), width,
                bytes.begin() + i * static_cast<int64_t>(width));
    for (size_t axis = to.size(); axis-- > 0;) {
      if (++index[axis] < to[axis]) break;
      index[axis] = 0;
    }
  }
  return bytes;
}

/// Small numbers, exact in every dtype but the 8-bit floats, that differ from place to place.
std::vector<std::byte> made_up(DType dtype, ShapeView shape) {
  const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
  std::vector<std::byte> bytes(static_cast<size_t>(num_elements(shape)) * width);
  for (size_t i = 0; i * width < bytes.size(); ++i) {
    const auto code = static_cast<int64_t>(37 * i % 101);
    uint64_t bits = static_cast<uint64_t>(dtype == DType::kBool ? code % 2 : code);
    if (is_float(dtype)) bits = double_to_float(static_cast<double>(code - 50) / 32, dtype);
    std::memcpy(bytes.data() + i * width, &bits, width);  // little-endian
  }
  return bytes;
}

/// Inputs of a smaller graph: those of the difference, cut, else made up.
Data data_for(const TensorGraph& graph, const Difference& difference) {
  Data data;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Node& input = graph.inputs[i];
    const auto known =
        std::ranges::find(difference.arguments, graph.input_names[i], &DiffArray::name);
    const bool is_part = known != difference.arguments.end() && known->dtype == input.dtype() &&
                         known->shape.size() == input.shape().size() &&
                         std::ranges::equal(input.shape(), known->shape, std::less_equal<>());
    data.push_back(is_part ? corner_of(*known, input.shape())
                           : made_up(input.dtype(), input.shape()));
  }
  return data;
}

/// The same verdict on a smaller graph, or the found difference itself; nothing if its graph alone
/// does not differ.
std::optional<Difference> made_small(const Difference& found, EngineDevice& device,
                                     const DiffOptions& options) {
  const int64_t end_ns = now_ns() + options.shrink_ns;
  const bool is_by_bits = found.verdict == DiffVerdict::kDevice && found.program &&
                          Shadow(device, *found.program).is_exact();
  const DiffSides sides{.oracle = !is_by_bits && found.verdict != DiffVerdict::kSequence,
                        .device = found.verdict != DiffVerdict::kSharedKernel};
  std::optional<Difference> smallest;
  const auto differs = [&](const TensorGraph& candidate) {
    if (now_ns() > end_ns) return false;
    try {
      const Data data = data_for(candidate, found);
      DiffReport report = walk_over(candidate, data, device, options, sides);
      const bool is_same = report.first && (report.first->verdict == found.verdict ||
                                            found.verdict == DiffVerdict::kUndecided);
      if (is_same) smallest = std::move(report.first);
      return is_same;
    } catch (const Error&) {
      return false;  // nothing can be said of it
    }
  };
  if (!differs(*found.graph)) return std::nullopt;
  shrink_graph(*found.graph, differs, {.max_trials = 400, .has_dims_first = true});
  if (smallest->kernel == found.kernel) return found;  // nothing but made-up inputs
  // Once more with all sides, for the record of the launch.
  const Data data = data_for(*smallest->graph, *smallest);
  DiffReport whole = walk_over(*smallest->graph, data, device, options, {});
  return whole.first ? std::move(whole.first) : smallest;
}

}  // namespace

std::string_view verdict_name(DiffVerdict verdict) {
  switch (verdict) {
    case DiffVerdict::kSharedKernel: return "shared kernel";
    case DiffVerdict::kDevice: return "device";
    case DiffVerdict::kUndecided: return "undecided";
    case DiffVerdict::kSequence: return "sequence";
  }
  return "";
}

DiffReport diff_graph(const TensorGraph& graph, std::span<const std::vector<std::byte>> data,
                      Device& device, const DiffOptions& options) {
  TENON_CHECK(data.size() == graph.inputs.size(), ErrorCode::kInvalidArgument,
              "diff: ", data.size(), " arrays are given, the graph has ", graph.inputs.size(),
              " inputs");
  DiffReport report = walk_over(graph, data, engine_device(device), options, {});
  if (!report.first || options.shrink_ns == 0) return report;
  report.smallest = made_small(*report.first, engine_device(device), options);
  if (!report.smallest) report.first->graph.reset();
  return report;
}

DiffReport diff_program(const LinearProgram& program, std::span<const DiffArray> arguments,
                        Device& device, const DiffOptions& options, const OracleValue* expected) {
  const std::vector<Argument>& wanted = program.signature.arguments;
  TENON_CHECK(arguments.size() == wanted.size(), ErrorCode::kInvalidArgument,
              "diff: ", arguments.size(), " arguments are given, program '", program.name,
              "' takes ", wanted.size());
  EngineDevice& opened = engine_device(device);
  const Program loaded(opened.driver(), compile_linear(opened, program));
  const Shadow shadow(opened, program);
  DiffReport report;
  JudgedLaunch judged = detail::judge_launch(opened,
                                             {.shadow = shadow,
                                              .loaded = &loaded,
                                              .graph = nullptr,
                                              .data = {},
                                              .arguments = arguments,
                                              .expected = expected},
                                             options, report);
  if (!judged.difference) return report;
  report.first = std::move(judged.difference);
  report.first->kernel = program.name;
  report.first->kernel_number = 1;
  return report;
}

}  // namespace tenon
