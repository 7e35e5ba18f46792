// SPDX-License-Identifier: MIT

#include "tenon/codegen/prepare_kernel.h"

#include "tenon/codegen/build_nest.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/merge_axes.h"
#include "tenon/codegen/offset_products.h"
#include "tenon/codegen/unit_plans.h"

namespace tenon {
namespace {

// With products offset where that makes the cheaper plan.
Kernel prepared_for_units(const Kernel& kernel, const Target& target) {
  auto offset = offset_products(kernel, target);
  const auto plan = offset ? unit_plan(*offset, target) : std::nullopt;
  if (!plan) return kernel;
  const double seconds = choose_plans(kernel, target, 1).front().cost.seconds;
  return cost_of(*offset, *plan, target).seconds < seconds ? *std::move(offset) : kernel;
}

}  // namespace

Kernel prepare_kernel(const Kernel& kernel, const Target& target,
                      const std::function<void(std::string_view, const Kernel&)>& after) {
  Kernel result = kernel;
  const auto run = [&](std::string_view pass, const auto& function) {
    result = function(result);
    if (after) after(pass, result);
  };
  run("split_root", split_root);
  run("merge_axes", merge_axes);
  run("prepared_for_units", [&](const Kernel& one) { return prepared_for_units(one, target); });
  return result;
}

}  // namespace tenon
