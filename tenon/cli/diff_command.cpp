// `tenon diff`: what is compared, the report, and repeating a folder. SPDX-License-Identifier: MIT

#include <algorithm>
#include <filesystem>
#include <span>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/cli/arrays.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/console.h"
#include "tenon/cli/data_folder.h"
#include "tenon/cli/diff_folder.h"
#include "tenon/cli/digits.h"
#include "tenon/cli/inputs.h"
#include "tenon/cli/launch.h"
#include "tenon/cli/program_file.h"
#include "tenon/conform/diff.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/kernel.h"

namespace tenon::cli {
namespace {

using Data = std::vector<std::vector<std::byte>>;

// --- what is compared ----------------------------------------------------------------------------

/// Buffers that are no inputs (they are assigned to) become some.
void name_buffers(TensorGraph& graph) {
  for (const Node& node : topological_order(graph.outputs)) {
    const bool is_new =
        node.op() == Op::kBuffer && std::ranges::find(graph.inputs, node) == graph.inputs.end();
    if (!is_new) continue;
    graph.input_names.push_back(concat("buffer", graph.inputs.size()));
    graph.inputs.push_back(node);
  }
}

DiffReport diff(TensorGraph graph, Device& device, const DiffCommandOptions& options) {
  const NamedWords files("--in", options.inputs);
  files.check_names(graph.input_names);
  NamedWords("--set", options.scalars).check_names({});
  name_buffers(graph);
  Data data;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const Node& node = graph.inputs[i];
    NamedArray input = {.name = graph.input_names[i],
                        .dtype = node.dtype(),
                        .shape = Shape(node.shape().begin(), node.shape().end()),
                        .bytes = {}};
    fill_input(input, files, static_cast<int64_t>(i));
    data.push_back(std::move(input.bytes));
  }
  return diff_graph(graph, data, device);
}

DiffReport diff_values(const LinearProgram& program, const std::vector<NamedArray>& parameters,
                       Device& device, const DiffCommandOptions& options) {
  const NamedWords files("--in", options.inputs);
  const NamedWords scalars("--set", options.scalars);
  std::vector<std::string> read_names;
  std::vector<std::string> scalar_names;
  std::vector<DiffArray> arguments;
  size_t num_buffers = 0;
  int64_t num_inputs = 0;
  for (const Argument& argument : program.signature.arguments) {
    DiffArray value{.name = argument.name, .dtype = argument.dtype};
    if (!argument.is_buffer) {
      scalar_names.push_back(argument.name);
      const uint64_t bits = scalar_value(argument, scalars).bits;
      const auto bytes = std::as_bytes(std::span(&bits, 1));
      value.bytes.assign(bytes.begin(), bytes.end());
    } else {
      NamedArray array = parameters.at(num_buffers++);
      if (argument.access != ArgumentAccess::kWrite) {
        read_names.push_back(argument.name);
        fill_input(array, files, num_inputs++);
      }
      value = {argument.name, array.dtype, array.shape, std::move(array.bytes)};
    }
    arguments.push_back(std::move(value));
  }
  files.check_names(read_names);
  scalars.check_names(scalar_names);
  return diff_program(program, arguments, device);
}

DiffReport diff(const LinearProgram& program, Device& device, const DiffCommandOptions& options) {
  return diff_values(program, parameters_of(program.signature), device, options);
}

DiffReport diff(const Kernel& kernel, Device& device, const DiffCommandOptions& options) {
  return diff_values(lower_for(engine_device(device), kernel), parameters_of(kernel), device,
                     options);
}

DiffReport diff(const ProgramObject&, Device&, const DiffCommandOptions&) {
  throw WrongUsage("diff: a .tpo file is compiled already; give the .tg, .tk or .tir file");
}

DiffReport diff_digits(Device& device, const DiffCommandOptions& options) {
  if (options.batch < 1) throw WrongUsage("diff digits: --batch must be at least 1");
  const ScopedDefaultDevice scope(device);
  const std::string folder = find_data_folder(options.data_folder, "digits_test.safetensors");
  const DigitsImages images = load_digits(folder + "/digits_test.safetensors");
  const DigitsNetwork network(folder + "/digits_cnn.safetensors", std::nullopt);
  const int64_t count = std::min(options.batch, images.size());
  std::vector<uint8_t> pixels = images.pixels;
  pixels.resize(static_cast<size_t>(count * kImageSide * kImageSide));
  const Tensor logits = network.logits(Tensor::from_data(pixels, {count, kImageSide, kImageSide}));
  TensorGraph graph{.name = "digits",
                    .inputs = {},
                    .input_names = {},
                    .outputs = {logits.node(), logits.argmax(1).node()},
                    .output_names = {"logits", "predictions"}};
  name_buffers(graph);
  Data data;
  for (const Node& input : graph.inputs)
    data.push_back(read_bytes(input));
  return diff_graph(graph, data, device);
}

// --- what is said of it --------------------------------------------------------------------------

std::string_view meaning_of(DiffVerdict verdict) {
  switch (verdict) {
    case DiffVerdict::kSharedKernel: return "what all devices share is wrong, so every device is";
    case DiffVerdict::kDevice: return "it differs from INTERP on the same program and inputs";
    case DiffVerdict::kUndecided:
      return "it differs from the oracle; the kernel is too large for INTERP to say why";
    case DiffVerdict::kSequence:
      return "each kernel is right alone, all of them one after the other are not";
  }
  return "";
}

std::string counts_of(const DiffReport& report) {
  std::string text = concat("kernels:  ", report.kernels, " ran");
  if (report.bounded > 0) {
    append(text, ", ", report.bounded,
           " with bits of the device's own (within the oracle's radius)");
  }
  if (report.unjudged > 0) append(text, ", ", report.unjudged, " could not be judged");
  if (report.excluded > 0) append(text, ", ", report.excluded, " elements were left out");
  return text + "\n";
}

int show(const DiffReport& report, Device& device, const std::string& folder, bool shows_launch) {
  std::string text = concat("device:   ", device.name(), "\n", counts_of(report));
  if (!report.first) {
    print(text + "no kernel differs\n");
    return kExitOk;
  }
  const Difference& first = *report.first;
  const Difference& kept = report.smallest ? *report.smallest : first;
  const bool is_kernel = first.kernel_number > 0;
  append(text, "differs:  ",
         is_kernel ? concat("kernel ", first.kernel_number, ", ", shown_name(first.kernel))
                   : concat("output ", shown_name(first.kernel)),
         "\nverdict:  ", verdict_name(kept.verdict), ": ", meaning_of(kept.verdict), "\n",
         wrong_elements_text(first));
  if (kept.kernel != first.kernel) append(text, "made small:\n", wrong_elements_text(kept));
  if (!folder.empty()) {
    const std::string path = std::filesystem::absolute(folder).lexically_normal().string();
    append(text, "folder:   ", path, "\nrepeat:   ", repeat_command(path), "\n");
    write_diff_folder(path, report, device, text);
  }
  print(text);
  if (shows_launch) print(first.launch.empty() ? "there was no launch\n" : first.launch);
  return kExitFailed;
}

DiffReport repeat(const DiffFolder& folder, Device& device) {
  if (folder.graph) return diff_graph(*folder.graph, folder.data, device, {.shrink_ns = 0});
  return diff_program(*folder.program, folder.arguments, device, {.shrink_ns = 0},
                      folder.expected ? &*folder.expected : nullptr);
}

}  // namespace

int diff_command(const DiffCommandOptions& options) {
  if (options.file.empty() == options.repeat_folder.empty()) {
    throw WrongUsage("diff: give a program (FILE.tg, .tk, .tir, or digits) or --repeat FOLDER");
  }
  if (!options.repeat_folder.empty()) {
    const DiffFolder folder = read_diff_folder(options.repeat_folder);
    Device& device = chosen_device(options.device.empty() ? folder.device : options.device);
    return show(repeat(folder, device), device, "", options.shows_launch);
  }
  const bool is_digits = options.file == "digits";
  std::optional<ProgramFile> file;
  if (!is_digits) file = load_program_file(options.file);
  Device& device = chosen_device(options.device);
  const DiffReport report =
      is_digits
          ? diff_digits(device, options)
          : std::visit([&](const auto& program) { return diff(program, device, options); }, *file);
  return show(report, device, options.out_folder, options.shows_launch);
}

}  // namespace tenon::cli
