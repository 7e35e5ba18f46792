// SPDX-License-Identifier: MIT

#include "tenon/cli/program_file.h"

#include <string_view>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/cli/console.h"
#include "tenon/ir/graph_text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_verify.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"

namespace tenon::cli {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;

Kernel load_kernel(const std::string& path, Unproven unproven) {
  Kernel kernel = parse_kernel(read_file(path, kMaxTextBytes), path);
  const KernelStage stage = kernel.is_nest ? KernelStage::kNest : KernelStage::kComps;
  std::vector<Finding> errors;
  std::vector<Finding> doubts;
  for (Finding& finding : verify_kernel(kernel, stage)) {
    const bool is_place = finding.rule == "V2" || finding.rule == "V3";
    if (finding.severity == Severity::kError) {
      errors.push_back(std::move(finding));
    } else if (is_place) {
      doubts.push_back(std::move(finding));
    }
  }
  TENON_CHECK(errors.empty(), ErrorCode::kInvalidArgument, path, ": kernel '", kernel.name,
              "' breaks rules of docs/ir.md:\n", to_text(errors));
  if (doubts.empty()) return kernel;
  const std::string text =
      concat(path, ": kernel '", kernel.name, "' may touch wrong places:\n", to_text(doubts),
             "Gate such a read, guard such a write, or clip its index");
  TENON_CHECK(unproven == Unproven::kNoted, ErrorCode::kInvalidArgument, text);
  print_note(text);
  return kernel;
}

LinearProgram load_linear(const std::string& path) {
  LinearProgram program = parse_linear(read_file(path, kMaxTextBytes), path);
  with_context([&] { check_linear(program, nullptr, ErrorCode::kInvalidArgument); }, "reading '",
               path, "'");
  return program;
}

ProgramObject load_object(const std::string& path) {
  const std::string bytes = read_file(path);
  return with_context([&] { return parse_program_object(std::as_bytes(std::span(bytes))); },
                      "reading '", path, "'");
}

}  // namespace

ProgramFile load_program_file(const std::string& path, Unproven unproven) {
  if (path.ends_with(".tg")) return parse_graph(read_file(path, kMaxTextBytes), path);
  if (path.ends_with(".tk")) return load_kernel(path, unproven);
  if (path.ends_with(".tir")) return load_linear(path);
  if (path.ends_with(".tpo")) return load_object(path);
  throw WrongUsage(concat("'", path,
                          "': this file name tells no kind of program; expected .tg (tensor "
                          "graph), .tk (kernel), .tir (linear program) or .tpo (compiled)"));
}

std::optional<GivenPlans> load_plans(const std::string& path, const ProgramFile& program) {
  if (path.empty()) return std::nullopt;
  const auto* kernel = std::get_if<Kernel>(&program);
  const bool has_plans =
      std::holds_alternative<TensorGraph>(program) || (kernel != nullptr && !kernel->is_nest);
  if (!has_plans) {
    throw WrongUsage(
        "--plan: a nest, a linear or a compiled program has its Plan behind it; give a .tg or "
        ".tk file of kernels");
  }
  return GivenPlans(read_file(path, kMaxTextBytes), path);
}

Device& chosen_device(const std::string& name) {
  return name.empty() ? Device::get_default() : Device::get(name);
}

}  // namespace tenon::cli
