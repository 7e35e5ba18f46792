// Random kernels x random legal Plans, compiled by clang many to a unit for three levels of the
// CPU, loaded, and run by thread pools of one, two and three workers: bit for bit what eval_kernel
// says. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "tenon/backend/cpu/clang_unit_compiler.h"
#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/object_loader.h"
#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/backend/cpu/thread_pool.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/build_nest.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/render/c.h"
#include "tests/support/random_kernel.h"

namespace tenon::cpu {
namespace {

using test::KernelMemory;
using test::random_kernel;
using test::random_plan;
using test::RandomKernel;

constexpr size_t kUnitKernels = 40;  // in one compiler call
constexpr int kMaxWorkers = 3;

/// One kernel under one plan on its way through a compiler.
struct Case {
  uint64_t seed = 0;
  Kernel kernel;
  Plan plan;
  LinearProgram program;
  KernelSource source;
};

struct Coverage {
  int kernels = 0;
  int launches = 0;
  int with_reduce = 0;
  int with_gate = 0;
  int with_several_comps = 0;
  int with_several_groups = 0;
};

Case make_case(uint64_t seed, size_t number, const Target& target, Coverage& coverage) {
  const RandomKernel random = random_kernel(seed);
  Case result{
      .seed = seed, .kernel = split_root(random.kernel), .plan = {}, .program = {}, .source = {}};
  std::mt19937_64 generator(seed + 99);
  result.plan = seed % 4 == 0 ? choose_plan(result.kernel, target)
                              : random_plan(result.kernel, target, generator);
  result.program = lower_kernel(result.kernel, target, {.verify = true, .plan = result.plan});
  result.program.name = concat("random_", number);
  RenderedSource rendered = c_renderer().render(result.program, target);
  result.source = {.name = std::move(rendered.entry), .text = std::move(rendered.text)};
  ++coverage.kernels;
  coverage.with_reduce += random.has_reduce ? 1 : 0;
  coverage.with_gate += random.has_gate ? 1 : 0;
  coverage.with_several_comps += result.kernel.body.size() > 1 ? 1 : 0;
  int64_t groups = 1;
  for (const int64_t extent : result.program.grid)
    groups *= extent;
  coverage.with_several_groups += groups > 1 ? 1 : 0;
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

void check_unit(std::span<const Case> cases, const Compiler& compiler,
                std::span<const std::unique_ptr<ThreadPool>> pools, Coverage& coverage) {
  std::vector<KernelSource> sources;
  for (const Case& item : cases)
    sources.push_back(item.source);
  const CompiledObject object = compiler.compile(sources);
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
          << "seed " << item.seed << ", " << pool->num_workers() << " workers; "
          << memory.guard_finding() << "\n"
          << to_text(item.kernel) << to_text(item.plan, item.kernel) << to_text(item.program)
          << item.source.text;
    }
  }
}

void check_level(const std::string& arch, int num_kernels) {
  const CpuFeatureSet wanted = parse_cpu_arch(arch);
  if (!host_cpu_features().has_all(wanted)) {
    GTEST_SKIP() << "this CPU lacks a part of " << arch;
  }
  if (const auto reason = why_no_clang()) GTEST_SKIP() << *reason;
  const Target target = target_of_arch(arch);
  const std::unique_ptr<Compiler> compiler = make_clang_compiler(target);
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (int workers = 1; workers <= kMaxWorkers; ++workers)
    pools.push_back(std::make_unique<ThreadPool>(workers));
  Coverage coverage;
  const auto first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * 1000;
  std::vector<Case> unit;
  for (int i = 0; i < num_kernels && !::testing::Test::HasFatalFailure(); ++i) {
    unit.push_back(make_case(first + static_cast<uint64_t>(i), unit.size(), target, coverage));
    if (unit.size() < kUnitKernels && i + 1 < num_kernels) continue;
    check_unit(unit, *compiler, pools, coverage);
    unit.clear();
  }
  std::printf(
      "%s: %d compiled kernels, %d launches; with a reduce %d %%, a gate %d %%, several comps "
      "%d %%, several groups %d %%\n",
      arch.c_str(), coverage.kernels, coverage.launches, coverage.with_reduce * 100 / num_kernels,
      coverage.with_gate * 100 / num_kernels, coverage.with_several_comps * 100 / num_kernels,
      coverage.with_several_groups * 100 / num_kernels);
  for (const int count : {coverage.with_reduce, coverage.with_gate, coverage.with_several_comps,
                          coverage.with_several_groups}) {
    EXPECT_GE(count * 10, num_kernels * 3);
  }
}

// The long property run repeats these with 20 seeds.
constexpr int kNumKernels = kSanitizerBuild ? 80 : 200;

TEST(CompiledKernels, EqualTheirMeaningHere) {
  check_level("native", kNumKernels);
}
TEST(CompiledKernels, EqualTheirMeaningWithAvx2) {
  check_level("x86_64,avx2,fma,f16c", kNumKernels);
}
TEST(CompiledKernels, EqualTheirMeaningOnBaseline) {
  check_level("x86_64", kNumKernels);
}

}  // namespace
}  // namespace tenon::cpu
