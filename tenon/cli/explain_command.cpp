// `tenon explain FILE`: sections in the order of the road, each under the name of its kernel.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <span>
#include <unordered_map>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/console.h"
#include "tenon/cli/explain_kernel.h"
#include "tenon/cli/program_file.h"
#include "tenon/engine/device_spec.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/graph_text.h"
#include "tenon/schedule/schedule.h"

namespace tenon::cli {
namespace {

/// Names of a graph's nodes as to_text(graph) writes them.
std::unordered_map<const void*, std::string> node_names(const TensorGraph& graph) {
  std::unordered_map<const void*, std::string> names;
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    names.emplace(graph.inputs[i].id(), "%" + shown_name(graph.input_names[i]));
  int64_t next_number = 0;
  for (const Node& node : topological_order(graph.outputs)) {
    if (!names.contains(node.id())) names.emplace(node.id(), concat("%", next_number++));
  }
  return names;
}

std::string schedule_text(const Schedule& schedule, const TensorGraph& graph,
                          const std::vector<std::string>& kernel_names) {
  const auto names = node_names(graph);
  // What the schedule has added is not in the graph.
  const auto name_of = [&](int number) {
    const auto name = names.find(schedule.buffers[static_cast<size_t>(number)].node.id());
    return name == names.end() ? concat("(", number, ")") : name->second;
  };
  Table buffers;
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const ScheduledBuffer& buffer = schedule.buffers[i];
    std::string outputs;
    for (size_t output = 0; output < graph.outputs.size(); ++output) {
      if (schedule.outputs[output] == static_cast<int>(i))
        append(outputs, " = ", shown_name(graph.output_names[output]));
    }
    buffers.add({name_of(static_cast<int>(i)) + outputs,
                 concat(dtype_name(buffer.dtype), "[", join(buffer.shape, ","), "]"),
                 (buffer.is_given ? "" : "stored: ") + buffer.reason});
  }
  Table calls;
  for (size_t i = 0; i < schedule.calls.size(); ++i) {
    const ScheduledCall& call = schedule.calls[i];
    std::string sources = call.copy_from >= 0 ? name_of(call.copy_from) : std::string();
    for (size_t source = 1; source < call.buffers.size(); ++source)
      append(sources, sources.empty() ? "" : ", ", name_of(call.buffers[source]));
    calls.add({concat(i + 1, "."), kernel_names[i],
               concat(name_of(call.buffers[0]), sources.empty() ? "" : " <- ", sources)});
  }
  return concat("== schedule: ", schedule.calls.size(),
                schedule.calls.size() == 1 ? " step, " : " steps, ", schedule.buffers.size(),
                schedule.buffers.size() == 1 ? " buffer\n" : " buffers\n", buffers.text(2),
                calls.text(2), "\n");
}

void explain(const TensorGraph& graph, const std::string& device_name, const ExplainView& view) {
  if (view.has("graph")) print(concat("== tensor graph\n", to_text(graph), "\n"));
  const EngineDevice& device = engine_device(chosen_device(device_name));
  const Schedule schedule = schedule_graph(graph.outputs, schedule_options(device.target()));
  std::vector<std::string> names;
  for (const ScheduledCall& call : schedule.calls)
    names.push_back(call.copy_from >= 0 ? "copy" : kernel_symbol(call.kernel));
  if (view.has("schedule")) print(schedule_text(schedule, graph, names));
  if (view.plans != nullptr) {
    std::vector<const Kernel*> kernels;
    for (const ScheduledCall& call : schedule.calls)
      if (call.copy_from < 0) kernels.push_back(&call.kernel);
    view.plans->check_names(kernels);
  }
  size_t num_refused = 0;
  for (size_t i = 0; i < schedule.calls.size(); ++i) {
    const bool is_new = std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i),
                                  names[i]) == names.begin() + static_cast<std::ptrdiff_t>(i);
    if (schedule.calls[i].copy_from >= 0 || !is_new) continue;
    try {
      explain_kernel(schedule.calls[i].kernel, names[i], device, view);
    } catch (const Error& error) {
      if (error.reason() == nullptr) throw;
      print_section(names[i], "not for this device", to_text(*error.reason()));
      ++num_refused;
    }
  }
  TENON_CHECK(num_refused == 0, ErrorCode::kUnsupported, "explain: ", num_refused, " of ",
              schedule.calls.size(), " steps are not for device '", device.name(),
              "'; each says why");
}

void explain(const Kernel& kernel, const std::string& device_name, const ExplainView& view) {
  const Kernel* const kernels[] = {&kernel};
  if (view.plans != nullptr) view.plans->check_names(kernels);
  explain_kernel(kernel, kernel_symbol(kernel), engine_device(chosen_device(device_name)), view);
}

void explain(const LinearProgram& program, const std::string& device_name,
             const ExplainView& view) {
  explain_linear(program, program.name, engine_device(chosen_device(device_name)), view);
}

std::string_view access_name(ArgumentAccess access) {
  switch (access) {
    case ArgumentAccess::kRead: return "read";
    case ArgumentAccess::kWrite: return "write";
    case ArgumentAccess::kReadWrite: return "readwrite";
  }
  return "";
}

// Strings of a file from outside are quoted: they may hold anything.
void explain(const ProgramObject& object, const std::string&, const ExplainView&) {
  Table table;
  table.add({"target", quoted(object.target)});
  table.add({"grid", concat(object.grid)});
  table.add({"lanes", concat(object.lanes)});
  table.add({"scratch", concat(object.scratch_bytes, " bytes of group memory")});
  table.add(
      {"payload", concat(object.payload.size(), " bytes of ", quoted(object.payload_format))});
  Table arguments;
  const ArgumentLayout layout = layout_arguments(object.signature);
  for (size_t i = 0; i < object.signature.arguments.size(); ++i) {
    const Argument& argument = object.signature.arguments[i];
    std::string size;
    if (argument.is_buffer) {
      size = concat(dtype_name(argument.dtype), "[", argument.num_elements, "]");
    } else {
      size = std::string(dtype_name(argument.dtype));
      if (!is_float(argument.dtype)) append(size, " in ", argument.min, "..", argument.max);
    }
    arguments.add({concat(i), quoted(argument.name), size,
                   std::string(argument.is_buffer ? access_name(argument.access) : "scalar"),
                   concat("at byte ", layout.offsets[i])});
  }
  print(concat("== program ", quoted(object.entry), "\n", table.text(2), "  arguments (",
               layout.size_bytes, " bytes)\n", arguments.text(4)));
}

}  // namespace

std::vector<std::string> explain_levels() {
  return {"graph", "schedule", "kernel", "plan", "passes", "linear", "source", "disassembly"};
}

namespace {

/// A later form of a program has no earlier levels.
void check_levels(const std::vector<std::string>& wanted, const ProgramFile& file) {
  const std::vector<std::string> all = explain_levels();
  std::string_view first;  // none of a compiled program
  if (std::holds_alternative<TensorGraph>(file)) first = all.front();
  if (std::holds_alternative<Kernel>(file)) first = "kernel";
  if (std::holds_alternative<LinearProgram>(file)) first = "linear";
  const std::span<const std::string> known(std::find(all.begin(), all.end(), first), all.end());
  const bool has_some = std::any_of(wanted.begin(), wanted.end(), [&](const std::string& level) {
    return std::find(known.begin(), known.end(), level) != known.end();
  });
  if (has_some || wanted.size() == all.size()) return;
  throw WrongUsage(known.empty() ? "explain: a .tpo file is compiled and has no levels"
                                 : concat("explain: this program has no such level; it has ",
                                          join(known, ", ")));
}

}  // namespace

int explain_command(const ExplainOptions& options) {
  const std::vector<std::string> known = explain_levels();
  const std::vector<std::string>& wanted = options.levels.empty() ? known : options.levels;
  for (const std::string& level : wanted) {
    if (std::find(known.begin(), known.end(), level) == known.end()) {
      throw WrongUsage(
          concat("explain: there is no level '", level, "'", suggest_name(level, known, "Levels")));
    }
  }
  ExplainView view = {.levels = {wanted.begin(), wanted.end()},
                      .shows_passes = options.shows_passes,
                      .shows_plans = options.shows_plans,
                      .plans = nullptr};
  if (options.shows_plans && options.levels.empty()) view.levels = {"plan"};
  const ProgramFile file = load_program_file(options.file, Unproven::kNoted);
  check_levels(wanted, file);
  const std::optional<GivenPlans> plans = load_plans(options.plan_file, file);
  if (plans) view.plans = &*plans;
  std::visit([&](const auto& program) { explain(program, options.device, view); }, file);
  return kExitOk;
}

}  // namespace tenon::cli
