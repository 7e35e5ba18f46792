// SPDX-License-Identifier: MIT

#include "tenon/interp/interpret.h"

#include <vector>

#include "tenon/base/error.h"
#include "tenon/ir/linear_verify.h"

namespace tenon {

void interpret(const LinearProgram& program, std::span<const ArgumentValue> arguments,
               const InterpOptions& options) {
  check_linear(program, nullptr, ErrorCode::kInvalidArgument);
  const std::vector<ArgumentValue> values(arguments.begin(), arguments.end());
  const auto difference = why_arguments_differ(program.signature, values);
  TENON_CHECK(!difference, ErrorCode::kInvalidArgument, "kernel '", program.name,
              "': ", *difference);
  const CheckedProgram checked(program, options);
  std::vector<CheckedArgument> given;
  for (const ArgumentValue& value : values) {
    const auto size = static_cast<size_t>(value.is_buffer ? value.size_bytes : 0);
    given.push_back({.bytes = {static_cast<std::byte*>(value.address), size}, .bits = value.bits});
  }
  const CheckedRun run = checked.run(given);
  if (run.fault) fail(ErrorCode::kInvalidArgument, run.fault->text);
}

}  // namespace tenon
