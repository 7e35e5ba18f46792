// What each pass makes of a small kernel, as text: tests/golden/codegen. The input is a kernel
// (2a); the action names the pass after which the nest or program is shown ("vectors_PASS",
// "units_PASS", "tiles_PASS", "lanes_PASS": for a Target with vectors, with matrix units on them,
// on tiles, with lanes). SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/error.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/support/golden.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

std::string after_pass(const GoldenFile& file) {
  const Kernel kernel = parse_kernel(file.input, file.name);
  Target target = scalar_target();
  std::string action = file.action;
  for (const auto& [prefix, other] :
       {std::pair<std::string_view, Target>("vectors_", vector_target()),
        {"units_", unit_target()},
        {"tiles_", tile_target()},
        {"lanes_", lane_target()}}) {
    if (!action.starts_with(prefix)) continue;
    target = other;
    action = action.substr(prefix.size());
  }
  if (action == "plan") {
    const Kernel split = prepare_kernel(kernel, target);
    return to_text(choose_plan(split, target), split);
  }
  std::string text;
  CodegenOptions options{.verify = true};
  options.on_kernel = [&](std::string_view pass, const Kernel& nest) {
    if (pass == action) text = to_text(nest);
  };
  options.on_linear = [&](std::string_view pass, const LinearProgram& program) {
    if (pass == action) text = to_text(program);
  };
  lower_kernel(kernel, target, options);
  TENON_CHECK(!text.empty(), ErrorCode::kInvalidArgument, file.path, ": no pass is called '",
              action, "'");
  return text;
}

TEST(CodegenGolden, PassesMakeTheCommittedText) {
  check_golden("codegen", after_pass);
}

}  // namespace
}  // namespace tenon::test
