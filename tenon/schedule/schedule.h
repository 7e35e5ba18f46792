// From a tensor graph to an ordered list of kernels over buffers. Called by the engine for each
// realisation and by `tenon explain`. What is stored in memory is decided here, once, by rules with
// reasons; codegen adds no kernel and no buffer between kernels. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/types/target.h"

namespace tenon {

/// One array in memory that kernels of a schedule read or write.
struct ScheduledBuffer {
  Node node;      ///< whose value it holds
  Node computed;  ///< what its kernel computes: `node`, or what stands for it (split_reductions)
  DType dtype;
  Shape shape;
  bool is_given = false;  ///< holds its value before the schedule starts: a buffer, or known before
  bool is_output = false;
  std::string reason;  ///< why the value is stored ("output", "reduction read more than once", ...)
};

/// One step: a kernel, or (kernel.body empty, copy_from >= 0) a copy between devices.
struct ScheduledCall {
  Kernel kernel;             ///< canonical names: equal kernels print equal text
  std::vector<int> buffers;  ///< number in Schedule::buffers of each kernel parameter
  int copy_from = -1;        ///< for copies: source buffer; buffers[0] is the destination
  /// Every element that the kernel writes has these bits (ir/eval_op.h): it need not be compiled.
  std::optional<uint64_t> constant;
};

struct Schedule {
  std::vector<ScheduledBuffer> buffers;
  std::vector<ScheduledCall> calls;
  /// Number in `buffers` of each requested output, in order (equal nodes share one).
  std::vector<int> outputs;
};

struct ScheduleOptions {
  /// True for nodes whose value is in memory already (they become given buffers). Buffer nodes are
  /// always given.
  std::function<bool(const Node&)> is_known;
  /// Most buffers that one kernel may bind (kernels are cut); 0: no limit.
  int max_arguments = 0;
  /// Group memory of a kernel (Target::max_local_bytes): bounds the intermediates that it keeps.
  int64_t max_local_bytes = 1 << 18;
  /// Rows of a kernel with contractions that are computed at once (Target::block_rows).
  int64_t block_rows = 8;
  /// Groups that run at once (Target::threads): a long reduction to fewer results is cut.
  int threads = 1;
  /// Matrix units (Target::units): casts of their operands are left to them. Must outlive the call.
  std::span<const MatrixUnit> units = {};
};

/// What the Target says, which must outlive their use; nothing is known.
ScheduleOptions schedule_options(const Target& target);

/// Orders the kernels that compute `outputs`. Every call's inputs are given or written by an
/// earlier call. Zero-size values get a buffer and no call. Throws kUnsupported for an operation
/// with more operands than a kernel may bind, kInternal, where TENON_VERIFY_IR is on, if a node
/// that it has to look at is not sound (verify_graph).
Schedule schedule_graph(std::span<const Node> outputs, const ScheduleOptions& options);

}  // namespace tenon
