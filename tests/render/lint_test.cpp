// The lints over what the renderers make of hand-written programs, of random kernels under every
// level of the CPU, and of chosen Plans with matrix units and without.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <random>

#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/render/llvm.h"
#include "tests/render/kernel_library.h"
#include "tests/render/text_lint.h"
#include "tests/support/random_kernel.h"
#include "tests/support/random_plan.h"

namespace tenon::testing {
namespace {

class Lint : public ::testing::TestWithParam<RendererCase> {
 protected:
  void expect_clean(const LinearProgram& program) const {
    const RenderedSource source = GetParam().renderer->render(program, GetParam().level->target);
    EXPECT_EQ(lint_text(*GetParam().renderer, source.text), std::vector<std::string>{})
        << source.text;
  }
};

TEST_P(Lint, HandWrittenPrograms) {
  if (!GetParam().level->has_avx2) GTEST_SKIP() << "they are written for wide vectors and fma";
  int num_programs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TENON_SOURCE_DIR "/tests/tir")) {
    if (entry.path().extension() != ".tir") continue;
    const LinearProgram program = parse_linear(read_file(entry.path().string()));
    const auto is_of_unit = [](const Inst& inst) { return inst.op == Op::kMma; };
    const bool needs_unit = std::ranges::any_of(program.insts, is_of_unit);  // unit_test.cpp
    if (num_lanes(program) != 1 || needs_unit) continue;
    expect_clean(program);
    ++num_programs;
  }
  EXPECT_GE(num_programs, 3);
}

TEST_P(Lint, RandomKernels) {
  const Target& target = GetParam().level->target;
  int num_plans = 0;
  for (uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    const Kernel kernel = prepare_kernel(test::random_kernel(seed), target);
    std::mt19937_64 generator(seed);
    std::optional<Plan> plan;
    for (int tries = 0; tries < 5 && !plan; ++tries)
      plan = test::random_plan(kernel, target, generator);
    if (!plan) continue;
    expect_clean(lower_kernel(kernel, target, {.verify = false, .plan = *plan}));
    ++num_plans;
  }
  EXPECT_GE(num_plans, HasFailure() ? 0 : 50);
}

struct NamedKernel {
  std::string_view name;
  std::string_view text;
};

// Tails of each kind; narrow products for units.
constexpr NamedKernel kKernels[] = {{"matmul", R"(kernel k {
  out y: f32[70,150]  in x: f32[70,131]  in z: f32[131,150]  in b: f32[150]  tmp t: f32[70,150]
  t[i,j] += x[i,k] * z[k,j]  over i:70, j:150, k:131 red  start 0f32
  y[p,q] = max(t[p,q] + b[q], 0f32)  over p:70, q:150
})"},
                                    {"softmax", R"(kernel k {
  out y: f32[40,500]  in x: f32[40,500]  tmp m: f32[40]  tmp e: f32[40,500]  tmp s: f32[40]
  m[r] max= x[r,c]  over r:40, c:500 red  start -inf_f32
  e[f,g] = exp2((x[f,g] - m[f]) * 1.4426950408889634f32)  over f:40, g:500
  s[u] += e[u,v]  over u:40, v:500 red  start 0f32
  y[p,q] = e[p,q] * (1f32 / s[p])  over p:40, q:500
})"},
                                    {"conv", R"(kernel k {
  out y: f32[2,17,13,15]  in x: f32[2,5,13,15]  in z: f32[17,5,3,3]  tmp t: f32[2,17,13,15]
  t[n,f,i,j] += x[n,c,i+u-1,j+v-1 if 0 < i+u & i+u < 14 & 0 < j+v & j+v < 16 else 0f32] * z[f,c,u,v]  over n:2, f:17, i:13, j:15, c:5 red, u:3 red, v:3 red  start 0f32
  y[N,F,I,J] = t[N,F,I,J]  over N:2, F:17, I:13, J:15
})"},
                                    {"int8 product", R"(kernel k {
  out y: i8[33,70]  in x: i8[33,65]  in z: i8[65,70]  tmp t: i32[33,70]
  t[i,j] += i32(x[i,k]) * i32(z[k,j])  over i:33, j:70, k:65 red  start 0i32
  y[p,q] = i8(t[p,q] // 7i32)  over p:33, q:70
})"},
                                    {"unsigned product", R"(kernel k {
  out y: i32[33,70]  in x: u8[33,65]  in z: i8[70,65]  tmp t: i32[33,70]
  t[i,j] += i32(x[i,k]) * i32(z[j,k])  over i:33, j:70, k:65 red  start 0i32
  y[p,q] = i32(f32(t[p,q]) * 0.37f32)  over p:33, q:70
})"},
                                    {"bf16 product", R"(kernel k {
  out y: bf16[33,70]  in x: bf16[33,65]  in z: bf16[65,70]  tmp t: f32[33,70]
  t[i,j] += f32(x[i,k]) * f32(z[k,j])  over i:33, j:70, k:65 red  start 0f32
  y[p,q] = bf16(t[p,q])  over p:33, q:70
})"}};

struct LintLevel {
  std::string_view name;
  std::string_view features;
  int least_with_units;  // programs

  friend void PrintTo(const LintLevel& level, std::ostream* out) { *out << level.name; }
};

constexpr LintLevel kLevels[] = {
    {"baseline", "x86_64", 0},
    {"avx2", "x86_64,avx2,fma,f16c", 0},
    {"avx512", "x86_64,avx512bw,avx512dq,avx512vl,fma,f16c", 0},
    {"vex_units", "x86_64,avxvnni,avx2,fma,f16c", 2},
    {"evex_units", "x86_64,avx512bf16,avx512vnni,avx512bw,avx512dq,avx512vl,fma,f16c", 3},
    {"tiles", "x86_64,amx-bf16,amx-int8,avx512bf16,avx512vnni,avx512bw,avx512dq,avx512vl,fma,f16c",
     6}};

class LintOfPlans : public ::testing::TestWithParam<LintLevel> {};

// The four cheapest Plans of each kernel and the simple one, for both renderers.
TEST_P(LintOfPlans, AreClean) {
  const Target target = cpu::make_target(cpu::parse_cpu_arch(GetParam().features), 1 << 20, 2);
  int num_programs = 0;
  int with_units = 0;
  for (const NamedKernel& item : kKernels) {
    SCOPED_TRACE(item.name);
    const Kernel kernel = parse_kernel(item.text, "lint");
    const Kernel prepared = prepare_kernel(kernel, target);
    std::vector<Plan> plans{simple_plan(prepared, target)};
    for (PlanChoice& choice : choose_plans(prepared, target, 4))
      plans.push_back(std::move(choice.plan));
    for (const Plan& plan : plans) {
      const LinearProgram program = lower_kernel(kernel, target, {.verify = true, .plan = plan});
      for (const Renderer* renderer : {&c_renderer(), &llvm_renderer()}) {
        const RenderedSource source = renderer->render(program, target);
        EXPECT_EQ(lint_text(*renderer, source.text), std::vector<std::string>{})
            << renderer->name();
      }
      ++num_programs;
      with_units +=
          std::ranges::any_of(program.insts, [](const Inst& inst) { return inst.op == Op::kMma; });
    }
  }
  EXPECT_GE(num_programs, 4 * static_cast<int>(std::size(kKernels)));
  EXPECT_GE(with_units, GetParam().least_with_units);
}

INSTANTIATE_TEST_SUITE_P(Levels, LintOfPlans, ::testing::ValuesIn(kLevels),
                         [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(Renderers, Lint, ::testing::ValuesIn(renderer_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon::testing
