// The families' candidate Plans compiled by LLVM and by clang: kernels with constants in panels and
// sums of products for matrix units are bit for bit what eval_kernel says; sums of fractions have
// the same bits whatever the number of workers. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string_view>

#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tests/backend/cpu/compiled_cases.h"
#include "tests/support/random_plan.h"

namespace tenon::cpu {
namespace {

/// A parameter in panels, as relayout_constants makes them of constants.
constexpr std::string_view kPacked[] = {
    R"(kernel k {
  out y: f32[5,192]  in x: f32[5,70]  in v: f32[70,192] [d1:4][d0:70][d1:48]  tmp t: f32[5,192]
  t[i,j] += x[i,k] * v[k,j]  over i:5, j:192, k:70 red  start 0f32
  y[p,q] = max(t[p,q], 2f32)  over p:5, q:192
})",
    R"(kernel k {
  out y: f32[16,128]  in x: f32[16,33]  in v: f32[128,33] [d0:2][d1:33][d0:64]  tmp t: f32[16,128]
  t[i,j] += x[i,k] * v[j,k]  over i:16, j:128, k:33 red  start 0f32
  y[p,q] = t[p,q]  over p:16, q:128
})",
    R"(kernel k {
  out y: f32[3,48]  in x: bf16[3,10]  in v: bf16[10,48] [d1:3][d0:10][d1:16]  tmp t: f32[3,48]
  t[i,j] += f32(x[i,k]) * f32(v[k,j])  over i:3, j:48, k:10 red  start 0f32
  y[p,q] = t[p,q]  over p:3, q:48
})",
    R"(kernel k {
  out y: f32[2,32,6,9]  in x: f32[2,5,8,11]  in v: f32[32,5,3,3] [d0:2][d1:5][d2:3][d3:3][d0:16]  tmp t: f32[2,32,6,9]
  t[n,f,i,j] += x[n,c,i+u,j+r] * v[f,c,u,r]  over n:2, f:32, i:6, j:9, c:5 red, u:3 red, r:3 red  start 0f32
  y[N,F,I,J] = t[N,F,I,J]  over N:2, F:32, I:6, J:9
})"};

/// Products of narrow values; the second one needs an offset where the unit has unsigned bytes.
constexpr std::string_view kProducts[] = {
    R"(kernel k {
  out y: f32[21,70]  in x: bf16[21,37]  in v: bf16[37,70]  in b: f32[70]  tmp t: f32[21,70]
  t[i,j] += f32(x[i,k]) * f32(v[k,j])  over i:21, j:70, k:37 red  start 0f32
  y[p,q] = max(t[p,q] + b[q], 1f32)  over p:21, q:70
})",
    R"(kernel k {
  out y: i32[19,64]  in x: i8[19,50]  in v: i8[64,50]  tmp t: i32[19,64]
  t[i,j] += i32(x[i,k]) * i32(v[j,k])  over i:19, j:64, k:50 red  start 0i32
  y[p,q] = t[p,q]  over p:19, q:64
})",
    R"(kernel k {
  out y: i8[2,12,48]  in x: u8[2,12,31]  in v: i8[31,48]  tmp t: i32[2,12,48]
  t[g,i,j] += i32(x[g,i,k]) * i32(v[k,j])  over g:2, i:12, j:48, k:31 red  start 0i32
  y[G,p,q] = i8(t[G,p,q] >> 3i32)  over G:2, p:12, q:48
})"};

/// Each of at most `most` candidates of each kernel, on every renderer and pool; by family, and by
/// feature of the Plan, how many there were.
std::map<std::string, int> check_candidates(std::span<const std::string_view> texts,
                                            const Target& target, size_t most) {
  std::map<std::string, int> counts;
  const auto [ways, why_not] = ways_for(target);
  const Pools pools = make_pools();
  std::vector<Case> cases;
  for (const std::string_view text : texts) {
    const Kernel kernel = parse_kernel(text, "test");
    for (const PlanChoice& choice : choose_plans(prepare_kernel(kernel, target), target, most)) {
      cases.push_back(make_case(kernel, choice.plan, 3, cases.size(), target));
      ++counts[std::string(choice.family)];
      for (const std::string& feature : test::PlanTally::features_of(choice.plan))
        ++counts[feature];
      counts["several groups"] += num_groups(cases.back().program) > 1 ? 1 : 0;
    }
  }
  for (const Way& way : ways)
    counts["launches"] += check_cases(cases, way, target, pools);
  counts["programs"] = static_cast<int>(cases.size());
  counts["renderers"] = static_cast<int>(ways.size());
  for (const auto& [what, count] : counts)
    std::printf("%s %d, ", what.c_str(), count);
  std::printf("of %zu kernels\n", texts.size());
  return counts;
}

class CandidateKernels : public ::testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    const CpuFeatureSet wanted = parse_cpu_arch(GetParam());
    if (!host_cpu_features().has_all(wanted)) GTEST_SKIP() << "not this machine's";
    target_ = target_of_arch(GetParam());
    const Ways with = ways_for(target_);
    if (with.ways.empty()) GTEST_SKIP() << with.why_not;
  }
  Target target_;
};
INSTANTIATE_TEST_SUITE_P(Levels, CandidateKernels,
                         ::testing::Values("native", "x86_64,avx2,fma,f16c"),
                         [](const auto& level) { return level.index == 0 ? "native" : "avx2"; });

constexpr size_t kMost = kSanitizerBuild ? 4 : 8;

TEST_P(CandidateKernels, PackedConstantsKeepTheValue) {
  auto counts = check_candidates(kPacked, target_, kMost);
  EXPECT_GE(counts["tile"], 4);
  EXPECT_GE(counts["several groups"], 4);
  EXPECT_EQ(counts["launches"], counts["programs"] * counts["renderers"] * 3);
}

TEST_P(CandidateKernels, ProductsForMatrixUnitsKeepTheValue) {
  auto counts = check_candidates(kProducts, target_, kMost);
  EXPECT_GE(counts["programs"], 8);
  EXPECT_GE(counts["several groups"], 4);
  EXPECT_GE(counts["units"], target_.units.empty() ? 0 : 3);
  EXPECT_EQ(counts["launches"], counts["programs"] * counts["renderers"] * 3);
}

/// Sums of fractions: a different order gives other bits.
constexpr std::string_view kSums[] = {
    // The pieces of a split reduction, and what adds them up.
    R"(kernel k {
  out y: f32[24]  in x: f32[24,700]  tmp t: f32[24]
  t[i] += x[i,k]  over i:24, k:700 red  start 0f32
  y[p] = t[p]  over p:24
})",
    R"(kernel k {
  out y: f32[3]  in x: f32[96,3]  tmp t: f32[3]
  t[i] += x[k,i]  over i:3, k:96 red  start 0f32
  y[p] = t[p]  over p:3
})",
    // Columns; a product whose depth is long.
    R"(kernel k {
  out y: f32[80]  in x: f32[300,80]  tmp t: f32[80]
  t[j] += x[k,j]  over j:80, k:300 red  start 0f32
  y[q] = t[q] * 0.1f32  over q:80
})",
    R"(kernel k {
  out y: f32[30,40]  in x: f32[30,600]  in w: f32[600,40]  tmp t: f32[30,40]
  t[i,j] += x[i,k] * w[k,j]  over i:30, j:40, k:600 red  start 0f32
  y[p,q] = t[p,q]  over p:30, q:40
})",
    // Softmax: two reductions in each row.
    R"(kernel k {
  out y: f32[20,90]  in x: f32[20,90]  tmp m: f32[20]  tmp s: f32[20]
  m[i] max= x[i,k]  over i:20, k:90 red  start -inf_f32
  s[a] += x[a,b] - m[a]  over a:20, b:90 red  start 0f32
  y[p,q] = (x[p,q] - m[p]) * s[p]  over p:20, q:90
})"};

/// A kernel's buffers in order; inputs are n/3, outputs poisoned.
struct FloatMemory {
  struct alignas(64) Line {
    float values[16];
  };
  explicit FloatMemory(const Kernel& kernel) {
    for (const BufferDecl& decl : kernel.buffers) {
      if (decl.access == BufferAccess::kTmp) continue;
      const int64_t count = layout_num_elements(decl);
      std::vector<Line>& lines = buffers.emplace_back(static_cast<size_t>(count / 16 + 1));
      if (decl.access == BufferAccess::kOut) output = buffers.size() - 1;
      for (int64_t i = 0; i < count; ++i) {
        const auto code = static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15U >> 48;
        lines[static_cast<size_t>(i / 16)].values[i % 16] =
            decl.access == BufferAccess::kOut ? -1e30F : static_cast<float>(code % 1999) / 3;
      }
      arguments.push_back({.is_buffer = true,
                           .dtype = decl.dtype,
                           .address = lines.data(),
                           .size_bytes = count * int64_t{sizeof(float)}});
      kernel_arguments.push_back({.data = reinterpret_cast<std::byte*>(lines.data()),
                                  .size_bytes = count * int64_t{sizeof(float)}});
    }
  }
  std::vector<float> result() const {
    const ArgumentValue& value = arguments[output];
    std::vector<float> floats(static_cast<size_t>(value.size_bytes) / sizeof(float));
    std::memcpy(floats.data(), value.address, static_cast<size_t>(value.size_bytes));
    return floats;
  }
  std::vector<std::vector<Line>> buffers;
  std::vector<ArgumentValue> arguments;
  std::vector<KernelArgument> kernel_arguments;
  size_t output = 0;
};

// Under one Plan each number of workers gives the same bits, again and again; and they are no
// exact sums: another Plan gives other bits.
TEST_P(CandidateKernels, SumsOfFractionsHaveTheSameBitsWithAnyWorkers) {
  const auto [ways, why_not] = ways_for(target_);
  const Pools pools = make_pools();
  int with_several_groups = 0;
  int with_other_bits = 0;
  for (const std::string_view text : kSums) {
    SCOPED_TRACE(text);
    const Kernel kernel = parse_kernel(text, "test");
    const Kernel prepared = prepare_kernel(kernel, target_);
    FloatMemory plain(kernel);
    eval_kernel(kernel, plain.kernel_arguments);
    const std::vector<float> reference = plain.result();
    std::vector<Case> cases;
    for (const PlanChoice& choice : choose_plans(prepared, target_, kMost))
      cases.push_back(make_case(kernel, choice.plan, 0, cases.size(), target_));
    test::ManyPlans many =
        test::many_plans(prepared, target_, 5, test::Orders::kSome, kSanitizerBuild ? 2 : 6);
    for (const Plan& plan : many.random)
      cases.push_back(make_case(kernel, plan, 0, cases.size(), target_));
    for (const Way& way : ways) {
      const CompiledCases compiled(cases, way, target_);
      for (size_t i = 0; i < cases.size(); ++i) {
        const bool has_groups = num_groups(cases[i].program) > 1;
        with_several_groups += has_groups ? 1 : 0;
        std::vector<float> expected;
        for (int round = 0; round < 3; ++round) {
          for (const auto& pool : pools) {
            FloatMemory memory(kernel);
            compiled.run(i, memory.arguments, *pool);
            if (expected.empty()) expected = memory.result();
            ASSERT_EQ(0, std::memcmp(memory.result().data(), expected.data(),
                                     expected.size() * sizeof(float)))
                << way.renderer->name() << ", " << pool->num_workers() << " workers\n"
                << to_text(cases[i].plan, prepared);
          }
        }
        with_other_bits += expected != reference ? 1 : 0;
        for (size_t at = 0; at < expected.size(); ++at)
          ASSERT_NEAR(expected[at], reference[at], 1e-4F * std::abs(reference[at]) + 1e-2F) << at;
      }
    }
  }
  std::printf("%d programs with several groups, %d with other bits than eval_kernel\n",
              with_several_groups, with_other_bits);
  EXPECT_GE(with_several_groups, 20);
  EXPECT_GE(with_other_bits, 10);
}

}  // namespace
}  // namespace tenon::cpu
