// The cost model: traffic that can be counted by hand, and what Plans are chosen as a fact of the
// Target changes. SPDX-License-Identifier: MIT

#include "tenon/codegen/cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/ir/kernel_text.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

constexpr size_t kAll = 1000;
constexpr int64_t kMiB = 1 << 20;

Kernel doubled(int64_t size) {
  return parse_kernel(concat("kernel doubled {\n  in x: f32[", size, "]\n  out y: f32[", size,
                             "]\n  y[i] = x[i] + x[i]  over i:", size, "\n}"),
                      "test");
}

Kernel matmul(int64_t m, int64_t n, int64_t k) {
  return parse_kernel(concat("kernel mm {\n  in a: f32[", m, ",", k, "]\n  in b: f32[", k, ",", n,
                             "]\n  out y: f32[", m, ",", n, "]\n  tmp c: f32[", m, ",", n,
                             "]\n  c[m,n] += a[m,k] * b[k,n]  over m:", m, ", n:", n, ", k:", k,
                             " red  start 0\n  y[p,q] = c[p,q]  over p:", m, ", q:", n, "\n}"),
                      "test");
}

Kernel attention(int64_t heads, int64_t size, int64_t width) {
  std::string text = R"(
kernel attention {
  in q: f32[H,S,W]  in k: f32[H,S,W]  in v: f32[H,S,W]  out y: f32[H,S,W]
  tmp s: f32[H,S,S]  tmp m: f32[H,S]  tmp B: f32[H,S,S]  tmp C: f32[H,S]  tmp D: f32[H,S,W]
  s[a,b,c] += q[a,b,d] * k[a,c,d]  over a:H, b:S, c:S, d:W red  start 0
  m[e,f] max= s[e,f,g]  over e:H, f:S, g:S red  start -inf_f32
  B[h,i,j] = exp2(s[h,i,j] - m[h,i])  over h:H, i:S, j:S
  C[l,n] += B[l,n,o]  over l:H, n:S, o:S red  start 0
  D[p,r,t] += B[p,r,u] / C[p,r] * v[p,u,t]  over p:H, r:S, t:W, u:S red  start 0
  y[w,x,A] = D[w,x,A]  over w:H, x:S, A:W
})";
  for (const auto& [letter, value] : {std::pair('H', heads), {'S', size}, {'W', width}}) {
    for (size_t at = 0; (at = text.find(letter, at)) != std::string::npos;)
      text.replace(at, 1, concat(value));
  }
  return parse_kernel(text, "test");
}

PlanCost cost_of_text(const Kernel& kernel, const std::string& plan, const Target& target) {
  return cost_of(kernel, parse_plan(plan, kernel), target);
}

bool bypasses(const Plan& plan) {
  return plan.comps[0].store == StoreKind::kNonTemporal;
}

TEST(PlanCost, AStreamMovesEachByteOnce) {
  const Kernel kernel = doubled(16 * kMiB);
  const std::string loops = "plan doubled {\n  0 y root i@grid 1048576, i@seq 16 peel, i@vec 1";
  const PlanCost kept = cost_of_text(kernel, loops + "\n}", vector_target());
  EXPECT_EQ(kept.traffic, (std::vector<int64_t>{128 * kMiB, 128 * kMiB, 128 * kMiB}));
  EXPECT_EQ(kept.flops, 16.0 * kMiB);
  EXPECT_EQ(kept.groups, 16);
  // What passes by the caches comes into none of them, and is not read before it is written.
  const PlanCost bypassing = cost_of_text(kernel, loops + "; store nt\n}", vector_target());
  EXPECT_EQ(bypassing.traffic, (std::vector<int64_t>{64 * kMiB, 64 * kMiB, 128 * kMiB}));
  EXPECT_LT(bypassing.seconds, kept.seconds);
}

// Four rows of a tmp are made where the root's row needs them, each once, however long the chain of
// tmps that leads to them.
TEST(PlanCost, WhatIsReadThroughTmpsMovesWithTheirReader) {
  const Kernel kernel = parse_kernel(R"(
kernel chain {
  in x: f32[4096,1024]  out y: f32[4096,1024]
  tmp a: f32[4096,1024]  tmp b: f32[4096,1024]  tmp c: f32[4096,1024]
  a[i,j] = x[i,j]  over i:4096, j:1024
  b[k,l] = a[k,l]  over k:4096, l:1024
  c[m,n] = b[m,n]  over m:4096, n:1024
  y[o,p] = c[o,p]  over o:4096, p:1024
})",
                                     "test");
  const PlanCost cost = cost_of_text(kernel, R"(plan chain {
  3 y root o@grid 512, o@seq 4, o@seq 1, p@seq 16, p@vec 1
  2 c before 3 at 2 m@seq 1, n@seq 16, n@vec 1
  1 b before 3 at 2 k@seq 1, l@seq 16, l@vec 1
  0 a before 3 at 2 i@seq 1, j@seq 16, j@vec 1
})",
                                     vector_target());
  EXPECT_EQ(cost.traffic.at(2), 32 * kMiB);
  EXPECT_EQ(cost.flops, 0);
  EXPECT_LT(cost.vector_ops, 3.0 * 4 * 4096 * 1024 / 16);
}

TEST(PlanCost, WhatFitsACacheIsThereFromBefore) {
  const Kernel kernel = doubled(64 << 10);  // 512 KiB in all
  const PlanCost cost =
      cost_of_text(kernel, "plan doubled {\n  0 y root i@seq 16 peel, i@vec 1\n}", vector_target());
  EXPECT_EQ(cost.traffic, (std::vector<int64_t>{512 << 10, 0, 0}));
}

// The example of the rule: 4 groups x 4 blocks of k; inside of them 171 tiles of 6 rows. Into L2 of
// 1 MiB: what one tile of rows touches fits (256 KiB of b, 6 KiB of a, 6 KiB of y).
TEST(PlanCost, ATileBringsItsOperandsInByTheFootprintRule) {
  const std::string plan =
      "plan mm {\n  0 c root n@grid 256, k@seq 256, m@seq 6, n@seq 64, k@seq 1, m@unroll 1 clamp, "
      "n@unroll 16, n@vec 1; acc 4 carry y; stage b at 2 layout 1:4 0:256 1:64\n"
      "  1 y after 0 at 4 p@unroll 1, q@unroll 16, q@vec 1\n}";
  const Kernel kernel = matmul(1024, 1024, 1024);
  const PlanCost cost = cost_of_text(kernel, plan, vector_target());
  const int64_t copy_of_b = 4 * kMiB;
  const int64_t stage = 256 << 10;
  const int64_t rows_of_a = int64_t{6 << 10} * 4 * 4 * 171;
  const int64_t rows_of_y = rows_of_a;
  EXPECT_EQ(cost.traffic.at(1), copy_of_b + stage + rows_of_a + rows_of_y);
  EXPECT_EQ(cost.traffic.at(2), 0);
  EXPECT_EQ(cost.copied_bytes, 4 * kMiB);
  EXPECT_EQ(cost.flops, 2.0 * 1024 * 1024 * 1024);
  // In a larger cache what one block of k touches stays (1 MiB of a, 1 MiB of y, 256 KiB of b): y
  // comes in once for each, a for each group.
  Target large = vector_target();
  large.caches[1].bytes = 4 * kMiB;
  EXPECT_LT(3 * cost_of_text(kernel, plan, large).traffic.at(1), 2 * cost.traffic.at(1));
}

TEST(PlanCost, NoThreadWaitsForGroupsThatAreNotThere) {
  Target target = vector_target();
  const Kernel kernel = matmul(512, 512, 512);
  const auto with_groups = [&](int rows) {
    return cost_of_text(kernel,
                        concat("plan mm {\n  0 c root m@grid ", rows,
                               ", m@seq 4, n@seq 64, k@seq 1, m@unroll 1, n@unroll 16, n@vec 1; "
                               "acc 4\n  1 y after 0 at 4 p@unroll 1, q@unroll 16, q@vec 1\n}"),
                        target);
  };
  EXPECT_LT(with_groups(128).seconds, 0.6 * with_groups(512).seconds);
  target.threads = 1;
  EXPECT_GT(with_groups(128).seconds, 0.95 * with_groups(512).seconds);
}

TEST(PlanCost, ShortRunsOfMemoryAreSlow) {
  const Kernel kernel = parse_kernel(
      "kernel sums {\n  in x: f32[4096,4096]\n  out y: f32[4096]\n  tmp s: f32[4096]\n"
      "  s[n] += x[m,n]  over n:4096, m:4096 red  start 0\n  y[q] = s[q]  over q:4096\n}",
      "test");
  const auto sum_of_columns = [&](int vectors) {
    const std::string unroll = vectors > 1 ? "@unroll 16, " : "";
    return cost_of_text(
        kernel,
        concat("plan sums {\n  1 y root q@grid ", 16 * vectors, ", ", unroll.empty() ? "" : "q",
               unroll, "q@vec 1\n  0 s before 1 at 1 m@seq 1, ", unroll.empty() ? "" : "n", unroll,
               "n@vec 1; acc 0\n}"),
        vector_target());
  };
  EXPECT_EQ(sum_of_columns(1).traffic, sum_of_columns(8).traffic);
  EXPECT_GT(sum_of_columns(1).seconds, 2 * sum_of_columns(8).seconds);
}

TEST(ChoosePlans, AreInOrderOfTheirCostAndTheSameEachTime) {
  for (const Kernel& kernel : {doubled(1 << 20), matmul(100, 300, 700), matmul(1024, 1024, 1024)}) {
    const std::vector<PlanChoice> plans = choose_plans(kernel, vector_target(), kAll);
    const std::vector<PlanChoice> again = choose_plans(kernel, vector_target(), kAll);
    ASSERT_EQ(plans.size(), again.size());
    EXPECT_GT(plans.size(), 3u);
    EXPECT_LE(plans.size(), 64u);
    for (size_t i = 0; i < plans.size(); ++i) {
      EXPECT_EQ(plans[i].plan, again[i].plan);
      EXPECT_EQ(check_plan(kernel, plans[i].plan, vector_target()), std::nullopt);
      EXPECT_GE(plans[i].cost.seconds, plans[i == 0 ? 0 : i - 1].cost.seconds);
    }
    EXPECT_EQ(choose_plan(kernel, vector_target()), plans[0].plan);
  }
}

TEST(ChoosePlans, StoresPassByTheCachesFromTheTargetsThreshold) {
  const Kernel kernel = doubled(16 * kMiB);
  Target target = vector_target();
  EXPECT_TRUE(bypasses(choose_plan(kernel, target)));
  target.bypass_bytes = 64 * kMiB + 1;
  EXPECT_FALSE(bypasses(choose_plan(kernel, target)));
  EXPECT_FALSE(bypasses(choose_plan(doubled(kMiB), vector_target())));
}

TEST(ChoosePlans, TilesFitTheRegistersOfTheTarget) {
  const Kernel kernel = matmul(512, 512, 512);
  int64_t largest = 0;
  for (const int registers : {16, 32}) {
    Target target = vector_target();
    target.vector_registers = registers;
    int64_t most = 0;
    for (const PlanChoice& choice : choose_plans(kernel, target, kAll)) {
      if (choice.family != "tile") continue;
      int64_t rows = 1;
      int64_t vectors = 1;
      for (const Part& part : choice.plan.comps[0].parts) {
        if (part.role != Role::kSeq) continue;
        if (part.axis == 0) rows = part.step;
        if (part.axis == 1) vectors = part.step / 16;
      }
      EXPECT_LT(rows * vectors + vectors + 1, registers) << to_text(choice.plan, kernel);
      most = std::max(most, rows * vectors);
    }
    EXPECT_GT(most, largest) << registers;
    largest = most;
  }
}

TEST(ChoosePlans, BlocksOfAttentionArePricedAgainstRows) {
  const Kernel kernel = attention(8, 512, 64);
  for (const int registers : {16, 32}) {
    Target target = vector_target();
    target.vector_registers = registers;
    const std::vector<PlanChoice> plans = choose_plans(kernel, target, kAll);
    EXPECT_EQ(plans[0].family, "blocks");
    EXPECT_EQ(plans[1].family, "blocks");
    EXPECT_EQ(plans[2].family, "rows");
    EXPECT_LT(plans[1].cost.seconds, 0.7 * plans[2].cost.seconds);
    // Two products, and computing takes the time: no row is computed twice.
    EXPECT_GT(plans[0].cost.flops, 4.0 * 8 * 512 * 512 * 64);
    EXPECT_LT(plans[0].cost.vector_ops, plans[0].cost.flops / 16);
    EXPECT_EQ(plans[0].cost.traffic.at(2), 0);
    const auto has_block = [&](int64_t rows) {
      return std::ranges::any_of(plans[0].plan.comps[0].parts,
                                 [&](const Part& part) { return part.step == rows; });
    };
    EXPECT_TRUE(has_block(target.block_rows()) || has_block(2 * target.block_rows()));
  }
}

// Short rows have no contraction worth a block; then there are rows, tiles or loops.
TEST(ChoosePlans, ProductsOfFewRowsHaveABlockOfThem) {
  const Kernel kernel = attention(64, 3, 16);
  const std::vector<PlanChoice> plans = choose_plans(kernel, vector_target(), kAll);
  EXPECT_GT(plans.size(), 1U);
  for (size_t i = 1; i < plans.size(); ++i)
    EXPECT_GE(plans[i].cost.seconds, plans[i - 1].cost.seconds);
}

TEST(ChoosePlans, VectorsFitColumnsOfAnyWidth) {
  const Target target = vector_target();
  for (const int64_t columns : {2, 3, 5, 7, 9, 10, 15, 17, 31}) {
    const Plan plan = choose_plan(matmul(48, columns, 534), target);
    const auto has_vec = [](const CompPlan& entry) {
      return std::ranges::any_of(entry.parts,
                                 [](const Part& part) { return part.role == Role::kVec; });
    };
    EXPECT_TRUE(std::ranges::any_of(plan.comps, has_vec)) << columns;
  }
}

TEST(ChoosePlans, ReasonsNameWhatTakesTheTime) {
  const Target target = vector_target();
  const auto first_reason = [&](const Kernel& kernel) {
    return reasons_of(choose_plans(kernel, target, 1)[0].cost, target).at(0);
  };
  EXPECT_NE(first_reason(matmul(512, 512, 512)).find("computing"), std::string::npos);
  EXPECT_NE(first_reason(doubled(16 * kMiB)).find("moving"), std::string::npos);
  EXPECT_NE(first_reason(doubled(16 * kMiB)).find("from memory"), std::string::npos);
}

}  // namespace
}  // namespace tenon::test
