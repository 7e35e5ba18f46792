// Random kernels (2a) and random legal Plans for them, from a seed: what the tests of passes, of
// renderers and of devices run. Values are small integers in every dtype, so results are exact in
// any order. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tenon/codegen/plan.h"
#include "tenon/ir/eval_kernel.h"
#include "tenon/ir/kernel.h"
#include "tenon/types/signature.h"

namespace tenon::test {

struct RandomKernel {
  Kernel kernel;
  bool has_reduce = false;
  bool has_gate = false;
  bool has_row_reduce = false;  ///< a tmp read at other places than the root's point
};

RandomKernel random_kernel(uint64_t seed);

/// A legal plan with random loop orders, splits, dealing over groups and places of producers.
/// `kernel` is after split_root.
Plan random_plan(const Kernel& kernel, const Target& target, std::mt19937_64& random);

/// Memory for each parameter of a kernel, aligned as devices align it: inputs position-coded small
/// integers, outputs poisoned, both between guard zones.
class KernelMemory {
 public:
  KernelMemory(const Kernel& kernel, uint64_t seed);
  /// Poisons outputs again.
  void reset();
  std::vector<KernelArgument> kernel_arguments();
  /// For a program whose buffers may have other dtypes of the same width.
  std::vector<ArgumentValue> program_arguments(const Signature& signature);
  /// Bytes of all outputs, and a finding if a guard zone was written.
  std::vector<std::byte> outputs() const;
  std::string guard_finding() const;

 private:
  struct Block {
    std::vector<std::byte> bytes;  // room to align, guard, payload, guard
    int64_t begin = 0;             // of the payload
    int64_t size = 0;
    bool is_output = false;
  };
  std::vector<Block> blocks_;
};

}  // namespace tenon::test
