// The kernels of `tenon bench --plans`, and that each Plan's result is looked at.
// SPDX-License-Identifier: MIT

#include "bench/plan_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "bench/cases.h"
#include "tenon/base/text.h"
#include "tenon/engine/memory_checks.h"
#include "tests/support/test_target.h"

namespace tenon::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::set<std::string> names_of(const Target& target) {
  std::set<std::string> names;
  for (const PlanCase& plan_case : plan_cases(target, true))
    EXPECT_TRUE(names.insert(plan_case.name).second) << plan_case.name;
  return names;
}

TEST(PlanBench, HasKernelsOfUnitsWhereThereAreUnits) {
  const std::set<std::string> without = names_of(test::vector_target());
  std::set<std::string> with = names_of(test::unit_target());
  EXPECT_EQ(names_of(test::tile_target()), with);
  EXPECT_GE(without.size(), 12U);
  for (const char* name : {"matmul_bf16_1024", "matmul_i8_1024"}) {
    EXPECT_EQ(with.erase(name), 1U) << name;
  }
  EXPECT_EQ(with, without);
}

// Whatever family each kernel is of on the default device, its Plans are right; together they are
// of many.
TEST(PlanBench, EveryKernelsPlansAreRight) {
  Device& device = Device::get_default();
  std::set<std::string> families;
  for (const PlanCase& plan_case : plan_cases(device.target(), true)) {
    const Row row = plan_row(plan_case, device, {.is_quick = true, .num_plans = 2});
    EXPECT_FALSE(row.has_failed) << row.name << ": " << row.note;
    ASSERT_TRUE(row.tenon && row.ratio && row.limit) << row.name;
    EXPECT_GE(*row.ratio, 1) << row.name;
    EXPECT_EQ(row.note, "chosen: " + row.tenon->name.substr(2)) << row.name;
    families.insert(row.tenon->name.substr(2));
    const bool is_of_unit = row.name == "matmul_bf16_1024" || row.name == "matmul_i8_1024";
    EXPECT_EQ(row.tenon->name == "0 unit", is_of_unit) << row.name;
  }
  EXPECT_GE(families.size(), 5U);
}

TEST(PlanBench, ChecksSeeOneWrongElement) {
  for (const PlanCase& plan_case : plan_cases(test::unit_target(), true)) {
    const Case inputs = plan_case.prepare();
    Tensor result = inputs.build();
    std::vector<std::byte> bytes = result.realize().to_bytes();
    ASSERT_EQ(result.size(), inputs.out_size) << plan_case.name;
    EXPECT_EQ(inputs.why_wrong(bytes.data()).value_or("right"), "right") << plan_case.name;
    bytes.back() ^= std::byte{0x41};
    EXPECT_THAT(inputs.why_wrong(bytes.data()).value_or("right"), HasSubstr("expected"))
        << plan_case.name;
  }
}

TEST(PlanBench, EachPlanIsCheckedOnPoison) {
  const auto num_calls = std::make_shared<int>(0);
  const auto prepare = [=](int wrong_call) {
    return [=] {
      *num_calls = 0;
      Case inputs = prepare_product({.shape = {40, 50, 60}});
      inputs.why_wrong =
          [=, check = inputs.why_wrong](const std::byte* out) -> std::optional<std::string> {
        EXPECT_TRUE(memory_checks().poison_outputs);
        EXPECT_EQ(check(out).value_or("right"), "right");
        if (++*num_calls == wrong_call) return "element (1) is 3, expected 4";
        return {};
      };
      return inputs;
    };
  };
  const auto row_of = [&](int wrong_call) {
    return plan_row({"product", prepare(wrong_call)}, Device::get_default(), {.num_plans = 3});
  };
  const Row right = row_of(0);
  EXPECT_FALSE(right.has_failed) << right.note;
  EXPECT_EQ(right.peers.size(), 2U);
  EXPECT_EQ(*num_calls, 3);
  const Row chosen = row_of(1);
  EXPECT_TRUE(chosen.has_failed);
  EXPECT_FALSE(chosen.ratio);
  ASSERT_TRUE(chosen.tenon);
  EXPECT_EQ(chosen.tenon->invalid, "wrong result");
  EXPECT_THAT(chosen.note,
              HasSubstr(concat("plan ", chosen.tenon->name, " is wrong: element (1)")));
  const Row other = row_of(3);
  EXPECT_TRUE(other.has_failed);
  ASSERT_EQ(other.peers.size(), 2U);
  EXPECT_EQ(other.tenon->invalid, "");
  EXPECT_EQ(other.peers[0].invalid, "");
  EXPECT_EQ(other.peers[1].invalid, "wrong result");
  EXPECT_THAT(plan_table({right, other}), HasSubstr("FAILED; chosen: "));
  EXPECT_THAT(plan_table({right}), Not(HasSubstr("FAILED")));
}

// Not the computation that the check asks for: without the max.
TEST(PlanBench, AWrongResultFailsTheRow) {
  const PlanCase plan_case{"relu", [] {
                             Case inputs = prepare_relu(1000);
                             inputs.build = [arrays = inputs.arrays] {
                               const Tensor product = tensor_of(*arrays[0]) * tensor_of(*arrays[1]);
                               return product + tensor_of(*arrays[2]);
                             };
                             return inputs;
                           }};
  const Row row = plan_row(plan_case, Device::get_default(), {.num_plans = 2});
  EXPECT_TRUE(row.has_failed);
  EXPECT_THAT(row.note, HasSubstr("plan 0 stream is wrong: element "));
  EXPECT_THAT(row.note, HasSubstr("expected 0 within "));
}

TEST(PlanBench, OnlyAMissedGoalIsSaid) {
  const auto row_with = [](double ratio) {
    Row row{.name = "kernel"};
    row.tenon = Figure{.name = "0 tile", .best = 12};
    row.limit = Figure{.name = "estimate", .best = 7};
    row.ratio = ratio;
    return row;
  };
  const std::string met = plan_table({row_with(1.2)});
  EXPECT_THAT(met, HasSubstr("12.0 us  10.0 us  7.0 us    1.20"));
  EXPECT_THAT(met, HasSubstr("worst: 1.20\n"));
  EXPECT_THAT(plan_table({row_with(1.1), row_with(1.5)}),
              HasSubstr("worst: 1.50, missed: goal 1.20\n"));
}

}  // namespace
}  // namespace tenon::bench
