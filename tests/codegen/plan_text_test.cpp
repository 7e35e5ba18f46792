// Plans read back as they were printed; anything else is refused with its place.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/codegen/build_nest.h"
#include "tenon/codegen/plan.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_kernel.h"
#include "tests/support/random_plan.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

TEST(PlanText, RandomPlansReadBackAsTheyWere) {
  std::mt19937_64 random(7);
  size_t num_parts = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Kernel kernel = split_root(random_kernel(seed));
    for (const Plan& plan :
         {choose_plan(kernel, scalar_target()), random_plan(kernel, scalar_target(), random)}) {
      const std::string text = to_text(plan, kernel);
      ASSERT_EQ(parse_plan(text, kernel), plan) << text;
      ASSERT_EQ(to_text(parse_plan(text, kernel), kernel), text);
      for (const CompPlan& comp : plan.comps)
        num_parts += comp.parts.size();
    }
  }
  EXPECT_GE(num_parts, 1000u);
}

TEST(PlanText, WrongTextIsRefusedWithItsPlace) {
  Kernel kernel;
  kernel.name = "k";
  struct Wrong {
    const char* text;
    const char* place;
    const char* words;
  };
  for (const Wrong& wrong : {
           Wrong{"", "p:1:1", "found '', expected 'plan'"},
           Wrong{"plan other {\n}\n", "p:1:6", "expected 'k'"},
           Wrong{"plan k {\n", "p:2:1", "expected '}'"},
           Wrong{"plan k {\n} }\n", "p:2:3", "expected the end"},
           Wrong{"plan k {\n  comp -1 root\n}\n", "p:2:8", "a number"},
           Wrong{"plan k {\n  comp 99999999999999999999 root\n}\n", "p:2:8", "a number"},
           Wrong{"plan k {\n  comp 0 inside\n}\n", "p:2:10", "expected 'root'"},
           Wrong{"plan k {\n  comp 0 before 3\n}\n", "p:2:17", "expected 'at'"},
           Wrong{"plan k {\n  comp 0 before at x\n}\n", "p:2:20", "a number"},
           Wrong{"plan k {\n  comp 0 root 0@lane 1\n}\n", "p:2:15", "AXIS@grid or AXIS@seq"},
           Wrong{"plan k {\n  comp 0 root @seq 1\n}\n", "p:2:15", "a number"},
           Wrong{"plan k {\n  comp 0 root 0@seq\n}\n", "p:3:1", "a step"},
           Wrong{"plan k {\n  comp 0 root 0@seq 1 2\n}\n", "p:2:23", "expected '}'"},
       }) {
    EXPECT_ERROR(parse_plan(wrong.text, kernel, "p"), ErrorCode::kInvalidArgument, wrong.place,
                 wrong.words);
  }
}

// Any prefix of a text, and a text with any byte replaced, is a plan or a kInvalidArgument.
TEST(PlanText, DamagedTextIsAPlanOrRefused) {
  const Kernel kernel = split_root(random_kernel(3));
  const std::string text = to_text(choose_plan(kernel, scalar_target()), kernel);
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
