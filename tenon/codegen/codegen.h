// From a kernel (2a) to a linear program for a Target: the pipeline of passes. Called by the
// engine, the command and tests. Adds no kernel and no buffer between kernels.
// SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tenon/codegen/lowering_rules.h"
#include "tenon/codegen/plan.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"
#include "tenon/types/target.h"

namespace tenon {

struct CodegenOptions {
  bool verify = false;                  ///< run the level's verifier after every pass
  std::optional<Plan> plan;             ///< for the prepared kernel; else choose_plan decides
  bool is_simple = false;               ///< without a plan: simple_plan instead of choose_plan
  std::span<const LoweringRule> rules;  ///< of the backend
  /// Called after each pass that works on kernels, and after each that works on the program.
  std::function<void(std::string_view pass, const Kernel&)> on_kernel;
  std::function<void(std::string_view pass, const LinearProgram&)> on_linear;
};

/// Throws kUnsupported with the reason if the Target cannot run the kernel (op, dtype, limit).
LinearProgram lower_kernel(const Kernel& kernel, const Target& target,
                           const CodegenOptions& options = {});

}  // namespace tenon
