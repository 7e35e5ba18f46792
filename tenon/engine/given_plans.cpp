// SPDX-License-Identifier: MIT

#include "tenon/engine/given_plans.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/engine/device_spec.h"
#include "tenon/engine/program_store.h"

namespace tenon {
namespace {

constexpr std::string_view kHead = "plan ";

}  // namespace

GivenPlans::GivenPlans(std::string_view text, std::string_view source_name)
    : text_(text), source_name_(source_name) {
  int line = 0;
  for (const std::string_view words : split(text, '\n')) {
    ++line;
    const std::string_view trimmed = trim(words);
    if (trimmed.starts_with(kHead)) {
      std::string_view name = trim(trimmed.substr(kHead.size()));
      name = name.substr(0, name.find_first_of(" \t{"));
      const bool is_known = std::any_of(plans_.begin(), plans_.end(),
                                        [&](const Given& given) { return given.name == name; });
      TENON_CHECK(!is_known, ErrorCode::kInvalidArgument, source_name, ":", line,
                  ": there are two plans for '", name, "'");
      plans_.push_back({.name = std::string(name), .line = line, .text = {}});
    }
    if (plans_.empty()) {
      TENON_CHECK(trimmed.empty(), ErrorCode::kInvalidArgument, source_name, ":", line,
                  ": expected 'plan KERNEL {', got ", quoted(trimmed));
      continue;
    }
    append(plans_.back().text, words, "\n");
  }
  TENON_CHECK(!plans_.empty(), ErrorCode::kInvalidArgument, source_name,
              ": there is no plan in it");
}

const GivenPlans::Given* GivenPlans::given_for(const Kernel& kernel) const {
  for (const Given& given : plans_) {
    if (given.name == kernel.name || given.name == kernel_symbol(kernel)) return &given;
  }
  return nullptr;
}

std::optional<std::string_view> GivenPlans::find(const Kernel& kernel) const {
  const Given* const given = plans_.empty() ? nullptr : given_for(kernel);
  if (given == nullptr) return std::nullopt;
  return given->text;
}

std::optional<Plan> GivenPlans::plan_for(const Kernel& kernel, const Target& target) const {
  const Given* const given = plans_.empty() ? nullptr : given_for(kernel);
  if (given == nullptr) return std::nullopt;
  // Lines before it, so that errors name the right one; the name as the kernel has it.
  std::string text(static_cast<size_t>(given->line - 1), '\n');
  const size_t name_end = given->text.find(given->name) + given->name.size();
  append(text, kHead, kernel.name, std::string_view(given->text).substr(name_end));
  const Kernel prepared = prepare_kernel(kernel, target);
  Plan plan = parse_plan(text, prepared, source_name_);
  const std::optional<std::string> reason = check_plan(prepared, plan, target);
  TENON_CHECK(!reason, ErrorCode::kInvalidArgument, source_name_, ":", given->line,
              ": the plan for '", given->name, "' does not fit: ", *reason);
  return plan;
}

void GivenPlans::check_names(std::span<const Kernel* const> kernels) const {
  std::vector<std::string> known;
  for (const Kernel* kernel : kernels)
    known.push_back(kernel_symbol(*kernel));
  for (const Given& given : plans_) {
    const bool is_known = std::any_of(kernels.begin(), kernels.end(), [&](const Kernel* kernel) {
      return kernel->name == given.name || kernel_symbol(*kernel) == given.name;
    });
    TENON_CHECK(is_known, ErrorCode::kInvalidArgument, source_name_, ":", given.line,
                ": there is no kernel '", given.name, "'",
                suggest_name(given.name, known, "Kernels"));
  }
}

}  // namespace tenon
