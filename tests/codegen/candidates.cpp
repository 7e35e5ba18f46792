// SPDX-License-Identifier: MIT

#include "tests/codegen/candidates.h"

#include <gtest/gtest.h>

#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/interp/interpret.h"
#include "tests/support/random_kernel.h"

namespace tenon::test {

void expect_value_kept(const Kernel& kernel, const Target& target, const Plan& plan,
                       uint64_t seed) {
  KernelMemory memory(kernel, seed);
  eval_kernel(kernel, memory.kernel_arguments());
  const std::vector<std::byte> expected = memory.outputs();
  const LinearProgram program = lower_kernel(kernel, target, {.verify = true, .plan = plan});
  memory.reset();
  interpret(program, memory.program_arguments(program.signature), {.units = target.units});
  ASSERT_EQ(memory.guard_finding(), "");
  ASSERT_TRUE(memory.outputs() == expected);
}

std::vector<PlanChoice> expect_candidates_keep_value(const Kernel& kernel, const Target& target,
                                                     uint64_t seed, size_t most) {
  const Kernel prepared = prepare_kernel(kernel, target);
  std::vector<PlanChoice> choices = choose_plans(prepared, target, most);
  for (const PlanChoice& choice : choices) {
    const std::string text = to_text(choice.plan, prepared);
    SCOPED_TRACE(text);
    EXPECT_EQ(parse_plan(text, prepared), choice.plan);
    expect_value_kept(kernel, target, choice.plan, seed);
    if (::testing::Test::HasFailure()) break;
  }
  return choices;
}

}  // namespace tenon::test
