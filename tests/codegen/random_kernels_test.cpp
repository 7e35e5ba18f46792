// Random kernels x random legal Plans: the value is the same before and after every pass, and of
// the linear program. One test that finds most codegen bugs. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/build_nest.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/ir/eval_linear.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/support/random_kernel.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

struct Coverage {
  int kernels = 0;
  int plans = 0;
  int passes = 0;
  int with_reduce = 0;
  int with_gate = 0;
  int with_several_comps = 0;
  int with_row_reduce = 0;
};

// Runs one kernel under one plan; the name of the first pass after which the value differs.
std::string first_wrong_pass(const Kernel& kernel, const Plan& plan, const Target& target,
                             KernelMemory& memory,
                             const std::vector<std::byte>& expected, Coverage& coverage) {
  std::string wrong;
  const auto judge = [&](std::string_view pass, const std::string& text) {
    ++coverage.passes;
    if (wrong.empty() && (memory.outputs() != expected || !memory.guard_finding().empty())) {
      wrong = std::string(pass) + ": " + memory.guard_finding() + "\n" + text;
    }
  };
  CodegenOptions options{.verify = true, .plan = plan};
  options.on_kernel = [&](std::string_view pass, const Kernel& nest) {
    memory.reset();
    eval_kernel(nest, memory.kernel_arguments(), 1 + coverage.plans % 3);
    judge(pass, to_text(nest));
  };
  options.on_linear = [&](std::string_view pass, const LinearProgram& program) {
    memory.reset();
    eval_linear(program, memory.program_arguments(program.signature));
    judge(pass, to_text(program));
  };
  try {
    lower_kernel(kernel, target, options);
  } catch (const Error& error) {
    wrong = concat("thrown: ", error.what());
  }
  return wrong;
}

TEST(Codegen, RandomKernelsKeepTheirValueThroughEveryPass) {
  Coverage coverage;
  const auto first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * 1000;
  for (uint64_t seed = first; seed < first + 300; ++seed) {
    const RandomKernel random = random_kernel(seed);
    const Kernel kernel = split_root(random.kernel);
    KernelMemory memory(kernel, seed);
    eval_kernel(random.kernel, memory.kernel_arguments());
    const std::vector<std::byte> expected = memory.outputs();
    std::mt19937_64 generator(seed);
    for (int round = 0; round < 3; ++round) {
      const Target target = round == 1 ? scalar_target() : vector_target();
      const Plan plan = round == 0 ? choose_plan(kernel, target)
                                   : random_plan(kernel, target, generator);
      ASSERT_FALSE(check_plan(kernel, plan, target))
          << *check_plan(kernel, plan, target);
      const std::string wrong = first_wrong_pass(kernel, plan, target, memory, expected, coverage);
      ASSERT_EQ(wrong, "") << "seed " << seed << "\n"
                           << to_text(random.kernel) << to_text(plan, kernel);
      ++coverage.plans;
    }
    ++coverage.kernels;
    coverage.with_reduce += random.has_reduce ? 1 : 0;
    coverage.with_gate += random.has_gate ? 1 : 0;
    coverage.with_several_comps += kernel.body.size() > 1 ? 1 : 0;
    coverage.with_row_reduce += random.has_row_reduce ? 1 : 0;
  }
  std::printf(
      "random kernels: %d, plans %d, evaluations after passes %d; with a reduce %d, a gate %d, "
      "several comps %d, a row reduction %d\n",
      coverage.kernels, coverage.plans, coverage.passes, coverage.with_reduce, coverage.with_gate,
      coverage.with_several_comps, coverage.with_row_reduce);
  EXPECT_GE(coverage.with_reduce, 300);
  EXPECT_GE(coverage.with_gate, 300);
  EXPECT_GE(coverage.with_several_comps, 300);
}

}  // namespace
}  // namespace tenon::test
