// The lints over what the renderers make of hand-written programs and of random kernels under every
// level of the CPU. SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/linear_text.h"
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
  for (uint64_t seed = 0; seed < 60 && !HasFailure(); ++seed) {
    const Kernel kernel = prepare_kernel(test::random_kernel(seed), target);
    std::mt19937_64 generator(seed);
    const Plan plan = test::random_plan(kernel, target, generator);
    expect_clean(lower_kernel(kernel, target, {.verify = false, .plan = plan}));
  }
}

INSTANTIATE_TEST_SUITE_P(Renderers, Lint, ::testing::ValuesIn(renderer_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon::testing
