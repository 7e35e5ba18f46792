// SPDX-License-Identifier: MIT

#include "tests/prop/graph_case.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/conform/oracle.h"
#include "tenon/engine/memory_checks.h"
#include "tenon/engine/program_store.h"
#include "tenon/interp/interpret.h"
#include "tenon/ir/eval_kernel.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/graph_text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/support/random_graph.h"

namespace tenon::prop {
namespace {

using testing::random_inputs;

// The text of a kernel in canonical numbering, as the parser gives it back.
void check_text(const Kernel& kernel, std::string_view pass) {
  const std::string text = to_text(renumber_axes(kernel));
  const std::string again = to_text(parse_kernel(text, "printed"));
  TENON_ASSERT(again == text, "kernel '", kernel.name, "' after ", pass,
               " reads back as another:\n", text, "\n", again);
}

void check_text(const LinearProgram& program, std::string_view pass) {
  const std::string text = to_text(program);
  const std::string again = to_text(parse_linear(text, "printed"));
  TENON_ASSERT(again == text, "program '", program.name, "' after ", pass,
               " reads back as another:\n", text, "\n", again);
}

void check_text(const TensorGraph& graph) {
  const std::string text = to_text(graph);
  const std::string again = to_text(parse_graph(text, "printed"));
  TENON_ASSERT(again == text, "graph reads back as another:\n", text, "\n", again);
}

bool is_zero(DType dtype, uint64_t bits) {
  if (!is_float(dtype)) return bits == 0;
  return (bits & ~(uint64_t{1} << (dtype_bits(dtype) - 1))) == 0;
}

bool is_telling(const OracleValue& value) {
  std::unordered_set<uint64_t> distinct;
  for (const uint64_t bits : value.bits) {
    if (!is_zero(value.dtype, bits)) distinct.insert(bits);
  }
  return !value.bits.empty() && distinct.size() * 2 >= value.bits.size();
}

std::vector<OracleValue> expected_values(const GraphCase& graph_case) {
  return evaluate_oracle(graph_case.graph.outputs,
                         bind_inputs(graph_case.graph.inputs, graph_case.data,
                                     deviations_of(Device::get_default().target())));
}

using RunCall = std::function<void(size_t call, std::span<std::vector<std::byte>* const>)>;

// Runs the calls of the schedule in host memory; true if all outputs are right.
bool is_right_by(const GraphCase& graph_case, const RunCall& run_call) {
  const Schedule& schedule = graph_case.schedule;
  std::vector<std::vector<std::byte>> memory;
  for (const ScheduledBuffer& buffer : schedule.buffers) {
    const int64_t size_bytes = num_elements(buffer.shape) * dtype_size_bytes(buffer.dtype);
    memory.push_back(buffer.is_given ? read_bytes(buffer.node)
                                     : std::vector(static_cast<size_t>(size_bytes), kPoisonByte));
  }
  for (size_t number_of_call = 0; number_of_call < schedule.calls.size(); ++number_of_call) {
    const ScheduledCall& call = schedule.calls[number_of_call];
    std::vector<std::vector<std::byte>*> arguments;
    for (const int number : call.buffers)
      arguments.push_back(&memory[static_cast<size_t>(number)]);
    if (call.copy_from >= 0) {
      *arguments[0] = memory[static_cast<size_t>(call.copy_from)];
    } else {
      run_call(number_of_call, arguments);
    }
  }
  const std::vector<OracleValue> expected = expected_values(graph_case);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto number = static_cast<size_t>(schedule.outputs[i]);
    if (compare(expected[i], memory[number]).failed > 0) return false;
  }
  return true;
}

void run_as_kernel(const Kernel& kernel, std::span<std::vector<std::byte>* const> buffers) {
  std::vector<KernelArgument> arguments;
  for (std::vector<std::byte>* const buffer : buffers)
    arguments.push_back({.data = buffer->data(), .size_bytes = std::ssize(*buffer)});
  eval_kernel(kernel, arguments);
}

void run_as_program(const EngineDevice& device, const Kernel& kernel,
                    std::span<std::vector<std::byte>* const> buffers) {
  const LinearProgram program = lower_for(device, kernel);
  std::vector<ArgumentValue> arguments;
  for (size_t i = 0; i < buffers.size(); ++i) {
    arguments.push_back({.is_buffer = true,
                         .dtype = program.signature.arguments[i].dtype,
                         .address = buffers[i]->data(),
                         .size_bytes = std::ssize(*buffers[i])});
  }
  interpret(program, arguments, {.fuses_mulacc = device.target().fuses_mulacc});
}

// Puts buffers with data for inputs, and each value on a device.
class Binder {
 public:
  Binder(const DevicePair& devices, int64_t& num_crossings)
      : devices_(devices), num_crossings_(num_crossings) {}

  void bind_input(const Node& input, const std::vector<std::byte>& data) {
    bound_[input] = buffer_from_bytes(devices_.first, input.dtype(), input.shape(), data);
    places_[input] = &devices_.first;
  }

  void bind(const Node& node) {
    if (bound_.contains(node)) return;
    EngineDevice* place = nullptr;  // constants are everywhere
    for (const Node& src : node.srcs()) {
      if (place == nullptr) place = places_.at(src);
    }
    if (node.op() == Op::kCopy) {
      const bool is_back = place == &devices_.second;
      place = is_back ? &devices_.first : &devices_.second;
      bound_[node] = moved(node.src(0), place);
    } else {
      std::vector<Node> srcs;
      for (const Node& src : node.srcs()) {
        const bool is_elsewhere = places_.at(src) != nullptr && places_.at(src) != place;
        srcs.push_back(is_elsewhere ? moved(src, place) : bound_.at(src));
      }
      bound_[node] = rebuild_tensor_node(node, srcs);
    }
    places_[node] = place;
  }

  const Node& bound(const Node& node) const { return bound_.at(node); }

 private:
  Node moved(const Node& node, const EngineDevice* place) {
    const EngineDevice* const from = places_.at(node);
    num_crossings_ += from != nullptr && from != place ? 1 : 0;
    return tensor_copy(bound_.at(node), place->number());
  }

  const DevicePair& devices_;
  int64_t& num_crossings_;
  std::unordered_map<Node, Node, NodeHash> bound_;
  std::unordered_map<Node, EngineDevice*, NodeHash> places_;  // null: of no device
};

}  // namespace

GraphCase make_case(const DevicePair& devices, const TensorGraph& graph, uint64_t seed) {
  GraphCase result{.seed = seed, .graph = graph, .data = random_inputs(graph, seed)};
  Binder binder(devices, result.num_crossings);
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    binder.bind_input(graph.inputs[i], result.data[i]);
  for (const Node& node : topological_order(graph.outputs))
    binder.bind(node);
  for (const Node& output : graph.outputs)
    result.outputs.push_back(binder.bound(output));
  return result;
}

void lower_case(const DevicePair& devices, GraphCase& graph_case, bool check_texts) {
  CodegenOptions options;
  if (check_texts) {
    check_text(graph_case.graph);
    options.on_kernel = [](std::string_view pass, const Kernel& kernel) {
      check_text(kernel, pass);
    };
    options.on_linear = [](std::string_view pass, const LinearProgram& program) {
      check_text(program, pass);
    };
  }
  graph_case.lowered.clear();
  graph_case.call_devices.clear();
  graph_case.schedule =
      schedule_graph(graph_case.outputs, schedule_options(devices.first.target()));
  const Schedule& schedule = graph_case.schedule;
  for (const ScheduledCall& call : schedule.calls) {
    const Node& written = schedule.buffers[static_cast<size_t>(call.buffers[0])].node;
    Device* const placed = device_of(written);
    EngineDevice& device = placed == nullptr ? devices.first : engine_device(*placed);
    graph_case.call_devices.push_back(&device);
    if (call.copy_from >= 0) continue;
    const LinearProgram program = lower_for(device, call.kernel, options);
    append(graph_case.lowered, to_text(call.kernel), to_text(program),
           device.renderer().renderer->render(program, device.target()).text);
  }
}

void compile_cases(const DevicePair& devices, std::span<GraphCase* const> cases) {
  for (EngineDevice* const device : {&devices.first, &devices.second}) {
    std::vector<const Kernel*> kernels;
    for (const GraphCase* graph_case : cases) {
      const std::vector<ScheduledCall>& calls = graph_case->schedule.calls;
      for (size_t i = 0; i < calls.size(); ++i) {
        const bool is_here = calls[i].copy_from < 0 && graph_case->call_devices[i] == device;
        if (is_here) kernels.push_back(&calls[i].kernel);
      }
    }
    RealizeStats stats;
    find_programs(*device, kernels, stats);
  }
}

Verdict judge_case(const DevicePair& devices, GraphCase& graph_case) {
  realize(graph_case.outputs, &devices.first);
  Verdict verdict;
  const std::vector<OracleValue> expected = expected_values(graph_case);
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::vector<std::byte> got = read_bytes(graph_case.outputs[i]);
    const Comparison comparison = compare(expected[i], got);
    verdict.elements += comparison.compared + comparison.excluded;
    verdict.excluded += comparison.excluded;
    verdict.is_telling = verdict.is_telling || is_telling(expected[i]);
    if (comparison.failed == 0 || verdict.kind == Verdict::Kind::kFailed) continue;
    verdict.kind = Verdict::Kind::kFailed;
    verdict.is_wrong_value = true;
    verdict.text = concat("output ", graph_case.graph.output_names[i], ", ", comparison.failed,
                          " of ", comparison.compared, " wrong: ", comparison.text);
  }
  return verdict;
}

std::string blame(const DevicePair& devices, const TensorGraph& graph, uint64_t seed) {
  GraphCase graph_case = make_case(devices, graph, seed);
  std::string stage = "schedule";
  const Verdict verdict = guarded([&]() -> Verdict {
    lower_case(devices, graph_case, false);
    const std::vector<ScheduledCall>& calls = graph_case.schedule.calls;
    const auto run_kernel = [&](size_t call, const auto& buffers) {
      run_as_kernel(calls[call].kernel, buffers);
    };
    if (!is_right_by(graph_case, run_kernel)) return {};
    stage = "codegen";
    const auto run_program = [&](size_t call, const auto& buffers) {
      run_as_program(*graph_case.call_devices[call], calls[call].kernel, buffers);
    };
    if (is_right_by(graph_case, run_program)) stage = "renderer, compiler or device";
    return {};
  });
  const std::string reason = verdict.text.substr(0, verdict.text.find('\n'));
  return reason.empty() ? stage : concat(stage, " (", reason, ")");
}

Verdict guarded(const std::function<Verdict()>& step) {
  try {
    return step();
  } catch (const Error& error) {
    const bool is_rejected = error.code() == ErrorCode::kUnsupported;
    return {.kind = is_rejected ? Verdict::Kind::kRejected : Verdict::Kind::kFailed,
            .text = error.what()};
  } catch (const std::exception& error) {
    return {.kind = Verdict::Kind::kFailed, .text = concat("exception: ", error.what())};
  }
}

Verdict check_graph(const DevicePair& devices, const TensorGraph& graph, uint64_t seed) {
  return guarded([&] {
    GraphCase graph_case = make_case(devices, graph, seed);
    lower_case(devices, graph_case, true);
    return judge_case(devices, graph_case);
  });
}

}  // namespace tenon::prop
