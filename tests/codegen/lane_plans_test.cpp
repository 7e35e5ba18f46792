// Plans with lanes: random kernels keep their value through every pass, in any order of lanes.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/build_nest.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_walk.h"
#include "tests/codegen/lane_runs.h"
#include "tests/support/lane_plan.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

constexpr int kNumKernels = testing::kIsSanitized ? 40 : 100;

// What a plan has, and what becomes of it.
void count_features(const Kernel& kernel, const Plan& plan, std::map<std::string, int>& counts) {
  std::set<std::string> own;
  for (const CompPlan& entry : plan.comps) {
    const Comp& comp = std::get<Comp>(kernel.body[static_cast<size_t>(entry.comp)].node);
    bool has_lanes = false;
    for (const Part& part : entry.parts) {
      if (part.role != Role::kLane) continue;
      has_lanes = true;
      const bool is_red =
          axis_kind(comp.axes[static_cast<size_t>(part.axis)].axis) == AxisKind::kRed;
      own.insert(is_red ? "red axes dealt" : "par axes dealt");
    }
    if (!has_lanes) own.insert("comps without lanes beside others");
    if (has_lanes && entry.acc && entry.acc->carry_in) own.insert("carried accumulators");
    if (!entry.stages.empty()) own.insert("stages");
  }
  if (plan.lanes.size() > 1) own.insert("several dims");
  const Kernel nest = build_nest(kernel, plan);
  for (const BufferDecl& buffer : nest.buffers) {
    if (buffer.scope == Scope::kGroup) own.insert("group memory");
    if (buffer.scope == Scope::kReg && !buffer.dims.empty()) own.insert("registers");
  }
  for (const std::string& feature : own)
    ++counts[feature];
}

void check_kernels(const Target& target, std::span<const char* const> wanted) {
  std::map<std::string, int> counts;
  int num_plans = 0;
  const auto first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * kNumKernels;
  for (uint64_t seed = first; seed < first + kNumKernels; ++seed) {
    const Kernel source = random_kernel(seed);
    KernelMemory memory(source, seed);
    const std::vector<std::byte> expected = outputs_of(source, memory);
    const Kernel kernel = prepare_kernel(source, target);
    std::mt19937_64 random(seed);
    for (int i = 0; i < 3; ++i) {
      const auto plan = random_lane_plan(kernel, target, random);
      if (!plan) continue;
      ++num_plans;
      count_features(kernel, *plan, counts);
      const std::string text = to_text(*plan, kernel);
      ASSERT_EQ(to_text(parse_plan(text, kernel), kernel), text);
      const std::string wrong = first_wrong_pass(source, target, memory, expected, {.plan = *plan});
      ASSERT_TRUE(wrong.empty()) << "seed " << seed << "\n" << to_text(source) << text << wrong;
    }
  }
  std::printf("%d plans with lanes\n", num_plans);
  for (const auto& [feature, count] : counts)
    std::printf("%s: %d plans\n", feature.c_str(), count);
  EXPECT_GE(num_plans, kNumKernels);
  for (const char* feature : wanted)
    EXPECT_GE(counts[feature] * 100, kNumKernels) << feature;
}

constexpr const char* kAll[] = {"red axes dealt", "par axes dealt",
                                "several dims",   "group memory",
                                "registers",      "comps without lanes beside others",
                                "stages",         "carried accumulators"};

TEST(LanePlans, RandomKernelsKeepTheirValue) {
  check_kernels(lane_target(), kAll);
}

TEST(LanePlans, RandomKernelsKeepTheirValueWithVectors) {
  check_kernels(lane_vector_target(), kAll);
}

TEST(LanePlans, RandomKernelsKeepTheirValueWithoutGroupMemory) {
  constexpr const char* kSome[] = {"par axes dealt", "several dims", "registers"};
  check_kernels(lone_lane_target(), kSome);
}

}  // namespace
}  // namespace tenon::test
