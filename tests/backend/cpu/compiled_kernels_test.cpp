// Random kernels under random, chosen and reordered Plans, compiled by LLVM and by clang for three
// levels of the CPU, and run by thread pools of one, two and three workers: bit for bit what
// eval_kernel says. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/base/settings.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tests/backend/cpu/compiled_cases.h"
#include "tests/support/random_kernel.h"
#include "tests/support/random_plan.h"

namespace tenon::cpu {
namespace {

constexpr size_t kUnitKernels = 40;  // in one compiler call

struct Coverage {
  test::KernelTally kernels;
  test::PlanTally random;  ///< of programs with a random plan
  int programs = 0;
  int launches = 0;
  int with_several_groups = 0;
  int random_with_several_groups = 0;
  int with_full_vectors = 0;
  int with_combined_orders = 0;
  size_t num_missing = 0;  ///< random plans that were wanted and not found

  void add(const Case& item, const Target& target, bool is_random) {
    ++programs;
    const int has_groups = num_groups(item.program) > 1 ? 1 : 0;
    with_several_groups += has_groups;
    const auto fills_vector = [&](const LinearValue& value) {
      const int64_t bytes = value.type.lanes * dtype_size_bytes(value.type.dtype);
      return value.type.lanes > 1 && bytes >= target.max_vector_bytes;
    };
    with_full_vectors += std::ranges::any_of(item.program.values, fills_vector) ? 1 : 0;
    if (!is_random) return;
    random.add(item.plan);
    random_with_several_groups += has_groups;
  }

  void print(const std::string& arch, size_t num_ways) const {
    std::printf(
        "%s, %zu renderers: %d programs, %d launches, %d %% with several groups, %d with full "
        "vectors, of %srandom among them: %d %% with several groups; %s%zu random plans not "
        "found\n",
        arch.c_str(), num_ways, programs, launches, with_several_groups * 100 / programs,
        with_full_vectors, kernels.to_text().c_str(),
        random_with_several_groups * 100 / std::max(random.num_plans(), 1),
        random.to_text().c_str(), num_missing);
  }
};

enum class Length {
  kEveryday,  ///< each kernel under a random plan, some under another one as well
  kLong       ///< each kernel under six random plans and all others of many_plans
};

struct PickedPlans {
  std::vector<Plan> plans;
  size_t num_random = 0;  ///< they come first
};

PickedPlans pick_plans(const test::ManyPlans& many, const Kernel& kernel, uint64_t seed,
                       Length length) {
  PickedPlans picked{.plans = many.random, .num_random = many.random.size()};
  if (length == Length::kLong) {
    picked.plans.insert(picked.plans.end(), many.plans.begin(), many.plans.end());
    return picked;
  }
  if (seed % 8 == 1) picked.plans.push_back(many.plans[seed / 8 % many.plans.size()]);
  // The chosen one has the widest vectors.
  if (test::has_long_axis(kernel)) picked.plans.push_back(many.plans.front());
  return picked;
}

void expect_coverage(const Coverage& coverage, const Target& target, int num_kernels,
                     size_t num_random) {
  for (const char* feature : {"a reduce", "a gate", "several comps", "a cast", "a division"})
    EXPECT_GE(coverage.kernels.share(feature), 30) << feature;
  EXPECT_GE(coverage.kernels.share("a long axis"), 10);
  EXPECT_GE(coverage.with_full_vectors * 50, num_kernels);
  const test::PlanTally& random = coverage.random;
  const int wanted = num_kernels * static_cast<int>(num_random);
  EXPECT_GE(random.num_plans() * 10, wanted * 9);
  EXPECT_GE(coverage.random_with_several_groups * 4, random.num_plans());
  for (const char* feature : {"stages with layouts", "stages with split dims"})
    EXPECT_GE(random.count(feature) * 200, wanted) << feature;
  EXPECT_GE(random.count("units") * 100, target.units.empty() ? 0 : wanted);
}

void check_level(const std::string& arch, int num_kernels, Length length) {
  const CpuFeatureSet wanted = parse_cpu_arch(arch);
  if (!host_cpu_features().has_all(wanted)) {
    GTEST_SKIP() << "this CPU lacks a part of " << arch;
  }
  const Target target = target_of_arch(arch);
  const auto [ways, why_not] = ways_for(target);
  if (ways.empty()) GTEST_SKIP() << why_not;
  const bool is_long = length == Length::kLong;
  ASSERT_TRUE(!is_long || why_not.empty()) << why_not;
  const size_t num_random = is_long ? 6 : 1;
  const Pools pools = make_pools();
  Coverage coverage;
  const auto first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * 1000;
  const uint64_t end = first + static_cast<uint64_t>(num_kernels);
  std::vector<Case> unit;
  for (uint64_t seed = first; seed < end && !::testing::Test::HasFailure(); ++seed) {
    const Kernel random = test::random_kernel(seed);
    coverage.kernels.add(random);
    const Kernel kernel = prepare_kernel(random, target);
    const test::ManyPlans many = test::many_plans(
        kernel, target, seed, is_long ? test::Orders::kEvery : test::Orders::kSome, num_random);
    coverage.with_combined_orders += many.has_combined_orders ? 1 : 0;
    coverage.num_missing += many.num_missing;
    const PickedPlans picked = pick_plans(many, random, seed, length);
    for (size_t i = 0; i < picked.plans.size(); ++i) {
      unit.push_back(make_case(random, picked.plans[i], seed, unit.size(), target));
      coverage.add(unit.back(), target, i < picked.num_random);
    }
    if (unit.size() < kUnitKernels && seed + 1 < end) continue;
    for (const Way& way : ways)
      coverage.launches += check_cases(unit, way, target, pools);
    unit.clear();
  }
  coverage.print(arch, ways.size());
  if (is_long) {
    std::printf("kernels with all orders combined: %d\n", coverage.with_combined_orders);
    EXPECT_GE(coverage.random.num_plans(), 5000);
  }
  expect_coverage(coverage, target, num_kernels, num_random);
}

constexpr int kNumKernels = kSanitizerBuild ? 80 : 200;

TEST(CompiledKernels, EqualTheirMeaningHere) {
  check_level("native", kNumKernels, Length::kEveryday);
}
TEST(CompiledKernels, EqualTheirMeaningWithAvx2) {
  check_level("x86_64,avx2,fma,f16c", kNumKernels, Length::kEveryday);
}
TEST(CompiledKernels, EqualTheirMeaningOnBaseline) {
  check_level("x86_64", kNumKernels, Length::kEveryday);
}

// Disabled in everyday runs: it takes minutes. The long run of tools/check_all.sh prop:
//   compiled_kernels_test --gtest_also_run_disabled_tests --gtest_filter='*Thousand*'
TEST(CompiledKernels, DISABLED_ThousandEqualTheirMeaning) {
  check_level("native", 1000, Length::kLong);
}

}  // namespace
}  // namespace tenon::cpu
