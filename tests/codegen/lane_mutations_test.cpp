// What the interpreter's checks are worth in programs that codegen makes: in kernels of lanes with
// tails, group memory, private memory, vectors, each barrier is removed, each gate dropped, each
// bound moved by one. A check finds it or the poisoned output shows it, or the list says why it is
// the same program. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/base/text.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"
#include "tests/codegen/lane_runs.h"
#include "tests/support/linear_mutants.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

constexpr std::string_view kRow =
    "kernel k { in x: i32[3,70] out y: i32[3] tmp s: i32[3] "
    "s[r] += x[r,k] over r:3, k:70 red start 0 y[q] = s[q] over q:3 }";
constexpr std::string_view kColumns =
    "kernel k { in x: i32[41,37] out y: i32[37] tmp s: i32[37] "
    "s[c] += x[k,c] over c:37, k:41 red start 0 y[q] = s[q] over q:37 }";
constexpr std::string_view kProduct =
    "kernel k { in a: i32[13,19] in b: i32[19,22] out y: i32[13,22] tmp c: i32[13,22] "
    "c[m,n] += a[m,k] * b[k,n] over m:13, n:22, k:19 red start 0 "
    "y[p,q] = c[p,q] over p:13, q:22 }";
constexpr std::string_view kNormal =
    "kernel k { in x: i32[5,43] out y: i32[5,43] tmp m: i32[5] tmp s: i32[5] "
    "m[r] += x[r,c] over r:5, c:43 red start 0 "
    "s[r] += x[r,c] - m[r] over r:5, c:43 red start 0 "
    "y[r,p] = x[r,p] * 3 - s[r] over r:5, p:43 }";
constexpr std::string_view kKept =
    "kernel k { in x: i32[5,43] out y: i32[5,43] tmp e: i32[5,43] tmp s: i32[5] "
    "e[r,p] = x[r,p] * x[r,p] over r:5, p:43 s[r] += e[r,c] over r:5, c:43 red start 0 "
    "y[r,p] = e[r,p] - s[r] over r:5, p:43 }";

struct LaneCase {
  std::string_view name;
  std::string_view kernel;
  Target (*target)();
  std::string_view plan;
};

constexpr LaneCase kCases[] = {
    {"row, 16x4 lanes", kRow, lane_target,
     "plan k lanes 16 4 {\n"
     "1 y root q@grid 4, q@lane 1 1\n"
     "0 s before 1 at 1 r@lane 1 1, k@unroll 16, k@lane 0 1; acc 0\n"
     "}"},
    {"row, 8x4 lanes", kRow, lane_target,
     "plan k lanes 8 4 {\n"
     "1 y root q@grid 4, q@lane 1 1\n"
     "0 s before 1 at 1 k@seq 32, r@lane 1 1, k@unroll 8, k@lane 0 1; acc 0\n"
     "}"},
    {"row, 16x4 lanes of vectors", kRow, lane_vector_target,
     "plan k lanes 16 4 {\n"
     "1 y root q@grid 4, q@lane 1 1\n"
     "0 s before 1 at 1 r@lane 1 1, k@unroll 16, k@lane 0 1; acc 0\n"
     "}"},
    {"row, 8x4 lanes of vectors", kRow, lane_vector_target,
     "plan k lanes 8 4 {\n"
     "1 y root q@grid 4, q@lane 1 1\n"
     "0 s before 1 at 1 k@seq 32, r@lane 1 1, k@unroll 8, k@lane 0 1; acc 0\n"
     "}"},
    {"columns, 64x4 lanes", kColumns, lane_target,
     "plan k lanes 64 4 {\n"
     "1 y root q@grid 64, q@lane 0 1\n"
     "0 s before 1 at 1 k@seq 4, c@lane 0 1, k@lane 1 1; acc 0\n"
     "}"},
    {"columns, 64 lanes", kColumns, lane_target,
     "plan k lanes 64 {\n"
     "1 y root q@grid 64, q@lane 0 1\n"
     "0 s before 1 at 1 k@seq 1, c@lane 0 1; acc 0\n"
     "}"},
    {"columns, 64 lanes of vectors", kColumns, lane_vector_target,
     "plan k lanes 64 {\n"
     "1 y root q@grid 64, q@lane 0 1\n"
     "0 s before 1 at 1 k@seq 4, c@lane 0 1, k@unroll 1; acc 0\n"
     "}"},
    {"columns, 8x4 lanes of vectors", kColumns, lane_vector_target,
     "plan k lanes 8 4 {\n"
     "1 y root q@grid 8, q@lane 0 1\n"
     "0 s before 1 at 1 k@seq 4, c@lane 0 1, k@lane 1 1; acc 0\n"
     "}"},
    {"columns, 8 lanes alone", kColumns, lone_lane_target,
     "plan k lanes 8 {\n"
     "1 y root q@grid 8, q@lane 0 1\n"
     "0 s before 1 at 1 k@seq 1, c@lane 0 1; acc 0\n"
     "}"},
    {"columns, 16 lanes alone", kColumns, lone_lane_target,
     "plan k lanes 16 {\n"
     "1 y root q@grid 16, q@lane 0 1\n"
     "0 s before 1 at 1 k@seq 1, c@lane 0 1; acc 0\n"
     "}"},
    {"product, 8x4 lanes", kProduct, lane_target,
     "plan k lanes 8 4 {\n"
     "0 c root m@grid 16, n@grid 32, k@seq 1, m@unroll 4, n@unroll 8, m@lane 1 1, n@lane 0 1; acc "
     "2; stage a at 2 layout 0:16 1:19+1; stage b at 2\n"
     "1 y after 0 at 2 p@unroll 4, q@unroll 8, p@lane 1 1, q@lane 0 1\n"
     "}"},
    {"product, 8x8 lanes", kProduct, lane_target,
     "plan k lanes 8 8 {\n"
     "0 c root m@grid 32, n@grid 32, k@seq 1, m@unroll 8, n@unroll 8, m@lane 1 1, n@lane 0 1; acc "
     "2; stage a at 2 layout 0:32 1:19+1; stage b at 2\n"
     "1 y after 0 at 2 p@unroll 8, q@unroll 8, p@lane 1 1, q@lane 0 1\n"
     "}"},
    {"product, 8x4 lanes of vectors", kProduct, lane_vector_target,
     "plan k lanes 8 4 {\n"
     "0 c root m@grid 16, n@grid 32, k@seq 1, m@unroll 4, m@lane 1 1, n@lane 0 4, n@vec 1; acc 2; "
     "stage a at 2 layout 0:16 1:19+1; stage b at 2\n"
     "1 y after 0 at 2 p@unroll 4, p@lane 1 1, q@lane 0 4, q@vec 1\n"
     "}"},
    {"product, 8x8 lanes of vectors", kProduct, lane_vector_target,
     "plan k lanes 8 8 {\n"
     "0 c root m@grid 32, n@grid 32, k@seq 1, m@unroll 8, m@lane 1 1, n@lane 0 4, n@vec 1; acc 2; "
     "stage a at 2 layout 0:32 1:19+1; stage b at 2\n"
     "1 y after 0 at 2 p@unroll 8, p@lane 1 1, q@lane 0 4, q@vec 1\n"
     "}"},
    {"product, 8x4 lanes alone", kProduct, lone_lane_target,
     "plan k lanes 8 4 {\n"
     "0 c root m@grid 16, n@grid 32, k@seq 1, m@unroll 4, n@unroll 8, m@lane 1 1, n@lane 0 1; acc "
     "2\n"
     "1 y after 0 at 2 p@unroll 4, q@unroll 8, p@lane 1 1, q@lane 0 1\n"
     "}"},
    {"product, 8x8 lanes alone", kProduct, lone_lane_target,
     "plan k lanes 8 8 {\n"
     "0 c root m@grid 32, n@grid 32, k@seq 1, m@unroll 8, n@unroll 8, m@lane 1 1, n@lane 0 1; acc "
     "2\n"
     "1 y after 0 at 2 p@unroll 8, q@unroll 8, p@lane 1 1, q@lane 0 1\n"
     "}"},
    {"normal, 8x16 lanes", kNormal, lane_target,
     "plan k lanes 8 16 {\n"
     "2 y root r@grid 16, r@lane 1 1, p@unroll 8, p@lane 0 1\n"
     "1 s before 2 at 1 r@lane 1 1, c@unroll 8, c@lane 0 1; acc 0\n"
     "0 m before 2 at 1 r@lane 1 1, c@unroll 8, c@lane 0 1; acc 0\n"
     "}"},
    {"normal, 16x16 lanes", kNormal, lane_target,
     "plan k lanes 16 16 {\n"
     "2 y root r@grid 16, r@lane 1 1, p@unroll 16, p@lane 0 1\n"
     "1 s before 2 at 1 r@lane 1 1, c@unroll 16, c@lane 0 1; acc 0\n"
     "0 m before 2 at 1 r@lane 1 1, c@unroll 16, c@lane 0 1; acc 0\n"
     "}"},
    {"normal, 4x16 lanes of vectors", kNormal, lane_vector_target,
     "plan k lanes 4 16 {\n"
     "2 y root r@grid 16, p@seq 16, r@lane 1 1, p@unroll 4, p@lane 0 1\n"
     "1 s before 2 at 1 c@seq 16, r@lane 1 1, c@unroll 4, c@lane 0 1; acc 0\n"
     "0 m before 2 at 1 c@seq 16, r@lane 1 1, c@unroll 4, c@lane 0 1; acc 0\n"
     "}"},
    {"normal, 2x16 lanes of vectors", kNormal, lane_vector_target,
     "plan k lanes 2 16 {\n"
     "2 y root r@grid 16, p@seq 8, r@lane 1 1, p@unroll 2, p@lane 0 1\n"
     "1 s before 2 at 1 c@seq 8, r@lane 1 1, c@unroll 2, c@lane 0 1; acc 0\n"
     "0 m before 2 at 1 c@seq 8, r@lane 1 1, c@unroll 2, c@lane 0 1; acc 0\n"
     "}"},
    {"kept, 8x16 lanes", kKept, lane_target,
     "plan k lanes 8 16 {\n"
     "2 y root r@grid 16, r@lane 1 1, p@unroll 8, p@lane 0 1\n"
     "1 s before 2 at 1 r@lane 1 1, c@unroll 8, c@lane 0 1; acc 0\n"
     "0 e before 2 at 1 r@lane 1 1, p@unroll 8, p@lane 0 1\n"
     "}"},
    {"kept, 16x16 lanes", kKept, lane_target,
     "plan k lanes 16 16 {\n"
     "2 y root r@grid 16, r@lane 1 1, p@unroll 16, p@lane 0 1\n"
     "1 s before 2 at 1 r@lane 1 1, c@unroll 16, c@lane 0 1; acc 0\n"
     "0 e before 2 at 1 r@lane 1 1, p@unroll 16, p@lane 0 1\n"
     "}"},
    {"kept, 4x16 lanes of vectors", kKept, lane_vector_target,
     "plan k lanes 4 16 {\n"
     "2 y root r@grid 16, p@seq 16, r@lane 1 1, p@unroll 4, p@lane 0 1\n"
     "1 s before 2 at 1 c@seq 16, r@lane 1 1, c@unroll 4, c@lane 0 1; acc 0\n"
     "0 e before 2 at 1 p@seq 16, r@lane 1 1, p@unroll 4, p@lane 0 1; keep y\n"
     "}"},
    {"kept, 2x16 lanes of vectors", kKept, lane_vector_target,
     "plan k lanes 2 16 {\n"
     "2 y root r@grid 16, p@seq 8, r@lane 1 1, p@unroll 2, p@lane 0 1\n"
     "1 s before 2 at 1 c@seq 8, r@lane 1 1, c@unroll 2, c@lane 0 1; acc 0\n"
     "0 e before 2 at 1 p@seq 8, r@lane 1 1, p@unroll 2, p@lane 0 1; keep y\n"
     "}"},
};

/// Mutants that are the same program: `count` of the case whose description has these words.
struct Equivalent {
  std::string_view name;
  std::string_view words;
  int count;
  std::string_view reason;
};

constexpr std::string_view kGated = "the points of one more round are gated off";
constexpr std::string_view kOther =
    "elements beyond a row are another row's; their sums go nowhere";
constexpr std::string_view kUnread = "what is stored beyond the end is not read";
constexpr std::string_view kUnused = "it is used where the gate is true";

constexpr Equivalent kEquivalent[] = {
    {"row, 8x4 lanes", "bound 1 of", 1, kGated},
    {"row, 8x4 lanes of vectors", "bound 1 of", 1, kGated},
    {"columns, 64x4 lanes", "bound 1 of", 1, kGated},
    {"columns, 8x4 lanes of vectors", "bound 1 of", 1, kGated},
    {"product, 8x4 lanes", "load i32 %1", 2, kOther},
    {"product, 8x8 lanes", "load i32 %1", 1, kOther},
    {"product, 8x8 lanes", "bound -1 of", 1, "the last round stages rows beyond the last one"},
    {"product, 8x4 lanes of vectors", "load i32x4 %1", 4, kOther},
    {"product, 8x4 lanes of vectors", "store %5", 4, kUnread},
    {"product, 8x8 lanes of vectors", "load i32x4 %1", 2, kOther},
    {"product, 8x8 lanes of vectors", "store %5", 2, kUnread},
    {"product, 8x8 lanes of vectors", "bound -1 of", 1,
     "the last round stages rows beyond the last one"},
    {"normal, 8x16 lanes", "load i32 %4", 1, kUnused},
    {"normal, 16x16 lanes", "load i32 %4", 1, kUnused},
    {"normal, 4x16 lanes of vectors", "load i32 %4", 2, kUnused},
    {"normal, 2x16 lanes of vectors", "load i32 %4", 3, kUnused},
    {"kept, 8x16 lanes", "store %4", 1, kUnread},
    {"kept, 8x16 lanes", "load i32 %5", 1, kUnused},
    {"kept, 16x16 lanes", "store %4", 1, kUnread},
    {"kept, 16x16 lanes", "load i32 %5", 1, kUnused},
    {"kept, 4x16 lanes of vectors", "load i32 %4", 2, kUnused},
    {"kept, 2x16 lanes of vectors", "load i32 %4", 3, kUnused},
};

TEST(LaneMutations, AreFoundOrAreTheSameProgram) {
  std::vector<int> counts(std::size(kEquivalent), 0);
  int num_mutants = 0;
  for (const LaneCase& item : kCases) {
    const Target target = item.target();
    const Kernel source = parse_kernel(item.kernel, "test");
    const Kernel kernel = prepare_kernel(source, target);
    KernelMemory memory(source, 5);
    const std::vector<std::byte> expected = outputs_of(source, memory);
    const LinearProgram program =
        lower_kernel(source, target, {.plan = parse_plan(item.plan, kernel)});
    ASSERT_EQ(run_lanes(program, memory, expected), "") << item.name;
    for (const testing::LinearMutant& mutant : testing::linear_mutants(program)) {
      ++num_mutants;
      const bool is_found = !verify_linear(mutant.program).empty() ||
                            !run_lanes(mutant.program, memory, expected).empty();
      if (is_found) continue;
      const auto* const same = std::ranges::find_if(kEquivalent, [&](const Equivalent& each) {
        return each.name == item.name && mutant.what.find(each.words) != std::string::npos;
      });
      EXPECT_NE(same, std::end(kEquivalent)) << item.name << ", not found: " << mutant.what;
      if (same != std::end(kEquivalent)) ++counts[static_cast<size_t>(same - kEquivalent)];
    }
  }
  EXPECT_GE(num_mutants, 350);
  for (size_t i = 0; i < counts.size(); ++i)
    EXPECT_EQ(counts[i], kEquivalent[i].count)
        << kEquivalent[i].name << ": " << kEquivalent[i].words;
}

}  // namespace
}  // namespace tenon::test
