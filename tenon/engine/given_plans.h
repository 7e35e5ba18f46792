// Plans that a person wrote, for kernels by name: the text of `--plan FILE`. Passed to realize and
// find_programs, where they take the place of what choose_plan would choose.
// SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/codegen/plan.h"

namespace tenon {

class GivenPlans {
 public:
  GivenPlans() = default;
  /// Any number of plans in the form of plan_text.h, one after the other. Each names its kernel, or
  /// the function of the kernel (see kernel_symbol), as `tenon explain` shows it. Throws
  /// kInvalidArgument "source:line: ..." where it cannot tell them apart.
  GivenPlans(std::string_view text, std::string_view source_name);

  const std::string& text() const { return text_; }
  /// The text for this kernel, or nothing.
  std::optional<std::string_view> find(const Kernel& kernel) const;
  /// The plan for this kernel, if there is one. Throws kInvalidArgument where it is not well formed
  /// or does not fit, with the reason.
  std::optional<Plan> plan_for(const Kernel& kernel, const Target& target) const;
  /// Throws kInvalidArgument if a plan names none of these kernels.
  void check_names(std::span<const Kernel* const> kernels) const;

 private:
  struct Given {
    std::string name;
    int line = 1;  ///< where it begins
    std::string text;
  };
  const Given* given_for(const Kernel& kernel) const;

  std::string text_;
  std::string source_name_;
  std::vector<Given> plans_;
};

}  // namespace tenon
