// Runs nests and kernels with lanes in every way there is: eval_kernel after each pass, the linear
// program in the checked interpreter, which finds races. SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <vector>

#include "tenon/codegen/codegen.h"
#include "tests/support/random_kernel.h"

namespace tenon::test {

/// Runs the program: what a check finds, or what differs from `expected`, or nothing. The one place
/// where tests of lanes run programs.
std::string run_lanes(const LinearProgram& program, KernelMemory& memory,
                      const std::vector<std::byte>& expected);

/// Lowers a kernel, or a nest, with every result verified, and runs what each pass makes; the first
/// pass after which the outputs differ from `expected`, with its text, or nothing.
std::string first_wrong_pass(const Kernel& kernel, const Target& target, KernelMemory& memory,
                             const std::vector<std::byte>& expected, CodegenOptions options = {});

/// What eval_kernel gives.
std::vector<std::byte> outputs_of(const Kernel& kernel, KernelMemory& memory);

}  // namespace tenon::test
