// Executes a kernel exactly as docs/ir.md says, at any point of the pipeline: groups in any order;
// in a group, each statement runs for all lanes before the next. For tests: every access is checked
// against its dims, tmp memory begins poisoned, index arithmetic that leaves 64 bits is an error.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tenon/ir/kernel.h"

namespace tenon {

/// One parameter, in order: buffers first, then scalars.
struct KernelArgument {
  std::byte* data = nullptr;  ///< of a buffer; borrowed, need not be aligned
  int64_t size_bytes = 0;     ///< of a buffer: at least what its layout takes
  int64_t value = 0;          ///< of a scalar
};

/// What every byte of tmp memory holds when it is allocated: a NaN in every float dtype.
constexpr std::byte kEvalPoison{0xff};

/// Runs the kernel once. `order_seed` 0 runs groups in order, else in an order drawn from it.
/// Throws kInvalidArgument if the arguments do not fit, kInternal with names and numbers if the
/// kernel does something that has no meaning (out of bounds, a fold that not all lanes reach).
void eval_kernel(const Kernel& kernel, std::span<const KernelArgument> arguments,
                 uint64_t order_seed = 0);

}  // namespace tenon
