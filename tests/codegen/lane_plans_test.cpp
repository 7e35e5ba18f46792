// Plans with lanes: random kernels keep their value through every pass, and no lanes race.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <set>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/build_nest.h"
#include "tenon/codegen/choose_plan.h"
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
                                "stages"};

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

// --- plans that are given ------------------------------------------------------------------------

constexpr std::string_view kProduct =
    "kernel mm { in a: i32[21,35] in b: i32[35,18] out y: i32[21,18] tmp c: i32[21,18] "
    "c[m,n] += a[m,k] * b[k,n] over m:21, n:18, k:35 red start 0 "
    "y[p,q] = max(c[p,q], 3) over p:21, q:18 }";
const std::string kParts = "m@unroll 4, n@unroll 4, m@lane 1 1, n@lane 0 1; ";
const std::string kAfter = " 1 y after 0 at 2 p@unroll 4, q@unroll 4, p@lane 1 1, q@lane 0 1 \n}";

TEST(GivenLanePlans, TilesKeepTheirValue) {
  const Kernel source = parse_kernel(kProduct, "test");
  KernelMemory memory(source, 4);
  const std::vector<std::byte> expected = outputs_of(source, memory);
  const std::string loops = "plan mm lanes 4 4 {\n 0 c root m@grid 8, n@grid 8, ";
  for (const std::string& text :
       {concat(loops, "k@seq 1, ", kParts, "acc 2\n", kAfter),
        // Operands in group memory, one of them for all blocks of the depth.
        concat(loops, "k@seq 8, k@seq 1, ", kParts, "acc 2; stage a at 3; stage b at 2\n", kAfter),
        concat(loops, "k@seq 8, k@seq 1, ", kParts,
               "acc 2; stage a at 3 layout 1:8+1 0:8+3; stage b at 3\n", kAfter),
        // The sums of a block wait in the output, each lane's own, or in group memory.
        concat(loops, "k@seq 8, k@seq 1, ", kParts, "acc 3 carry y; stage b at 3\n", kAfter),
        concat(loops, "k@seq 8, k@seq 1, ", kParts,
               "acc 3\n 1 y after 0 at 2 p@seq 1, q@seq 1 \n}"),
        // The depth is dealt to lanes too, or alone.
        concat("plan mm lanes 4 4 3 {\n 0 c root m@grid 8, n@grid 8, k@seq 3, k@lane 2 1, ", kParts,
               "acc 2\n", kAfter),
        concat("plan mm lanes 16 2 {\n 0 c root m@grid 2, n@grid 3, k@seq 16, m@unroll 1, ",
               "n@unroll 1, k@lane 0 1; acc 2\n 1 y after 0 at 2 p@lane 1 1, q@lane 0 1 \n}"),
        // Finished sums are read by other lanes, by fewer, by one.
        concat(loops, "k@seq 1, ", kParts,
               "acc 2\n 1 y after 0 at 2 p@seq 4, p@seq 1, q@lane 0 2, q@lane 1 1 \n}"),
        concat(loops, "k@seq 1, ", kParts, "acc 2\n 1 y after 0 at 2 p@seq 1, q@seq 1 \n}")}) {
    const Plan plan = parse_plan(text, source);
    const std::string wrong =
        first_wrong_pass(source, lane_target(), memory, expected, {.plan = plan});
    EXPECT_TRUE(wrong.empty()) << text << wrong;
  }
}

// One lane of a dim computes what all of them read: its registers do not do.
TEST(GivenLanePlans, WhatOneLaneComputesLiesInGroupMemory) {
  const Kernel source = parse_kernel(
      "kernel k { in a: i32[6] in x: i32[6,4] out y: i32[6,4] tmp t: i32[6] "
      "t[i] = a[i] * 7 over i:6 y[p,q] = t[p] * x[p,q] over p:6, q:4 }",
      "test");
  KernelMemory memory(source, 4);
  const std::vector<std::byte> expected = outputs_of(source, memory);
  for (const auto& [lane, scope] :
       {std::pair("i@unroll 1, i@lane 0 2", Scope::kGroup), {"i@unroll 1", Scope::kReg}}) {
    const Plan plan = parse_plan(concat("plan k lanes 4 {\n 1 y root p@grid 2, p@unroll 1, ",
                                        "q@lane 0 1\n 0 t before 1 at 1 ", lane, "\n}"),
                                 source);
    EXPECT_EQ(build_nest(source, plan).buffers[3].scope, scope);
    EXPECT_EQ(first_wrong_pass(source, lane_target(), memory, expected, {.plan = plan}), "");
  }
}

TEST(GivenLanePlans, AreRefusedByName) {
  const Kernel kernel = parse_kernel(kProduct, "test");
  const std::string loops = " {\n 0 c root m@grid 8, n@grid 8, k@seq ";
  for (const auto& [text, words] :
       {std::pair(concat("plan mm lanes 4 3", loops, "1, ", kParts, "acc 2\n", kAfter),
                  "axis 0 of comp 0 takes 4 lanes of dim 1, which has 3"),
        {concat("plan mm lanes 4", loops, "1, ", kParts, "acc 2\n", kAfter),
         "there is no lane dim 1"},
        {concat("plan mm lanes 64 8", loops, "1, ", kParts, "acc 2\n", kAfter), "512 lanes"},
        {concat("plan mm lanes 4 4", loops, "4, k@lane 0 1, ", kParts, "acc 2\n", kAfter),
         "comp 0 deals to lane dim 0 twice"},
        {concat("plan mm lanes 4 4 2", loops, "2, k@lane 2 1, ", kParts.substr(0, kParts.find(';')),
                "\n", kAfter),
         "comp 0 deals a red axis to lanes and has no accumulator"},
        {concat("plan mm lanes 4 4 2", loops, "8, k@seq 2, k@lane 2 1, ", kParts, "acc 3 carry y\n",
                kAfter),
         "comp 0 carries what lanes have yet to fold"},
        {"plan mm lanes 4 {\n 0 c root m@grid 2, m@seq 40, n@seq 1, k@seq 1, m@lane 0 1\n"
         " 1 y after 0 at 1 p@seq 1, q@seq 1\n}",
         "comp 1 is placed in comp 0, of which loops start beyond their axis"},
        {"plan mm {\n 1 y root q@seq 1, q@seq 9, p@seq 1\n"
         " 0 c before 1 at 1 m@seq 1, n@seq 1, k@seq 1; keep y\n}",
         "comp 0 is kept where others have written already"}}) {
    const std::string reason =
        check_plan(kernel, parse_plan(text, kernel), lane_target()).value_or("it fits");
    EXPECT_NE(reason.find(words), std::string::npos) << text << reason;
  }
}

// --- plans that are chosen -----------------------------------------------------------------------

// The cheapest plans of a kernel, and some that are not, keep its value.
void check_chosen(const Kernel& source, const Target& target, size_t count, uint64_t seed,
                  std::map<std::string_view, int>& families) {
  KernelMemory memory(source, seed);
  const std::vector<std::byte> expected = outputs_of(source, memory);
  const Kernel kernel = prepare_kernel(source, target);
  const std::vector<PlanChoice> choices = choose_plans(kernel, target, 64);
  // Without group memory there may be no place for a tmp.
  if (target.max_local_bytes == 0 && check_plan(kernel, choices.front().plan, target)) return;
  ++families[choices.front().family];
  const size_t step = std::max<size_t>(choices.size() / count, 1);
  for (size_t i = 0; i < choices.size(); i += step) {
    const std::string wrong =
        first_wrong_pass(source, target, memory, expected, {.plan = choices[i].plan});
    ASSERT_TRUE(wrong.empty()) << "seed " << seed << "\n"
                               << to_text(source) << to_text(choices[i].plan, kernel) << wrong;
  }
}

TEST(ChosenLanePlans, RandomKernelsKeepTheirValue) {
  const auto first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * kNumKernels;
  std::map<std::string_view, int> families;
  for (uint64_t seed = first; seed < first + kNumKernels; ++seed) {
    for (const Target& target : {lane_target(), lane_vector_target(), lone_lane_target()})
      check_chosen(random_kernel(seed), target, 2, seed, families);
  }
  for (const auto& [family, count] : families)
    std::printf("%.*s: %d kernels\n", static_cast<int>(family.size()), family.data(), count);
}

// Sums of rows, of columns and of products, of lengths that fill lanes or do not.
TEST(ChosenLanePlans, ReductionsOfAnyLength) {
  std::map<std::string_view, int> families;
  for (const int64_t length : {1, 2, 3, 31, 32, 33, 100, 255, 256, 257, 1000, 100003}) {
    for (const int64_t rows : {1, 3, 70}) {
      if (length * rows > (testing::kIsSanitized ? 1000 : 110000)) continue;
      const auto kernel = [&](std::string_view x, std::string_view index, std::string_view op,
                              std::string_view start) {
        return parse_kernel(
            concat("kernel sums { in x: i32[", x, "] out y: i32[", rows, "] tmp s: i32[", rows,
                   "] s[r] ", op, " x[", index, "] over r:", rows, ", k:", length, " red start ",
                   start, " y[q] = s[q] * 3 over q:", rows, " }"),
            "test");
      };
      const std::string by_rows = concat(rows, ",", length);
      const std::string by_columns = concat(length, ",", rows);
      const bool is_long = length > 10000;
      for (const Target& target : {lane_target(), lane_vector_target(), lone_lane_target()}) {
        const size_t count = is_long ? 1 : 6;
        check_chosen(kernel(by_rows, "r,k", "+=", "0"), target, count, 1, families);
        if (is_long) continue;
        check_chosen(kernel(by_columns, "k,r", "+=", "0"), target, count, 2, families);
        check_chosen(kernel(by_rows, "r,k", "max=", "-2147483648i32"), target, 2, 3, families);
      }
    }
  }
}

constexpr std::string_view kKernels[] = {
    "kernel stream { in a: i32[1003] out y: i32[1003] y[i] = a[i] * a[i] over i:1003 }",
    "kernel rows { in a: f32[37,70] in b: f32[70] out y: f32[37,70] "
    "y[i,j] = a[i,j] * b[j] over i:37, j:70 }",
    "kernel transpose { in a: i32[137,150] out y: i32[150,137] y[j,i] = a[i,j] over j:150, i:137 }",
    "kernel normal { in x: i32[19,150] out y: i32[19,150] tmp m: i32[19] tmp e: i32[19,150] "
    "tmp s: i32[19] m[r] max= x[r,c] over r:19, c:150 red start -2147483648i32 "
    "e[r,p] = x[r,p] - m[r] over r:19, p:150 s[r] += e[r,c] over r:19, c:150 red start 0 "
    "y[r,p] = e[r,p] * s[r] over r:19, p:150 }",
    "kernel mm { in a: f32[45,33] in b: f32[33,70] out y: f32[45,70] tmp c: f32[45,70] "
    "c[m,n] += a[m,k] * b[k,n] over m:45, n:70, k:33 red start 0 "
    "y[m,n] = max(c[m,n], 3) over m:45, n:70 }",
    "kernel batched { in a: i32[3,33,40] in b: i32[3,40,33] out y: i32[3,40,40] "
    "tmp c: i32[3,40,40] c[g,m,n] += a[g,k,m] * b[g,n,k] over g:3, m:40, n:40, k:33 red start 0 "
    "y[g,m,n] = c[g,m,n] over g:3, m:40, n:40 }",
    "kernel window { in x: i32[4,10,11] in w: i32[8,4,3,3] out y: i32[8,8,9] "
    "tmp c: i32[8,8,9] c[o,i,j] += x[q,i+u,j+v] * w[o,q,u,v] over o:8, i:8, j:9, q:4 red, "
    "u:3 red, v:3 red start 0 y[o,i,j] = c[o,i,j] over o:8, i:8, j:9 }"};

TEST(ChosenLanePlans, KernelsOfEachKindKeepTheirValue) {
  std::map<std::string_view, int> families;
  for (const std::string_view text : kKernels) {
    for (const Target& target : {lane_target(), lane_vector_target(), lone_lane_target()})
      check_chosen(parse_kernel(text, "test"), target, testing::kIsSanitized ? 1 : 5, 7, families);
  }
  for (const auto& [family, count] : families)
    std::printf("%.*s: %d kernels\n", static_cast<int>(family.size()), family.data(), count);
  EXPECT_GE(families["rows of lanes"], 9);
  EXPECT_GE(families["squares of lanes"], 1);
  EXPECT_GE(families["tiles of lanes"], 6);
}

}  // namespace
}  // namespace tenon::test
