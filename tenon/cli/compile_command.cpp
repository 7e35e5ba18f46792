// `tenon compile FILE -o FILE.tpo`. SPDX-License-Identifier: MIT

#include <set>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/console.h"
#include "tenon/cli/program_file.h"
#include "tenon/engine/program_store.h"
#include "tenon/schedule/schedule.h"

namespace tenon::cli {
namespace {

/// Parameters get the names that the graph has for them, where each has one and all differ, so that
/// the compiled program can be used by them.
void name_parameters(Kernel& kernel, const Schedule& schedule, const TensorGraph& graph) {
  std::vector<std::string> names;
  for (const int number : schedule.calls[0].buffers) {
    const ScheduledBuffer& buffer = schedule.buffers[static_cast<size_t>(number)];
    const auto& nodes = buffer.is_given ? graph.inputs : graph.outputs;
    const auto& of_nodes = buffer.is_given ? graph.input_names : graph.output_names;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i] == buffer.node) {
        names.push_back(of_nodes[i]);
        break;
      }
    }
  }
  const bool is_complete = names.size() == schedule.calls[0].buffers.size() &&
                           std::set<std::string>(names.begin(), names.end()).size() == names.size();
  if (!is_complete) return;
  for (size_t i = 0; i < names.size(); ++i)
    kernel.buffers[i].name = names[i];
}

ProgramObject compile(const Kernel& kernel, const EngineDevice& device) {
  return compile_linear(device, lower_for(device, kernel));
}

ProgramObject compile(const LinearProgram& program, const EngineDevice& device) {
  return compile_linear(device, program);
}

ProgramObject compile(const TensorGraph& graph, const EngineDevice& device) {
  Schedule schedule =
      schedule_graph(graph.outputs, {.is_known = {},
                                     .max_arguments = device.target().max_arguments,
                                     .max_local_bytes = device.target().max_local_bytes,
                                     .units = device.target().units});
  TENON_CHECK(schedule.calls.size() == 1 && schedule.calls[0].copy_from < 0,
              ErrorCode::kInvalidArgument, "compile: graph '", graph.name, "' takes ",
              schedule.calls.size(),
              " steps; a .tpo file holds one kernel. See them with tenon explain");
  Kernel kernel = schedule.calls[0].kernel;
  name_parameters(kernel, schedule, graph);
  return compile(kernel, device);
}

ProgramObject compile(const ProgramObject&, const EngineDevice&) {
  throw WrongUsage("compile: a .tpo file is compiled already");
}

}  // namespace

int compile_command(const CompileOptions& options) {
  if (!options.output.ends_with(".tpo")) {
    throw WrongUsage(concat("-o '", options.output, "': compiled programs end in .tpo"));
  }
  const ProgramFile file = load_program_file(options.file);
  const EngineDevice& device = engine_device(chosen_device(options.device));
  const ProgramObject object =
      std::visit([&](const auto& program) { return compile(program, device); }, file);
  const std::vector<std::byte> bytes = serialize_program_object(object);
  write_file_atomic(options.output, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  print(concat("wrote ", options.output, ": program ", object.entry, ", ",
               object.signature.arguments.size(), " arguments, ",
               format_bytes(object.payload.size()), " of ", object.payload_format, "\n"));
  return kExitOk;
}

}  // namespace tenon::cli
