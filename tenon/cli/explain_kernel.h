// One kernel, or one linear program, at every level below the schedule. The lower half of
// `tenon explain`. SPDX-License-Identifier: MIT

#pragma once

#include <set>
#include <string>
#include <string_view>

#include "tenon/engine/engine_device.h"
#include "tenon/engine/given_plans.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"

namespace tenon::cli {

/// Which levels are printed, and how much of the passes.
struct ExplainView {
  std::set<std::string> levels;
  bool shows_passes = false;
  bool shows_plans = false;
  const GivenPlans* plans = nullptr;

  bool has(std::string_view level) const { return levels.contains(std::string(level)); }
  /// Nothing after the Plan is asked for.
  bool ends_with_plan() const {
    return !has("passes") && !has("linear") && !has("source") && !has("disassembly");
  }
};

/// "== kernel NAME: LEVEL" and the text.
void print_section(std::string_view kernel, std::string_view level, std::string_view text);

/// Kernel, Plan, passes, then explain_linear. `name` is the function's name in the binary.
void explain_kernel(const Kernel& kernel, const std::string& name, const EngineDevice& device,
                    const ExplainView& view);

/// Linear program, source, disassembly.
void explain_linear(const LinearProgram& program, const std::string& name,
                    const EngineDevice& device, const ExplainView& view);

}  // namespace tenon::cli
