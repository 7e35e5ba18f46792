// For the tests of emit_linear: a nest written as text (2b) goes through the passes behind
// build_nest and is run in every way there is: eval_kernel, interpreter before and after
// clean_linear, and as C compiled by clang. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ir/eval_kernel.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"
#include "tenon/types/signature.h"
#include "tenon/types/target.h"
#include "tests/render/kernel_library.h"

namespace tenon::test {

/// A nest on its way: `flat` is what emit_linear takes.
struct NestCase {
  std::string name;
  Kernel flat;
  LinearProgram emitted;
  LinearProgram cleaned;
};

/// Passes 4 to 10, each result verified for vectors of so many bytes.
NestCase lower_nest(const Kernel& nest, Target target, int max_vector_bytes = 64);
NestCase lower_nest(std::string_view text, const Target& target);
/// Only what emit_linear needs, nothing verified: for nests that it must refuse.
LinearProgram emit_unverified(std::string_view text);
/// A file of tests/golden/kernel.
Kernel golden_nest(const std::string& name);

/// Memory for the parameters: inputs hold random numbers with fractions (integers: 0 to 9), outputs
/// are poisoned, all between guard zones.
class NestMemory {
 public:
  NestMemory(const Kernel& nest, uint64_t seed, bool has_fractions);
  void reset();
  std::vector<KernelArgument> kernel_arguments();
  std::vector<ArgumentValue> program_arguments(const Signature& signature);
  std::vector<std::byte> outputs() const;
  /// Where this differs from `expected`, element by element; empty: nowhere.
  std::string difference(const std::vector<std::byte>& expected) const;
  std::string guard_finding() const;

 private:
  struct Block {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<std::byte> initial;
    std::vector<std::byte> bytes;
    int64_t begin = 0;
    int64_t size = 0;
    bool is_output = false;
  };
  std::vector<Block> blocks_;
};

/// Runs eval_kernel on the flat nest, then the interpreter on both programs; what differs, or
/// nothing.
std::string evaluate_nest(const NestCase& nest, uint64_t seed = 1);

/// Runs all groups of a compiled program, its arguments and group memory as the backend gives them.
void run_kernel(CpuKernelFunction function, const LinearProgram& program,
                std::span<const ArgumentValue> values);

/// Compiles all of them by each renderer for each CPU level that is here and runs them; what
/// differs, or nothing.
std::string run_compiled(const std::vector<Kernel>& nests);

}  // namespace tenon::test
