// SPDX-License-Identifier: MIT

#include "tenon/codegen/prepare_kernel.h"

#include "tenon/codegen/build_nest.h"
#include "tenon/codegen/merge_axes.h"
#include "tenon/codegen/unit_plans.h"

namespace tenon {

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
