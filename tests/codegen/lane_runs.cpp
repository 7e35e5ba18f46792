// SPDX-License-Identifier: MIT

#include "tests/codegen/lane_runs.h"

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/interp/interpret.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"

namespace tenon::test {

std::string run_lanes(const LinearProgram& program, KernelMemory& memory,
                      const std::vector<std::byte>& expected) {
  memory.reset();
  try {
    interpret(program, memory.program_arguments(program.signature));
  } catch (const Error& error) {
    return error.what();
  }
  if (memory.outputs() == expected && memory.guard_finding().empty()) return "";
  return concat("outputs differ ", memory.guard_finding());
}

std::string first_wrong_pass(const Kernel& kernel, const Target& target, KernelMemory& memory,
                             const std::vector<std::byte>& expected, CodegenOptions options) {
  std::string wrong;
  std::string last;  // what a pass made, if its evaluation or its check throws
  const auto judge = [&](std::string_view pass, std::string finding) {
    if (wrong.empty() && !finding.empty()) wrong = concat(pass, ": ", finding, "\n", last);
  };
  options.verify = true;
  options.on_kernel = [&](std::string_view pass, const Kernel& nest) {
    last = concat(pass, "\n", to_text(nest));
    const bool is_same = outputs_of(nest, memory) == expected && memory.guard_finding().empty();
    judge(pass, is_same ? "" : concat("outputs differ ", memory.guard_finding()));
  };
  options.on_linear = [&](std::string_view pass, const LinearProgram& program) {
    last = concat(last, pass, "\n", to_text(program));
    judge(pass, run_lanes(program, memory, expected));
  };
  try {
    lower_kernel(kernel, target, options);
  } catch (const std::exception& error) {
    return concat(wrong, "thrown after ", last, error.what());
  }
  return wrong;
}

std::vector<std::byte> outputs_of(const Kernel& kernel, KernelMemory& memory) {
  memory.reset();
  eval_kernel(kernel, memory.kernel_arguments());
  return memory.outputs();
}

}  // namespace tenon::test
