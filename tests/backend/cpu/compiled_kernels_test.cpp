// Random kernels under chosen, reordered and random Plans, compiled by clang many to a unit for
// three levels of the CPU, loaded, and run by thread pools of one, two and three workers: bit for
// bit what eval_kernel says. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "tenon/backend/cpu/clang_unit_compiler.h"
#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/llvm_unit_compiler.h"
#include "tenon/backend/cpu/object_loader.h"
#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/backend/cpu/thread_pool.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/render/c.h"
#include "tenon/render/llvm.h"
#include "tests/support/random_kernel.h"
#include "tests/support/random_plan.h"

namespace tenon::cpu {
namespace {

using test::KernelMemory;
using test::random_kernel;

constexpr size_t kUnitKernels = 40;  // in one compiler call
constexpr int kMaxWorkers = 3;

/// One kernel under one plan on its way through a compiler.
struct Case {
  uint64_t seed = 0;
  Kernel kernel;
  Plan plan;
  LinearProgram program;
  KernelSource source;  ///< of the renderer that is next
};

/// A renderer with its compiler.
struct Way {
  const Renderer* renderer;
  std::unique_ptr<Compiler> compiler;
};

struct Coverage {
  test::KernelTally kernels;
  int programs = 0;
  int launches = 0;
  int with_several_groups = 0;
  int with_full_vectors = 0;
  int with_combined_orders = 0;
};

Case make_case(const Kernel& kernel, const Plan& plan, uint64_t seed, size_t number,
               const Target& target, Coverage& coverage) {
  Case result{.seed = seed, .kernel = kernel, .plan = plan, .program = {}, .source = {}};
  result.program = lower_kernel(result.kernel, target, {.verify = true, .plan = result.plan});
  result.program.name = concat("random_", number);
  int64_t groups = 1;
  for (const int64_t extent : result.program.grid)
    groups *= extent;
  ++coverage.programs;
  coverage.with_several_groups += groups > 1 ? 1 : 0;
  const auto fills_vector = [&](const LinearValue& value) {
    const int64_t bytes = value.type.lanes * dtype_size_bytes(value.type.dtype);
    return value.type.lanes > 1 && bytes >= target.max_vector_bytes;
  };
  coverage.with_full_vectors += std::ranges::any_of(result.program.values, fills_vector) ? 1 : 0;
  return result;
}

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

/// Runs all groups of a loaded kernel on a pool.
void run(const Case& item, CpuKernelFunction function, KernelMemory& memory, ThreadPool& pool) {
  const Signature& signature = item.program.signature;
  const ArgumentLayout layout = layout_arguments(signature);
  const std::vector<ArgumentValue> values = memory.program_arguments(signature);
  const auto block = std::make_unique<uint64_t[]>(layout.size_bytes / 8 + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    std::memcpy(reinterpret_cast<std::byte*>(block.get()) + layout.offsets[i], &values[i].address,
                sizeof(void*));
  }
  int64_t groups = 1;
  for (const int64_t extent : item.program.grid)
    groups *= extent;
  // Scratch memory of the exact size for each worker, so that a sanitizer sees its end.
  const int64_t scratch_bytes = item.program.scratch_bytes;
  std::vector<std::unique_ptr<void, FreeMemory>> scratch(kMaxWorkers);
  for (auto& memory_of_worker : scratch) {
    void* address = nullptr;
    if (scratch_bytes > 0) {
      ASSERT_EQ(posix_memalign(&address, kBaseAlignBytes, static_cast<size_t>(scratch_bytes)), 0);
      std::memset(address, 0x5a, static_cast<size_t>(scratch_bytes));
    }
    memory_of_worker.reset(address);
  }
  const auto body = [&](int64_t begin, int64_t end, int worker) noexcept {
    function(block.get(), begin, end, scratch[static_cast<size_t>(worker)].get());
  };
  pool.run(groups, body);
}

void check_unit(std::span<Case> cases, const Way& way, const Target& target,
                std::span<const std::unique_ptr<ThreadPool>> pools, Coverage& coverage) {
  std::vector<KernelSource> sources;
  for (Case& item : cases) {
    RenderedSource rendered = way.renderer->render(item.program, target);
    item.source = {.name = std::move(rendered.entry), .text = std::move(rendered.text)};
    sources.push_back(item.source);
  }
  const CompiledObject object = way.compiler->compile(sources);
  const LoadedObject loaded = load_object(object.bytes, "random kernels");
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& item = cases[i];
    const auto function = reinterpret_cast<CpuKernelFunction>(loaded.find(object.symbols[i]));
    ASSERT_NE(function, nullptr);
    KernelMemory memory(item.kernel, item.seed);
    eval_kernel(item.kernel, memory.kernel_arguments());
    const std::vector<std::byte> expected = memory.outputs();
    for (const auto& pool : pools) {
      memory.reset();
      run(item, function, memory, *pool);
      ++coverage.launches;
      ASSERT_TRUE(memory.outputs() == expected && memory.guard_finding().empty())
          << way.renderer->name() << ", seed " << item.seed << ", " << pool->num_workers()
          << " workers; " << memory.guard_finding() << "\n"
          << to_text(item.kernel) << to_text(item.plan, item.kernel) << to_text(item.program)
          << item.source.text;
    }
  }
}

/// With `all_plans` each kernel is run under every plan of many_plans, else under one of them.
void check_level(const std::string& arch, int num_kernels, bool all_plans) {
  const CpuFeatureSet wanted = parse_cpu_arch(arch);
  if (!host_cpu_features().has_all(wanted)) {
    GTEST_SKIP() << "this CPU lacks a part of " << arch;
  }
  const Target target = target_of_arch(arch);
  std::vector<Way> ways;
  if (!why_no_clang()) ways.push_back({&c_renderer(), make_clang_compiler(target)});
  if (!why_no_llvm()) ways.push_back({&llvm_renderer(), make_llvm_compiler(target)});
  if (ways.empty()) GTEST_SKIP() << *why_no_clang() << "; " << *why_no_llvm();
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (int workers = 1; workers <= kMaxWorkers; ++workers)
    pools.push_back(std::make_unique<ThreadPool>(workers));
  Coverage coverage;
  const auto first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * 1000;
  const uint64_t end = first + static_cast<uint64_t>(num_kernels);
  std::vector<Case> unit;
  for (uint64_t seed = first; seed < end && !::testing::Test::HasFatalFailure(); ++seed) {
    const Kernel random = random_kernel(seed);
    coverage.kernels.add(random);
    const Kernel kernel = prepare_kernel(random, target);
    test::ManyPlans many = test::many_plans(kernel, target, seed,
                                            all_plans ? test::Orders::kEvery : test::Orders::kSome);
    coverage.with_combined_orders += many.has_combined_orders ? 1 : 0;
    // The last ones are random: with groups and splits. The first one has the widest vectors.
    if (!all_plans) {
      const Plan first_plan = many.plans.front();
      many.plans = {seed % 3 == 0 ? many.plans[seed % many.plans.size()] : many.plans.back()};
      if (test::has_long_axis(random)) many.plans.push_back(first_plan);
    }
    for (const Plan& plan : many.plans)
      unit.push_back(make_case(kernel, plan, seed, unit.size(), target, coverage));
    if (unit.size() < kUnitKernels && seed + 1 < end) continue;
    for (const Way& way : ways)
      check_unit(unit, way, target, pools, coverage);
    unit.clear();
  }
  if (all_plans) {
    std::printf("kernels with all orders combined: %d\n", coverage.with_combined_orders);
    EXPECT_GE(coverage.programs, 5000);
  }
  std::printf(
      "%s: %d programs, %d launches, %d %% with several groups, %d with full vectors, of %s",
      arch.c_str(), coverage.programs, coverage.launches,
      coverage.with_several_groups * 100 / coverage.programs, coverage.with_full_vectors,
      coverage.kernels.to_text().c_str());
  for (const char* feature : {"a reduce", "a gate", "several comps", "a cast", "a division"})
    EXPECT_GE(coverage.kernels.share(feature), 30) << feature;
  EXPECT_GE(coverage.kernels.share("a long axis"), 10);
  EXPECT_GE(coverage.with_full_vectors * 50, num_kernels);
  EXPECT_GE(coverage.with_several_groups * 10, num_kernels);
}

constexpr int kNumKernels = kSanitizerBuild ? 80 : 200;

TEST(CompiledKernels, EqualTheirMeaningHere) {
  check_level("native", kNumKernels, false);
}
TEST(CompiledKernels, EqualTheirMeaningWithAvx2) {
  check_level("x86_64,avx2,fma,f16c", kNumKernels, false);
}
TEST(CompiledKernels, EqualTheirMeaningOnBaseline) {
  check_level("x86_64", kNumKernels, false);
}

// Disabled in everyday runs: it takes minutes. The long run of tools/check_all.sh prop:
//   compiled_kernels_test --gtest_also_run_disabled_tests --gtest_filter='*Thousand*'
TEST(CompiledKernels, DISABLED_ThousandEqualTheirMeaning) {
  check_level("native", 1000, true);
}

}  // namespace
}  // namespace tenon::cpu
