// Attention of random sizes (without exp, so that all sums are exact): every Plan that is a
// candidate for it, blocks among them, keeps its value. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_text.h"
#include "tests/codegen/candidates.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

using testing::Random;

std::string attention(Random& random) {
  const std::string_view dtypes[] = {"f32", "f64", "i32"};
  const std::string_view dtype = dtypes[random.below(3)];
  const int64_t heads = random.between(1, 3);
  const int64_t rows = random.between(2, 45);
  const int64_t keys = random.between(2, 45);
  const int64_t width = random.between(1, 20);
  const int64_t columns = random.between(1, 40);
  const auto shape = [&](auto... dims) {
    std::string text = concat(dtype, "[", heads);
    (append(text, ",", dims), ...);
    return text + "]";
  };
  const bool is_turned = random.percent(50);  // the keys: contiguous along their width, or across
  const auto over = [&](std::string_view names, int64_t last, std::string_view kind) {
    return concat("  over ", names.substr(0, 1), ":", heads, ", ", names.substr(1, 1), ":", rows,
                  ", ", names.substr(2, 1), ":", last, kind);
  };
  const std::string start = concat("  start 0", dtype);
  return concat(
      "kernel attention {\n  in q: ", shape(rows, width),
      "\n  in k: ", is_turned ? shape(width, keys) : shape(keys, width),
      "\n  in v: ", shape(keys, columns), "\n  out y: ", shape(rows, columns),
      "\n  tmp s: ", shape(rows, keys), "  tmp m: ", shape(rows), "  tmp w: ", shape(rows, keys),
      "  tmp z: ", shape(rows), "  tmp o: ", shape(rows, columns), "\n  s[a,b,c] += q[a,b,d] * ",
      is_turned ? "k[a,d,c]" : "k[a,c,d]", over("abc", keys, ""), ", d:", width, " red", start,
      "\n  m[e,f] max= s[e,f,g]", over("efg", keys, " red"), "  start -1000", dtype,
      "\n  w[h,i,j] = s[h,i,j] - m[h,i]", over("hij", keys, ""), "\n  z[l,n] += w[l,n,p]",
      over("lnp", keys, " red"), start, "\n  o[r,t,u] += (w[r,t,x] + z[r,t]) * v[r,x,u]",
      over("rtu", columns, ""), ", x:", keys, " red", start, "\n  y[A,B,C] = o[A,B,C]",
      over("ABC", columns, ""), "\n}");
}

TEST(BlockKernels, EveryCandidateKeepsTheValue) {
  constexpr int kNumKernels = testing::kIsSanitized ? 15 : 60;
  Random random(11);
  int num_plans = 0;
  int num_blocks = 0;
  int num_chosen = 0;
  for (int number = 0; number < kNumKernels; ++number) {
    const std::string text = attention(random);
    SCOPED_TRACE(text);
    const Kernel kernel = parse_kernel(text, "attention");
    Target target = vector_target();
    target.vector_registers = random.percent(50) ? 16 : 32;
    const std::vector<PlanChoice> choices =
        expect_candidates_keep_value(kernel, target, static_cast<uint64_t>(number), 100);
    num_chosen += choices[0].family == "blocks" ? 1 : 0;
    for (const PlanChoice& choice : choices) {
      ++num_plans;
      num_blocks += choice.family == "blocks" ? 1 : 0;
    }
  }
  std::printf("attention kernels: %d; plans %d, in blocks %d, those chosen for %d\n", kNumKernels,
              num_plans, num_blocks, num_chosen);
  EXPECT_GT(num_blocks, kNumKernels);
  EXPECT_GT(num_chosen, kNumKernels / 4);
}

}  // namespace
}  // namespace tenon::test
