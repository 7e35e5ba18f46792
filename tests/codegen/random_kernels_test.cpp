// Random kernels x every order of their loops and random legal Plans: the value is the same before
// and after every pass, and of the linear program. One test that finds most codegen bugs.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/interp/interpret.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/support/random_kernel.h"
#include "tests/support/random_plan.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

constexpr int kNumKernels = testing::kIsSanitized ? 150 : 1000;
constexpr uint64_t kOnceWrong[] = {1277, 1377, 2132, 2218, 3793};

struct Coverage {
  KernelTally kernels;
  int plans = 0;
  int passes = 0;
  int with_combined_orders = 0;
  int with_merged_axes = 0;
  PlanTally tally;
  PlanTally random;  ///< of the random ones among them
  size_t num_missing = 0;
};

size_t num_axes(const Kernel& kernel) {
  return std::get<Comp>(kernel.body.back().node).axes.size();
}

template <typename Parse>
void check_text(const std::string& text, const Parse& parse, std::string_view pass) {
  ASSERT_EQ(to_text(parse(text, "printed")), text) << "after " << pass;
}

// Runs one kernel under one plan; the name of the first pass after which the value differs.
std::string first_wrong_pass(const Kernel& kernel, const Plan& plan, const Target& target,
                             KernelMemory& memory, const std::vector<std::byte>& expected,
                             bool checks_texts, Coverage& coverage) {
  std::string wrong;
  const auto judge = [&](std::string_view pass, const std::string& text) {
    ++coverage.passes;
    if (wrong.empty() && (memory.outputs() != expected || !memory.guard_finding().empty())) {
      wrong = std::string(pass) + ": " + memory.guard_finding() + "\n" + text;
    }
  };
  CodegenOptions options{.verify = true, .plan = plan};
  std::string last;  // what a pass made, if its evaluation or its check throws
  options.on_kernel = [&](std::string_view pass, const Kernel& nest) {
    last = concat(pass, "\n", to_text(nest));
    memory.reset();
    eval_kernel(nest, memory.kernel_arguments(), static_cast<uint64_t>(1 + coverage.plans % 3));
    judge(pass, to_text(nest));
    if (checks_texts) check_text(to_text(renumber_axes(nest)), parse_kernel, pass);
  };
  options.on_linear = [&](std::string_view pass, const LinearProgram& program) {
    last = concat(pass, "\n", to_text(program));
    memory.reset();
    interpret(program, memory.program_arguments(program.signature), {.units = target.units});
    judge(pass, to_text(program));
    if (checks_texts) check_text(to_text(program), parse_linear, pass);
  };
  try {
    lower_kernel(kernel, target, options);
  } catch (const std::exception& error) {
    return concat(wrong, "thrown after ", last, error.what());
  }
  return wrong;
}

void check_kernels(Orders orders, size_t num_random) {
  Coverage coverage;
  const auto first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * kNumKernels;
  std::vector<uint64_t> seeds(std::begin(kOnceWrong), std::end(kOnceWrong));
  for (uint64_t seed = first; seeds.size() < kNumKernels; ++seed)
    seeds.push_back(seed);
  for (const uint64_t seed : seeds) {
    const Kernel random = random_kernel(seed);
    KernelMemory memory(random, seed);
    eval_kernel(random, memory.kernel_arguments());
    const std::vector<std::byte> expected = memory.outputs();
    Target target = seed % 2 == 0 ? unit_target() : scalar_target();
    if (seed % 4 > 1) target.max_groups = 1 + static_cast<int64_t>(seed % 5);
    const Kernel kernel = prepare_kernel(random, target);
    coverage.with_merged_axes += kernel.body.size() == 1 && num_axes(kernel) < num_axes(random);
    const ManyPlans many = many_plans(kernel, target, seed, orders, num_random);
    coverage.num_missing += many.num_missing;
    coverage.with_combined_orders += many.has_combined_orders ? 1 : 0;
    std::vector<Plan> plans = many.plans;
    plans.insert(plans.end(), many.random.begin(), many.random.end());
    for (const Plan& plan : plans) {
      const auto reason = check_plan(kernel, plan, target);
      ASSERT_FALSE(reason) << *reason;
      const bool checks_texts = &plan == plans.data();
      const std::string wrong =
          first_wrong_pass(random, plan, target, memory, expected, checks_texts, coverage);
      ASSERT_EQ(wrong, "") << "seed " << seed << "\n" << to_text(random) << to_text(plan, kernel);
      ++coverage.plans;
      coverage.tally.add(plan);
    }
    for (size_t i = 0; i < many.random.size(); ++i) {
      coverage.random.add(many.random[i]);
      ASSERT_EQ(std::ranges::count(plans, many.random[i]), 1) << "seed " << seed;
    }
    coverage.kernels.add(random);
  }
  std::printf(
      "random kernels: %splans %d, evaluations after passes %d; all combinations of the orders of "
      "their Comps' loops in %d; axes merged in %d\n",
      coverage.kernels.to_text().c_str(), coverage.plans, coverage.passes,
      coverage.with_combined_orders, coverage.with_merged_axes);
  for (const char* feature : {"a reduce", "a gate", "several comps", "a cast", "a division"})
    EXPECT_GE(coverage.kernels.share(feature), 30) << feature;
  for (const char* feature : {"a guard", "bits", "a shift", "a loaded index"})
    EXPECT_GE(coverage.kernels.share(feature), 10) << feature;
  std::printf("all: %sof these random: %s%zu random ones not found\n",
              coverage.tally.to_text().c_str(), coverage.random.to_text().c_str(),
              coverage.num_missing);
  for (const char* feature :
       {"nt stores", "kept tmps", "producers before", "consumers after", "accumulators",
        "carried accumulators", "stages", "stages with layouts", "stages with split dims",
        "peeled loops", "clamped parts", "vectors", "units", "grid parts"}) {
    EXPECT_GE(coverage.random.count(feature) * 200, kNumKernels) << feature;
  }
  EXPECT_GE(coverage.random.count("grid parts") * 4, coverage.random.num_plans());
  EXPECT_GE(coverage.random.num_plans() * 10, static_cast<int>(num_random) * kNumKernels * 9);
  EXPECT_GE(coverage.with_combined_orders * 2, kNumKernels);
  EXPECT_GT(coverage.with_merged_axes, 0);
}

TEST(Codegen, RandomKernelsKeepTheirValueThroughEveryPass) {
  check_kernels(Orders::kSome, 2);
}

// Disabled in everyday runs: it takes minutes. The long run of tools/check_all.sh prop.
TEST(Codegen, DISABLED_ThousandKeepTheirValueInEveryOrder) {
  check_kernels(Orders::kEvery, 6);
}

}  // namespace
}  // namespace tenon::test
