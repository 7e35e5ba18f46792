// Kernels under Plans, compiled many to a unit by a renderer and its compiler, loaded, and run by
// thread pools of one, two and three workers. For the tests of what the compilers make of programs.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenon/backend/cpu/object_loader.h"
#include "tenon/backend/cpu/thread_pool.h"
#include "tenon/codegen/plan.h"
#include "tenon/device/compiler.h"
#include "tenon/ir/linear.h"
#include "tenon/render/c.h"
#include "tests/support/random_kernel.h"

namespace tenon::cpu {

/// One kernel under one plan.
struct Case {
  uint64_t seed = 0;  ///< of what its memory holds
  Kernel kernel;
  Plan plan;  ///< of the prepared kernel
  LinearProgram program;
};

/// Lowers the kernel, verified. `number` is its own in its unit.
Case make_case(const Kernel& kernel, const Plan& plan, uint64_t seed, size_t number,
               const Target& target);

/// A renderer with its compiler.
struct Way {
  const Renderer* renderer;
  std::unique_ptr<Compiler> compiler;
};

/// LLVM and CLANG, as far as they are present; `why_not` says what is missing.
struct Ways {
  std::vector<Way> ways;
  std::string why_not;
};
Ways ways_for(const Target& target);

/// Pools of 1, 2 and 3 workers.
using Pools = std::vector<std::unique_ptr<ThreadPool>>;
Pools make_pools();

/// Cases rendered, compiled as one unit and loaded; `cases` must outlive it.
class CompiledCases {
 public:
  CompiledCases(std::span<const Case> cases, const Way& way, const Target& target);

  /// Runs all groups of a case on a pool, with scratch memory of the exact size for each worker.
  void run(size_t number, std::span<const ArgumentValue> arguments, ThreadPool& pool) const;
  const std::string& text(size_t number) const { return sources_[number].text; }

 private:
  std::span<const Case> cases_;
  std::vector<KernelSource> sources_;
  std::unique_ptr<LoadedObject> loaded_;
  std::vector<CpuKernelFunction> functions_;
};

/// Every case on every pool into poisoned outputs between guard zones: bit for bit what eval_kernel
/// says. Returns the number of launches; stops at the first failure.
int check_cases(std::span<const Case> cases, const Way& way, const Target& target,
                const Pools& pools);

}  // namespace tenon::cpu
