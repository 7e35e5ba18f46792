// `tenon run FILE`. SPDX-License-Identifier: MIT

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/cli/arrays.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/console.h"
#include "tenon/cli/inputs.h"
#include "tenon/cli/launch.h"
#include "tenon/cli/program_file.h"
#include "tenon/engine/device_spec.h"
#include "tenon/engine/program_store.h"
#include "tenon/types/target.h"

namespace tenon::cli {
namespace {

void show(std::span<const NamedArray> outputs, const std::string& folder,
          std::string_view last_line) {
  for (const NamedArray& output : outputs)
    print(describe(output));
  if (!folder.empty()) {
    for (const std::string& path : write_arrays(folder, outputs))
      print(concat("wrote ", path, "\n"));
  }
  print(concat(last_line, "\n"));
}

/// The graph's outputs over buffers that hold the inputs' values. Buffers that are no inputs (they
/// are assigned to) hold position-coded values too, numbered after the inputs.
std::vector<Node> bind_inputs(const TensorGraph& graph, Device& device, const NamedWords& files) {
  std::unordered_map<const void*, Node> bound;
  int64_t number = 0;
  const auto bind = [&](const Node& buffer, const std::string& name) {
    NamedArray input = {.name = name,
                        .dtype = buffer.dtype(),
                        .shape = Shape(buffer.shape().begin(), buffer.shape().end()),
                        .bytes = {}};
    fill_input(input, files, number++);
    bound[buffer.id()] = buffer_from_bytes(device, input.dtype, input.shape, input.bytes);
  };
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    bind(graph.inputs[i], graph.input_names[i]);
  for (const Node& node : topological_order(graph.outputs)) {
    if (bound.contains(node.id())) continue;
    if (node.op() == Op::kBuffer) {
      bind(node, "");
      continue;
    }
    std::vector<Node> srcs;
    for (const Node& src : node.srcs())
      srcs.push_back(bound.at(src.id()));
    bound[node.id()] = rebuild_tensor_node(node, srcs);
  }
  std::vector<Node> outputs;
  for (const Node& output : graph.outputs)
    outputs.push_back(bound.at(output.id()));
  return outputs;
}

void run(const TensorGraph& graph, const RunOptions& options, const GivenPlans* plans) {
  const NamedWords files("--in", options.inputs);
  files.check_names(graph.input_names);
  NamedWords("--set", options.scalars).check_names({});
  Device& device = chosen_device(options.device);
  const std::vector<Node> nodes = bind_inputs(graph, device, files);
  RealizeStats stats;
  const int64_t start_ns = now_ns();
  realize(nodes, &device, &stats, plans);
  const int64_t time_ns = now_ns() - start_ns;
  std::vector<NamedArray> outputs;
  for (size_t i = 0; i < nodes.size(); ++i) {
    outputs.push_back({.name = graph.output_names[i],
                       .dtype = nodes[i].dtype(),
                       .shape = Shape(nodes[i].shape().begin(), nodes[i].shape().end()),
                       .bytes = read_bytes(nodes[i])});
  }
  show(outputs, options.out_folder,
       concat(stats.kernels, stats.kernels == 1 ? " kernel on " : " kernels on ", device.name(),
              ": ", format_time(time_ns), ", of it in kernels ", format_time(stats.kernel_ns)));
}

void launch_and_show(Queue& queue, BufferPool& pool, const Program& program,
                     std::vector<NamedArray> parameters, const RunOptions& options,
                     std::string_view device_text) {
  const LaunchResult result =
      launch_once(queue, pool, program, std::move(parameters), NamedWords("--in", options.inputs),
                  NamedWords("--set", options.scalars));
  show(result.outputs, options.out_folder,
       concat("program ", shown_name(program.name()), " on ", device_text, ": ",
              format_time(result.time_ns)));
}

void run(const Kernel& kernel, const RunOptions& options, const GivenPlans* plans) {
  EngineDevice& device = engine_device(chosen_device(options.device));
  RealizeStats stats;
  const Kernel* const kernels[] = {&kernel};
  if (plans != nullptr) plans->check_names(kernels);
  const ProgramPtr program = find_programs(device, kernels, stats, plans).at(0);
  launch_and_show(device.queue(), device.pool(), *program, parameters_of(kernel), options,
                  device.name());
}

void run(const LinearProgram& linear, const RunOptions& options, const GivenPlans*) {
  EngineDevice& device = engine_device(chosen_device(options.device));
  const Program program(device.driver(), compile_linear(device, linear));
  launch_and_show(device.queue(), device.pool(), program, parameters_of(linear.signature), options,
                  device.name());
}

/// The named backend's device, opened for the programs of `target` without any renderer or
/// compiler: those need not be there. Empty: as DEV says, else the backend of highest rank.
std::unique_ptr<DeviceDriver> open_for(const std::string& name, const Target& target) {
  std::string text = name.empty() ? setting_string(Setting::kDevice) : name;
  text = std::string(trim(std::string_view(text).substr(0, text.find(';'))));
  DeviceNames names;
  const BackendDescriptor* backend = nullptr;
  for (const BackendDescriptor* other : all_backends()) {
    names.devices.push_back(other->name);
    if (other->takes_path) names.path_devices.push_back(other->name);
    const bool is_better = backend == nullptr || other->default_rank > backend->default_rank;
    if (is_better && !other->why_absent()) backend = other;
  }
  int index = 0;
  if (!text.empty()) {
    const DeviceSpec spec = parse_device_spec(text, names);
    backend = find_backend(spec.device);
    index = spec.index;
  }
  TENON_CHECK(backend != nullptr, ErrorCode::kNotFound, "no backend that is built has a device");
  if (const std::optional<std::string> reason = backend->why_absent()) {
    fail(ErrorCode::kNotFound, "opening device '", text, "': ", *reason);
  }
  TENON_CHECK(!backend->takes_path, ErrorCode::kUnsupported, "the device '", text,
              "' holds bytes and runs no programs. Choose another one with --device");
  TENON_CHECK(index < backend->num_devices(), ErrorCode::kNotFound, "opening device '", text,
              "': there is no device ", index, "; ", backend->name, " has ",
              backend->num_devices());
  return backend->open(index, target);
}

void run(const ProgramObject& object, const RunOptions& options, const GivenPlans*) {
  const Target target = with_context([&] { return parse_target(object.target); },
                                     "reading the Target of '", options.file, "'");
  const std::unique_ptr<DeviceDriver> device = open_for(options.device, target);
  BufferPool pool(device->allocator(), device->name(), device->pool_options());
  const Program program(*device, object);
  const std::unique_ptr<Queue> queue = device->make_queue();
  launch_and_show(*queue, pool, program, parameters_of(object.signature), options, device->name());
}

}  // namespace

int run_command(const RunOptions& options) {
  const ProgramFile file = load_program_file(options.file);
  if (!options.out_folder.empty()) create_folders(options.out_folder);  // before the work
  const std::optional<GivenPlans> plans = load_plans(options.plan_file, file);
  std::visit([&](const auto& program) { run(program, options, plans ? &*plans : nullptr); }, file);
  return kExitOk;
}

}  // namespace tenon::cli
