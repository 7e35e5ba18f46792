// Every rule that a Plan can break, broken alone: check_plan names it. Plans that fit stand beside
// them, so that a rule that refuses everything shows. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <utility>

#include "tenon/base/text.h"
#include "tenon/codegen/plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/ir/kernel_text.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

/// A change of a Plan that fits, and words of the reason.
struct Fault {
  std::string_view words;
  void (*change)(Plan&);
};

void expect_refused(const Kernel& kernel, std::string_view text, std::span<const Fault> faults,
                    const Target& target = vector_target()) {
  const Plan good = parse_plan(text, kernel);
  ASSERT_EQ(check_plan(kernel, good, target), std::nullopt);
  for (const Fault& fault : faults) {
    Plan plan = good;
    fault.change(plan);
    const std::string reason = check_plan(kernel, plan, target).value_or("it fits");
    EXPECT_NE(reason.find(fault.words), std::string::npos)
        << "expected: " << fault.words << "\nfound: " << reason;
  }
}

Part& part(Plan& plan, size_t comp, size_t number) {
  return plan.comps[comp].parts[number];
}

constexpr std::string_view kProduct = R"(
kernel mm {
  in a: f32[64,64]  in b: f32[64,64]  out y: f32[64,64]  tmp c: f32[64,64]
  c[m,n] += a[m,k] * b[k,n]  over m:64, n:64, k:64 red  start 0
  y[p,q] = c[p,q]  over p:64, q:64
})";

constexpr std::string_view kTiles = R"(plan mm {
  0 c root m@grid 4, n@grid 16, k@seq 1, m@unroll 1, n@vec 1; acc 2; stage b at 2
  1 y after 0 at 2 p@unroll 1, q@vec 1
})";

TEST(RefusedPlans, InstancesOfOnePoint) {
  const Kernel kernel = parse_kernel(R"(
kernel single {
  in x: f32[40]  out y: f32[1]  tmp t: f32[1]
  t[i] += x[k]  over i:1, k:40 red  start 0
  y[p] = t[p]  over p:1
})",
                                     "test");
  constexpr Fault kFaults[] = {
      {"several instances of axis 0, which has one point",
       [](Plan& plan) {
         plan.comps[1].parts = {{0, Role::kSeq, 2}, {0, Role::kUnroll, 1}};
       }},
      {"several instances of axis 0, which has one point",
       [](Plan& plan) {
         plan.comps[1].parts = {{0, Role::kSeq, 8}, {0, Role::kVec, 1}};
       }},
  };
  expect_refused(kernel, R"(plan single {
  0 t root i@seq 1, k@seq 1; acc 1
  1 y after 0 at 1
})",
                 kFaults);
}

TEST(RefusedPlans, PartsAndPlaces) {
  constexpr Fault kFaults[] = {
      {"must name every comp once", [](Plan& plan) { plan.comps.pop_back(); }},
      {"there is no comp 7", [](Plan& plan) { plan.comps[1].comp = 7; }},
      {"comp 0 is named twice", [](Plan& plan) { plan.comps[1].comp = 0; }},
      {"the first entry is the root", [](Plan& plan) { plan.comps[1].how = How::kRoot; }},
      {"that has no place yet", [](Plan& plan) { plan.comps[1].at.comp = 1; }},
      {"placed inside 9 of 3 loops", [](Plan& plan) { plan.comps[1].at.depth = 9; }},
      {"comp 1 writes no tmp", [](Plan& plan) { plan.comps[1].how = How::kBefore; }},
      {"comp 0 has no axis 5", [](Plan& plan) { part(plan, 0, 2).axis = 5; }},
      {"a step of axis 2 is 0", [](Plan& plan) { part(plan, 0, 2).step = 0; }},
      {"loops must stand outside",
       [](Plan& plan) { std::swap(part(plan, 0, 2), part(plan, 0, 3)); }},
      {"axis 2 of comp 0 cannot be dealt", [](Plan& plan) { part(plan, 0, 2).role = Role::kGrid; }},
      {"grid parts must come first",
       [](Plan& plan) { std::swap(part(plan, 0, 1), part(plan, 0, 2)); }},
      {"more than 3 grid dimensions",
       [](Plan& plan) {
         std::vector<Part>& parts = plan.comps[0].parts;
         parts.insert(parts.begin(), {{0, Role::kGrid, 16}, {1, Role::kGrid, 32}});
       }},
      {"more than one vec part", [](Plan& plan) { part(plan, 0, 3).role = Role::kVec; }},
      {"a vec part has step 1", [](Plan& plan) { part(plan, 0, 4).step = 2; }},
      {"parts are grid, seq", [](Plan& plan) { part(plan, 0, 3).role = Role::kNone; }},
      {"there is no lane dim 0", [](Plan& plan) { part(plan, 0, 3).role = Role::kLane; }},
      {"needs 2 lanes in a group; the target has at most 1 (max_lanes)",
       [](Plan& plan) { plan.lanes = {2}; }},
      {"more than 3 lane dims",
       [](Plan& plan) {
         plan.lanes = {1, 1, 1, 1};
       }},
      {"lane dim 0 has 0 lanes", [](Plan& plan) { plan.lanes = {0}; }},
      {"only loops are peeled", [](Plan& plan) { part(plan, 0, 3).tail = Tail::kPeel; }},
      {"only par unroll parts are clamped",
       [](Plan& plan) { part(plan, 0, 2).tail = Tail::kClamp; }},
      {"1 unit parts of par", [](Plan& plan) { part(plan, 0, 3).role = Role::kUnit; }},
      {"axis 2 of comp 0 is not covered",
       [](Plan& plan) { plan.comps[0].parts.erase(plan.comps[0].parts.begin() + 2); }},
      {"axis 2 of comp 0 is not covered down to step 1",
       [](Plan& plan) { part(plan, 0, 2).step = 2; }},
      {"step 3 of axis 0 of comp 0 does not divide the step around it",
       [](Plan& plan) {
         std::vector<Part>& parts = plan.comps[0].parts;
         parts.insert(parts.begin() + 2, {0, Role::kSeq, 3});
       }},
      {"step 3 of axis 0 of comp 1 does not divide its 4 values",
       [](Plan& plan) {
         std::vector<Part>& parts = plan.comps[1].parts;
         parts.insert(parts.begin(), {0, Role::kUnroll, 3});
       }},
      {"comp 1 stands where comp 0 has left places out",
       [](Plan& plan) { std::swap(part(plan, 0, 0).step, part(plan, 0, 3).step); }},
      {"axis 0 of comp 1 is fixed by its place",
       [](Plan& plan) {
         part(plan, 0, 0).step = 1;
         plan.comps[0].parts.erase(plan.comps[0].parts.begin() + 3);
       }},
      {"computes with vectors of 64", [](Plan& plan) { part(plan, 0, 1).step = 64; }},
  };
  expect_refused(parse_kernel(kProduct, "test"), kTiles, kFaults);
}

TEST(RefusedPlans, AccumulatorsAndStages) {
  constexpr Fault kFaults[] = {
      {"comp 0 is not finished where it is read", [](Plan& plan) { plan.comps[1].at.depth = 3; }},
      {"stands outside of its tmp's place", [](Plan& plan) { plan.comps[0].acc->depth = 1; }},
      {"comp 0 has nothing to carry", [](Plan& plan) { plan.comps[0].acc->carry_in = 2; }},
      {"needs a buffer to carry", [](Plan& plan) { plan.comps[0].acc->depth = 3; }},
      {"comp 0 cannot lie in 'a'",
       [](Plan& plan) { plan.comps[0].acc = Acc{.depth = 3, .carry_in = 0}; }},
      {"the accumulators of comp 0 take 64 registers",
       [](Plan& plan) { part(plan, 0, 0).step = 64; }},
      {"stands inside 9 loops of comp 0", [](Plan& plan) { plan.comps[0].stages[0].depth = 9; }},
      {"which are not around it", [](Plan& plan) { plan.comps[0].stages[0].around = 1; }},
      {"comp 0 reads no such operand", [](Plan& plan) { plan.comps[0].stages[0].buffer = 2; }},
      {"stage: ",
       [](Plan& plan) {
         plan.comps[0].stages[0].layout = {{1, 4, 0}, {0, 64, 0}};  // 4 of 16 columns
       }},
  };
  const Kernel kernel = parse_kernel(kProduct, "test");
  expect_refused(kernel, kTiles, kFaults);
  Target small = vector_target();
  small.max_local_bytes = 1024;  // the stage has 4 KiB
  EXPECT_NE(check_plan(kernel, parse_plan(kTiles, kernel), small)
                .value_or("")
                .find("bytes of group memory; the target has at most 1024 (max_local_bytes)"),
            std::string::npos);
  Target no_f32 = vector_target();
  no_f32.arithmetic = {};
  no_f32.arithmetic.add(DType::kI32);
  const Kernel sums = parse_kernel(
      "kernel s {\n  in x: f32[8,64]  out y: f32[8]  tmp t: f32[8]\n"
      "  t[i] += x[i,j]  over i:8, j:64 red  start 0\n  y[k] = t[k]  over k:8\n}",
      "test");
  const Plan partial = parse_plan(
      "plan s {\n  0 t root i@grid 1, j@seq 4, j@unroll 1; acc 1\n  1 y after 0 at 1\n}", sums);
  EXPECT_EQ(check_plan(sums, partial, vector_target()), std::nullopt);
  EXPECT_NE(check_plan(sums, partial, no_f32).value_or("").find("its red axes must be loops"),
            std::string::npos);
}

constexpr std::string_view kRows = R"(
kernel rows {
  in x: f32[64,32]  out y: f32[64,32]  tmp e: f32[64,32]  tmp s: f32[64]
  e[a,b] = x[a,b] * x[a,b]  over a:64, b:32
  s[i] += e[i,j]  over i:64, j:32 red  start 0
  y[p,q] = e[p,q] * s[p]  over p:64, q:32
})";

TEST(RefusedPlans, WhatStandsBeforeItsReader) {
  constexpr std::string_view kGood = R"(plan rows {
  2 y root p@grid 8, p@seq 1, q@seq 1
  1 s before 2 at 2 j@seq 1; acc 0
  0 e before 2 at 2 b@seq 1; keep y
})";
  constexpr Fault kFaults[] = {
      {"comp 0 is kept by several groups",
       [](Plan& plan) {
         plan.comps[2].at.depth = 0;
         plan.comps[2].parts.insert(plan.comps[2].parts.begin(), {0, Role::kSeq, 1});
       }},
      {"comp 1 has par loops inside its accumulator",
       [](Plan& plan) {
         for (const size_t i : {size_t{1}, size_t{2}}) {
           plan.comps[i].at.depth = 1;
           plan.comps[i].parts.insert(plan.comps[i].parts.begin(), {0, Role::kSeq, 1});
         }
         plan.comps[2].keep.reset();
       }},
      {"comp 0 cannot lie in 'x'", [](Plan& plan) { plan.comps[2].keep = 0; }},
      {"a reader of comp 0 has no place yet",
       [](Plan& plan) { std::swap(plan.comps[1], plan.comps[2]); }},
      {"comp 1 reads comp 0 outside of its place",
       [](Plan& plan) {
         plan.comps[1].at.depth = 1;
         plan.comps[1].parts.insert(plan.comps[1].parts.begin(), {0, Role::kSeq, 1});
       }},
      {"is placed after no reduction",
       [](Plan& plan) {
         plan.comps[1] = {.comp = 1, .how = How::kAfter, .at = {2, 2}};
       }},
  };
  expect_refused(parse_kernel(kRows, "test"), kGood, kFaults);
}

// Each group computes whole rows of e, which the output has only a part of in each.
TEST(RefusedPlans, WhatIsReadBeyondTheOutputOfItsGroup) {
  const Kernel kernel = parse_kernel(kRows, "test");
  const auto reason_for = [&](std::string_view keep) {
    const std::string text = concat(
        "plan rows {\n  2 y root p@grid 8, q@grid 16, p@seq 1, q@seq 1\n"
        "  1 s before 2 at 3 j@seq 1; acc 0\n  0 e before 2 at 3 b@seq 1",
        keep, "\n}");
    return check_plan(kernel, parse_plan(text, kernel), vector_target()).value_or("it fits");
  };
  EXPECT_EQ(reason_for(""), "it fits");
  EXPECT_NE(reason_for("; keep y").find("comp 0 is read beyond where it is kept"),
            std::string::npos);
}

TEST(RefusedPlans, GatesThatAStageCannotHold) {
  const auto plan_of = [](std::string_view load) {
    const Kernel kernel = parse_kernel(
        concat("kernel w {\n  in x: f32[64]  out y: f32[64]  tmp t: f32[64]\n  t[i] += ", load,
               "  over i:64, k:3 red  start 0\n  y[j] = t[j]  over j:64\n}"),
        "test");
    const Plan plan = parse_plan(
        "plan w {\n  0 t root i@grid 16, k@seq 1, i@vec 1; acc 1; stage x at 1\n"
        "  1 y after 0 at 1 j@vec 1\n}",
        kernel);
    return check_plan(kernel, plan, vector_target()).value_or("it fits");
  };
  EXPECT_EQ(plan_of("x[i + k - 1 if 0 < i + k & i + k < 65 else 0f32]"), "it fits");
  EXPECT_NE(plan_of("x[i + k - 1 if 0 < i + k & i + k < 65 else 1f32]").find("more than zeros"),
            std::string::npos);
  EXPECT_NE(
      plan_of("x[i + k - 1 if 0 < i + k & i + k < 60 else 0f32] * x[i]").find("several gates"),
      std::string::npos);
  EXPECT_NE(plan_of("x[floormod(i + k, 64)]").find("not affine"), std::string::npos);
}

}  // namespace
}  // namespace tenon::test
