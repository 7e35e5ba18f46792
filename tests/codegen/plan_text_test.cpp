// Plans read back as they were printed; anything else is refused with its place.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_kernel.h"
#include "tests/support/random_plan.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

TEST(PlanText, RandomPlansReadBackAsTheyWere) {
  std::mt19937_64 random(7);
  size_t num_parts = 0;
  size_t num_random = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Kernel kernel = prepare_kernel(random_kernel(seed), scalar_target());
    std::vector<Plan> plans{choose_plan(kernel, vector_target())};
    if (auto plan = random_plan(kernel, unit_target(), random)) plans.push_back(*std::move(plan));
    num_random += plans.size() - 1;
    for (const Plan& plan : plans) {
      const std::string text = to_text(plan, kernel);
      ASSERT_EQ(parse_plan(text, kernel), plan) << text;
      ASSERT_EQ(to_text(parse_plan(text, kernel), kernel), text);
      for (const CompPlan& comp : plan.comps)
        num_parts += comp.parts.size();
    }
  }
  EXPECT_GE(num_parts, 1000u);
  EXPECT_GE(num_random, 180u);
}

TEST(PlanText, WrongTextIsRefusedWithItsPlace) {
  const Kernel kernel =
      parse_kernel("kernel k { in x: f32[4] out y: f32[4] y[i] = x[i] over i:4 }", "test");
  struct Wrong {
    const char* text;
    const char* place;
    const char* words;
  };
  for (const Wrong& wrong : {
           Wrong{"", "p:", "without a closing brace"},
           Wrong{"plan other {\n}\n", "p:1", "expected 'k', got 'other'"},
           Wrong{"plan k {\n", "p:", "without a closing brace"},
           Wrong{"plan k lanes 4 x {\n}\n", "p:1", "expected a number"},
           Wrong{"plan k {\n  0 y root i@lane 1\n}\n", "p:2", "ends too early"},
           Wrong{"plan k {\n} }\n", "p:2", "'}' is not understood"},
           Wrong{"plan k {\n}\n}\n", "p:3", "nothing may follow"},
           Wrong{"plan k {\n  -1 y root\n}\n", "p:2", "expected a number"},
           Wrong{"plan k {\n  99999999999999999999 y root\n}\n", "p:2", "expected a number"},
           Wrong{"plan k {\n  1 y root\n}\n", "p:2", "there is no comp 1; the kernel has 1"},
           Wrong{"plan k {\n  0 x root\n}\n", "p:2", "expected 'y'"},
           Wrong{"plan k {\n  0 y inside\n}\n", "p:2", "expected root, before or after"},
           Wrong{"plan k {\n  0 y before 0\n}\n", "p:2", "expected 'at'"},
           Wrong{"plan k {\n  0 y before 0 at x\n}\n", "p:2", "expected a number"},
           Wrong{"plan k {\n  0 y root i@wide 1\n}\n", "p:2", "grid, seq, lane, unroll or vec"},
           Wrong{"plan k {\n  0 y root @seq 1\n}\n", "p:2", "no axis '@'"},
           Wrong{"plan k {\n  0 y root j@seq 1\n}\n", "p:2", "no axis 'j'"},
           Wrong{"plan k {\n  0 y root i@seq\n}\n", "p:2", "ends too early"},
           Wrong{"plan k {\n  0 y root i@seq 1 2\n}\n", "p:2", "'2' is not understood"},
           Wrong{"plan k {\n  0 y root i@seq 1; acc 1 carry q\n}\n", "p:2", "no buffer 'q'"},
           Wrong{"plan k {\n  0 y root i@seq 1; stage x at 1 layout 0\n}\n", "p:2", "expected ':'"},
           Wrong{"plan k {\n  0 y root i@seq 1; store\n}\n", "p:2", "expected 'nt'"},
           Wrong{"plan k {\n  0 y root i@seq 1; often\n}\n", "p:2", "acc, stage, keep or store"},
       }) {
    EXPECT_ERROR(parse_plan(wrong.text, kernel, "p"), ErrorCode::kInvalidArgument, wrong.place,
                 wrong.words);
  }
}

// Any prefix of a text, and a text with any byte replaced, is a plan or a kInvalidArgument.
TEST(PlanText, DamagedTextIsAPlanOrRefused) {
  const Kernel kernel = prepare_kernel(random_kernel(3), scalar_target());
  const std::string text = to_text(choose_plan(kernel, vector_target()), kernel);
  int num_refused = 0;
  const auto read = [&](const std::string& damaged) {
    try {
      (void)parse_plan(damaged, kernel);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
      ++num_refused;
    }
  };
  for (size_t at = 0; at < text.size(); ++at) {
    read(text.substr(0, at));
    for (const char byte : {'\0', ' ', '@', '9', '}', '\x80'}) {
      std::string damaged = text;
      damaged[at] = byte;
      read(damaged);
    }
  }
  EXPECT_GE(num_refused, static_cast<int>(3 * text.size()));
}

}  // namespace
}  // namespace tenon::test
