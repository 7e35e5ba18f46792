// Plans by hand: each is a program of its own, computes the same, and a wrong one is refused with
// its place. SPDX-License-Identifier: MIT

#include "tenon/engine/given_plans.h"

#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/engine/program_store.h"
#include "tenon/schedule/schedule.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using testing::values_of;

class GivenPlansTest : public EngineTest {
 protected:
  Node sum() {
    std::vector<float> values;
    for (int i = 0; i < 1000; ++i)
      values.push_back(static_cast<float>(i));
    const Node x = buffer_of(values, {1000}, device_);
    return tensor_binary(Op::kAdd, x, x);
  }
  Kernel kernel_of(const Node& node) { return schedule_graph({&node, 1}, {}).calls.at(0).kernel; }

  /// Values, and whether a program was compiled for them.
  std::pair<std::vector<float>, int64_t> run(const GivenPlans* plans) {
    const Node node = sum();
    RealizeStats stats;
    realize({&node, 1}, &device_, &stats, plans);
    return {values_of<float>(node), stats.compiled};
  }

  Device& device_ = Device::get("CPU");
};

TEST_F(GivenPlansTest, EachIsAProgramOfItsOwnAndComputesTheSame) {
  const ScopedSetting no_cache(Setting::kCache, "0");
  const Kernel kernel = kernel_of(sum());
  const Kernel prepared = prepare_kernel(kernel, engine_device(device_).target());
  std::vector<float> expected;
  for (int i = 0; i < 1000; ++i)
    expected.push_back(static_cast<float>(2 * i));
  EXPECT_EQ(run(nullptr).first, expected);
  const Plan chosen = choose_plan(prepared, engine_device(device_).target());
  size_t num_others = 0;
  for (const PlanChoice& choice : choose_plans(prepared, engine_device(device_).target(), 3)) {
    const GivenPlans plans(to_text(choice.plan, prepared), "by hand");
    const auto [values, compiled] = run(&plans);
    EXPECT_EQ(values, expected);
    EXPECT_EQ(compiled, 1) << to_text(choice.plan, prepared);
    EXPECT_EQ(run(&plans).second, 0);  // it is known now
    num_others += choice.plan == chosen ? 0 : 1;
  }
  EXPECT_GT(num_others, 0u);
  EXPECT_EQ(run(nullptr).second, 0);  // and not in the place of the chosen one
}

TEST_F(GivenPlansTest, KernelsAreNamedByNameOrFunction) {
  const Kernel kernel = kernel_of(sum());
  const Kernel prepared = prepare_kernel(kernel, engine_device(device_).target());
  const Target& target = engine_device(device_).target();
  const std::string text = to_text(simple_plan(prepared, target), prepared);
  const GivenPlans by_name(text, "p");
  EXPECT_EQ(by_name.plan_for(kernel, target), simple_plan(prepared, target));
  std::string renamed = text;
  renamed.replace(renamed.find(kernel.name), kernel.name.size(), kernel_symbol(kernel));
  const GivenPlans by_function("\n" + renamed, "p");
  EXPECT_EQ(by_function.plan_for(kernel, target), simple_plan(prepared, target));
  EXPECT_EQ(GivenPlans("plan other {\n}", "p").plan_for(kernel, target), std::nullopt);
}

TEST_F(GivenPlansTest, WrongOnesAreRefusedWithTheirPlace) {
  const Kernel kernel = kernel_of(sum());
  const Kernel prepared = prepare_kernel(kernel, engine_device(device_).target());
  const Target& target = engine_device(device_).target();
  const auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_ERROR(GivenPlans("", "p.txt"), kInvalid, "p.txt", "no plan");
  EXPECT_ERROR(GivenPlans("plon x {", "p.txt"), kInvalid, "p.txt:1", "plon");
  EXPECT_ERROR(GivenPlans("plan x {\n}\nplan x {\n}", "p.txt"), kInvalid, "p.txt:3", "two plans");
  const Kernel* const kernels[] = {&kernel};
  EXPECT_ERROR(GivenPlans("\nplan absent {\n}", "p.txt").check_names(kernels), kInvalid, "p.txt:2",
               "no kernel 'absent'", kernel_symbol(kernel));
  const auto plan_for = [&](const std::string& line) {
    return GivenPlans(concat("\nplan ", kernel.name, " {\n", line, "\n}"), "p.txt")
        .plan_for(kernel, target);
  };
  const std::string head = concat("0 ", kernel.buffers[0].name, " root ");
  EXPECT_ERROR(plan_for(head + "zz@seq 1"), kInvalid, "p.txt:3", "no axis 'zz'");
  const Comp& comp = std::get<Comp>(prepared.body[0].node);
  const std::string axis = prepared.axis_names[static_cast<size_t>(axis_id(comp.axes[0].axis))];
  EXPECT_ERROR(plan_for(head + axis + "@vec 1"), kInvalid, "p.txt:2", "does not fit",
               "vectors of 1000");
  const Node node = sum();
  const GivenPlans absent("plan absent {\n}", "p.txt");
  EXPECT_ERROR(realize({&node, 1}, &device_, nullptr, &absent), kInvalid, "no kernel 'absent'");
}

}  // namespace
}  // namespace tenon
