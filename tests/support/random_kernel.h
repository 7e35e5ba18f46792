// Random kernels (2a) from a seed, and memory to run them in: what the tests of passes, of
// renderers and of devices run. Floats hold integers that stay exact in every step, so all results
// are the same bits in any order. Plans for them: random_plan.h. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "tenon/ir/eval_kernel.h"
#include "tenon/ir/kernel.h"
#include "tenon/types/signature.h"

namespace tenon::test {

/// One to three inputs and up to three intermediates of any dtypes; arithmetic, integer division,
/// bits, shifts, casts and comparisons; reductions over one or two axes; gated loads, loads at
/// loaded indices, guards. Half of them have few loops; each fifth (seed % 5 == 4) has an axis of
/// 17, 33 or 100, and each eighth (seed % 8 == 6) is a sum of products of bf16 or bytes as matrix
/// units take them.
Kernel random_kernel(uint64_t seed);

/// Whether a loop fills a vector of 16 lanes. `kernel` as it comes from random_kernel.
bool has_long_axis(const Kernel& kernel);

/// Which things kernels have, counted by kernel.
class KernelTally {
 public:
  /// `kernel` as it comes from random_kernel.
  void add(const Kernel& kernel);
  int num_kernels() const { return num_kernels_; }
  /// "1000 kernels; with a reduce 61 %, ..."
  std::string to_text() const;
  /// Of num_kernels(), in percent.
  int share(const std::string& feature) const;

 private:
  int num_kernels_ = 0;
  std::map<std::string, int> counts_;
};

/// Memory for each parameter of a kernel, aligned as devices align it: inputs position-coded (small
/// integers, or all values of the dtype if the name starts with "w"), outputs poisoned, both
/// between guard zones.
class KernelMemory {
 public:
  KernelMemory(const Kernel& kernel, uint64_t seed);
  /// Poisons outputs again.
  void reset();
  /// Gives a parameter other values.
  void fill(size_t parameter, std::span<const std::byte> bytes);
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
