// Runs one loaded program once: buffers on the device, values in, a launch, values out. The road of
// `tenon run` for .tk, .tir and .tpo, and of the round trips of `tenon devices`.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <vector>

#include "tenon/cli/arrays.h"
#include "tenon/cli/inputs.h"
#include "tenon/device/program.h"
#include "tenon/ir/kernel.h"

namespace tenon::cli {

/// Names, dtypes and shapes of a kernel's buffer parameters as its text has them (a program may see
/// a dtype that the device lacks as bits), without bytes.
std::vector<NamedArray> parameters_of(const Kernel& kernel);
/// The same from a signature, which knows no shapes: one dimension.
std::vector<NamedArray> parameters_of(const Signature& signature);

struct LaunchResult {
  std::vector<NamedArray> outputs;  ///< what the program may write, in order of the signature
  int64_t time_ns = 0;              ///< until it is done
};

/// `parameters`: one for each buffer of the signature. Those that are read get a value by
/// fill_input, numbered in order; those that are only written are poisoned. Throws
/// kDeviceFailed if the program wrote beyond the ends of a buffer.
LaunchResult launch_once(Queue& queue, BufferPool& pool, const Program& program,
                         std::vector<NamedArray> parameters, const NamedWords& files,
                         const NamedWords& scalars);

}  // namespace tenon::cli
