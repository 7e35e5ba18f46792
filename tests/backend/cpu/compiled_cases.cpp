// SPDX-License-Identifier: MIT

#include "tests/backend/cpu/compiled_cases.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tenon/backend/cpu/clang_unit_compiler.h"
#include "tenon/backend/cpu/llvm_unit_compiler.h"
#include "tenon/base/text.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/render/llvm.h"

namespace tenon::cpu {
namespace {

constexpr int kMaxWorkers = 3;

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

}  // namespace

Case make_case(const Kernel& kernel, const Plan& plan, uint64_t seed, size_t number,
               const Target& target) {
  Case result{.seed = seed, .kernel = kernel, .plan = plan, .program = {}};
  result.program = lower_kernel(result.kernel, target, {.verify = true, .plan = result.plan});
  result.program.name = concat("case_", number);
  return result;
}

Ways ways_for(const Target& target) {
  Ways result;
  if (const auto why = why_no_llvm()) {
    append(result.why_not, *why, "; ");
  } else {
    result.ways.push_back({&llvm_renderer(), make_llvm_compiler(target)});
  }
  if (const auto why = why_no_clang()) {
    append(result.why_not, *why, "; ");
  } else {
    result.ways.push_back({&c_renderer(), make_clang_compiler(target)});
  }
  return result;
}

Pools make_pools() {
  Pools pools;
  for (int workers = 1; workers <= kMaxWorkers; ++workers)
    pools.push_back(std::make_unique<ThreadPool>(workers));
  return pools;
}

CompiledCases::CompiledCases(std::span<const Case> cases, const Way& way, const Target& target)
    : cases_(cases) {
  for (const Case& item : cases) {
    RenderedSource rendered = way.renderer->render(item.program, target);
    sources_.push_back({.name = std::move(rendered.entry), .text = std::move(rendered.text)});
  }
  const CompiledObject object = way.compiler->compile(sources_);
  loaded_ = std::make_unique<LoadedObject>(load_object(object.bytes, "compiled cases"));
  for (const std::string& symbol : object.symbols)
    functions_.push_back(reinterpret_cast<CpuKernelFunction>(loaded_->find(symbol)));
}

void CompiledCases::run(size_t number, std::span<const ArgumentValue> arguments,
                        ThreadPool& pool) const {
  const LinearProgram& program = cases_[number].program;
  const CpuKernelFunction function = functions_[number];
  ASSERT_NE(function, nullptr);
  const ArgumentLayout layout = layout_arguments(program.signature);
  const auto block = std::make_unique<uint64_t[]>(layout.size_bytes / 8 + 1);
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::memcpy(reinterpret_cast<std::byte*>(block.get()) + layout.offsets[i],
                &arguments[i].address, sizeof(void*));
  }
  // A sanitizer sees the end of each worker's scratch memory.
  const auto scratch_bytes = static_cast<size_t>(program.scratch_bytes);
  std::vector<std::unique_ptr<void, FreeMemory>> scratch(static_cast<size_t>(pool.num_workers()));
  for (auto& memory_of_worker : scratch) {
    void* address = nullptr;
    if (scratch_bytes > 0) {
      ASSERT_EQ(posix_memalign(&address, kBaseAlignBytes, scratch_bytes), 0);
      std::memset(address, 0x5a, scratch_bytes);
    }
    memory_of_worker.reset(address);
  }
  pool.run(num_groups(program), [&](int64_t begin, int64_t end, int worker) noexcept {
    function(block.get(), begin, end, scratch[static_cast<size_t>(worker)].get());
  });
}

int check_cases(std::span<const Case> cases, const Way& way, const Target& target,
                const Pools& pools) {
  const CompiledCases compiled(cases, way, target);
  int num_launches = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& item = cases[i];
    test::KernelMemory memory(item.kernel, item.seed);
    eval_kernel(item.kernel, memory.kernel_arguments());
    const std::vector<std::byte> expected = memory.outputs();
    const std::vector<ArgumentValue> arguments = memory.program_arguments(item.program.signature);
    for (const auto& pool : pools) {
      memory.reset();
      compiled.run(i, arguments, *pool);
      ++num_launches;
      if (memory.outputs() == expected && memory.guard_finding().empty()) continue;
      const Kernel prepared = prepare_kernel(item.kernel, target);
      ADD_FAILURE() << way.renderer->name() << ", seed " << item.seed << ", " << pool->num_workers()
                    << " workers; " << memory.guard_finding() << "\n"
                    << to_text(item.kernel) << to_text(item.plan, prepared) << to_text(item.program)
                    << compiled.text(i);
      return num_launches;
    }
  }
  return num_launches;
}

}  // namespace tenon::cpu
