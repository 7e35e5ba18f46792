// Sums of narrow products for matrix units: random sizes, orders of the operands' dims, gates and
// dtypes; the value is the same after every pass, and of the linear program by the units' own rule.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tenon/base/text.h"
#include "tenon/codegen/build_nest.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/unit_plans.h"
#include "tenon/ir/eval_linear.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/random.h"
#include "tests/support/random_kernel.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

struct Product {
  std::string text;
  std::string a;
  std::string b;
};

// t[g, i, j] += a[g, i, k] * b[g, k, j] with dims of a and b in some order, then something
// elementwise.
Product random_product(testing::Random& random) {
  const bool is_float = random.between(0, 1) == 0;
  const std::string a = is_float ? "bf16" : random.between(0, 1) == 0 ? "i8" : "u8";
  const std::string b = is_float ? "bf16" : "i8";
  const std::string acc = is_float ? "f32" : "i32";
  const std::string out = is_float && random.between(0, 1) == 0 ? "bf16" : acc;
  const int64_t groups = random.between(1, 2);
  const int64_t m = random.between(1, 20);
  const int64_t n = random.between(1, 40);
  const int64_t k = random.between(1, 20);
  const bool is_a_turned = random.between(0, 2) == 0;
  const bool is_b_turned = random.between(0, 1) == 0;
  const bool is_a_padded = random.between(0, 3) == 0;
  const bool is_flipped = random.between(0, 9) == 0;  // which no unit reads
  const auto dims = [&](int64_t x, int64_t y, bool is_turned) {
    return is_turned ? concat(groups, ",", y, ",", x) : concat(groups, ",", x, ",", y);
  };
  const std::string depth = is_flipped ? concat(k - 1, "-d3") : "d3";
  const std::string read_a =
      concat("b1[d0,", is_a_turned ? "d3,d1" : "d1,d3",
             is_a_padded ? concat(" if d3 < ", k - 1, " else 0", a) : "", "]");
  const std::string read_b = concat("b2[d0,", is_b_turned ? "d2," + depth : depth + ",d2", "]");
  const bool is_b_first = random.between(0, 1) == 0;
  const std::string wide_a = concat(acc, "(", read_a, ")");
  const std::string wide_b = concat(acc, "(", read_b, ")");
  const std::string last =
      out == acc ? concat("max(t0[d4,d5,d6], 3", acc, ")") : "bf16(t0[d4,d5,d6])";
  const std::string box = concat(groups, ",", m, ",", n);
  return {
      concat("kernel mm {\n  out b0: ", out, "[", box, "]\n  in b1: ", a, "[",
             dims(m, k, is_a_turned), "]\n  in b2: ", b, "[", dims(k, n, is_b_turned),
             "]\n  tmp t0: ", acc, "[", box, "]\n  t0[d0,d1,d2] += ", is_b_first ? wide_b : wide_a,
             " * ", is_b_first ? wide_a : wide_b, "  over d0:", groups, ", d1:", m, ", d2:", n,
             ", d3:", k, " red  start 0", acc, "\n  b0[d4,d5,d6] = ", last, "  over d4:", groups,
             ", d5:", m, ", d6:", n, "\n}\n"),
      a, b};
}

// The first pass after which the value differs, or nothing.
std::string first_wrong_pass(const Kernel& kernel, const Target& target,
                             std::optional<Plan> plan = {}) {
  KernelMemory memory(kernel, 5);
  eval_kernel(kernel, memory.kernel_arguments());
  const std::vector<std::byte> expected = memory.outputs();
  std::string wrong;
  const auto judge = [&](std::string_view pass, const std::string& text) {
    const bool is_right = memory.outputs() == expected && memory.guard_finding().empty();
    if (wrong.empty() && !is_right) wrong = concat(pass, ": ", memory.guard_finding(), "\n", text);
  };
  CodegenOptions options{.verify = true, .plan = std::move(plan)};
  options.on_kernel = [&](std::string_view pass, const Kernel& nest) {
    memory.reset();
    eval_kernel(nest, memory.kernel_arguments());
    judge(pass, to_text(nest));
  };
  options.on_linear = [&](std::string_view pass, const LinearProgram& program) {
    memory.reset();
    eval_linear(program, memory.program_arguments(program.signature), {.units = target.units});
    judge(pass, to_text(program));
  };
  lower_kernel(kernel, target, options);
  return wrong;
}

TEST(UnitKernels, RandomProductsKeepTheirValueThroughEveryPass) {
  const Target target = unit_target();
  testing::Random random(4);
  int num_units = 0;
  int num_offsets = 0;
  constexpr int kNumKernels = 120;
  for (int i = 0; i < kNumKernels; ++i) {
    const Product product = random_product(random);
    const Kernel kernel = parse_kernel(product.text, "product");
    const Kernel prepared = prepared_for_units(split_root(kernel), target);
    num_offsets += prepared.body.size() == 3 ? 1 : 0;
    const auto plan = unit_plan(prepared, target);
    if (plan) {
      ++num_units;
      EXPECT_EQ(check_plan(prepared, *plan, target), std::nullopt);
      EXPECT_EQ(parse_plan(to_text(*plan, prepared), prepared), *plan) << to_text(*plan, prepared);
    }
    ASSERT_EQ(first_wrong_pass(kernel, target), "") << product.text;
  }
  EXPECT_GT(num_units, kNumKernels / 3);
  EXPECT_GT(num_offsets, kNumKernels / 20);
}

// The layout of a unit's operand for a product that no unit takes: a group of 64-bit elements side
// by side would be wider than the target's vectors.
TEST(UnitKernels, GroupsWithoutAUnitStayWithinVectors) {
  const Kernel kernel = parse_kernel(R"(kernel mm {
  out b0: u64[3,16]
  in b1: u64[3,6]
  in b2: u64[6,16]
  tmp t0: u64[3,16]
  t0[d0,d1] += b1[d0,d2] * b2[d2,d1]  over d0:3, d1:16, d2:6 red  start 0u64
  b0[d3,d4] = t0[d3,d4]  over d3:3, d4:16
}
)",
                                     "product");
  const Plan plan = parse_plan(R"(plan mm {
  0 t0 root d0@grid 3, d0@seq 1, d1@seq 8, d2@seq 1, d1@vec 1; acc 3; stage b2 at 1 layout 0:3 1:16 0:2
  1 b0 after 0 at 3 d4@vec 1
}
)",
                               kernel);
  const Target target = unit_target();
  ASSERT_EQ(check_plan(kernel, plan, target), std::nullopt);
  EXPECT_EQ(first_wrong_pass(kernel, target, plan), "");
}

constexpr std::string_view kProduct = R"(kernel mm {
  out b0: f32[9,20]
  in b1: bf16[9,6]
  in b2: bf16[6,20]
  tmp t0: f32[9,20]
  t0[d0,d1] += f32(b1[d0,d2]) * f32(b2[d2,d1])  over d0:9, d1:20, d2:6 red  start 0f32
  b0[d3,d4] = t0[d3,d4]  over d3:9, d4:20
}
)";

TEST(UnitKernels, PlansThatNoUnitFitsAreRefused) {
  const Target target = unit_target();
  const Kernel kernel = parse_kernel(kProduct, "product");
  const Plan good = *unit_plan(kernel, target);
  const auto reason_for = [&](auto&& change) {
    Plan plan = good;
    change(plan.comps[0]);
    return check_plan(kernel, plan, target).value_or("");
  };
  const auto has = [](const std::string& text, std::string_view words) {
    return text.find(words) != std::string::npos ? "" : text + " has not: " + std::string(words);
  };
  EXPECT_EQ(has(check_plan(kernel, good, vector_target()).value_or(""), "no unit of this shape"),
            "");
  EXPECT_EQ(has(reason_for([](CompPlan& plan) { plan.stages.clear(); }), "not staged"), "");
  EXPECT_EQ(has(reason_for([](CompPlan& plan) {
                  std::vector<LayoutPart>& layout = plan.stages[0].layout;
                  std::swap(layout[layout.size() - 1], layout[layout.size() - 2]);
                }),
                "layout"),
            "");
  EXPECT_EQ(has(reason_for([](CompPlan& plan) { plan.parts.back().axis = 0; }), "unit part"), "");
  EXPECT_EQ(has(reason_for([](CompPlan& plan) {
                  for (Part& part : plan.parts) {
                    if (part.axis == 2 && part.role == Role::kSeq) part.step = 3;
                  }
                }),
                "no unit of this shape"),
            "");
}

TEST(UnitKernels, OnlyExactlyWidenedProductsAreTaken) {
  const Target target = unit_target();
  const auto has_plan = [&](std::string_view from, std::string_view to) {
    std::string text(kProduct);
    for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos;) {
      text.replace(at, from.size(), to);
      at += to.size();
    }
    const Kernel kernel = prepared_for_units(split_root(parse_kernel(text, "product")), target);
    return unit_plan(kernel, target).has_value();
  };
  EXPECT_TRUE(has_plan("", ""));
  EXPECT_FALSE(has_plan("bf16", "f16"));
  EXPECT_FALSE(
      has_plan("f32(b1[d0,d2]) * f32(b2[d2,d1])", "f32(bf16(f32(b1[d0,d2]) * f32(b2[d2,d1])))"));
  EXPECT_FALSE(has_plan("f32(b1[d0,d2]) *", "f32(b1[d0,d2]) +"));
  EXPECT_FALSE(has_plan("9", "7"));  // too few rows to lay b out for
}

}  // namespace
}  // namespace tenon::test
