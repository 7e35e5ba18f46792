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

Kernel load_kernel(const std::string& path) {
  Kernel kernel = parse_kernel(read_file(path, kMaxTextBytes), path);
  const KernelStage stage = kernel.is_nest ? KernelStage::kNest : KernelStage::kComps;
  std::vector<Finding> errors;
  for (Finding& finding : verify_kernel(kernel, stage)) {
    if (finding.severity == Severity::kError) errors.push_back(std::move(finding));
  }
  TENON_CHECK(errors.empty(), ErrorCode::kInvalidArgument, path, ": kernel '", kernel.name,
              "' breaks rules of docs/ir.md:\n", to_text(errors));
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

ProgramFile load_program_file(const std::string& path) {
  if (path.ends_with(".tg")) return parse_graph(read_file(path, kMaxTextBytes), path);
  if (path.ends_with(".tk")) return load_kernel(path);
  if (path.ends_with(".tir")) return load_linear(path);
  if (path.ends_with(".tpo")) return load_object(path);
  throw WrongUsage(concat("'", path,
                          "': this file name tells no kind of program; expected .tg (tensor "
                          "graph), .tk (kernel), .tir (linear program) or .tpo (compiled)"));
}

std::optional<GivenPlans> load_plans(const std::string& path, const ProgramFile& program) {
  if (path.empty()) return std::nullopt;
  if (!std::holds_alternative<TensorGraph>(program) && !std::holds_alternative<Kernel>(program)) {
    throw WrongUsage(
        "--plan: a linear or compiled program has its Plan behind it; give a .tg or "
        ".tk file");
  }
  return GivenPlans(read_file(path, kMaxTextBytes), path);
}

Device& chosen_device(const std::string& name) {
  return name.empty() ? Device::get_default() : Device::get(name);
}

}  // namespace tenon::cli
