// `tenon diff`: a program runs kernel by kernel on a device, in the checked interpreter and on the
// oracle; the first kernel that differs is named, put down to what all devices share or to the
// device, and made small. Called by the command and by tests. Host memory is what all sides are
// given, so a device whose copies are wrong is found too. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/conform/oracle.h"
#include "tenon/engine/engine.h"
#include "tenon/ir/linear.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {

/// Whose fault a difference is.
enum class DiffVerdict : uint8_t {
  kSharedKernel,  ///< the linear program is wrong: INTERP differs from the oracle, or a check of it
                  ///< found something
  kDevice,        ///< the device differs from INTERP on the same linear program and inputs
  kUndecided,     ///< the device differs from the oracle; the launch is too large for INTERP
  kSequence,      ///< each kernel is right alone, the device is wrong when it runs all of them
};
/// "shared kernel", "device", ...
std::string_view verdict_name(DiffVerdict verdict);

struct DiffArray {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;  ///< row-major; of a scalar: its bits; empty: only written
};

struct DiffOptions {
  /// Larger launches are not interpreted; about two minutes.
  uint64_t max_lane_operations = uint64_t{1} << 31;
  /// How long a difference is made smaller; 0: it is left as it is.
  int64_t shrink_ns = 10'000'000'000;
};

/// A difference, with all that repeats it.
struct Difference {
  DiffVerdict verdict = DiffVerdict::kDevice;
  std::string kernel;                    ///< its name; where it is none: the output's
  size_t kernel_number = 0;              ///< counted from 1, in order of launches; 0: it is none
  std::string text;                      ///< the first wrong element, or what was thrown or found
  std::optional<LinearProgram> program;  ///< of the kernel
  /// What the program computes, over inputs with the names of its arguments. None for programs that
  /// were given as such.
  std::optional<TensorGraph> graph;
  std::vector<DiffArray> arguments;  ///< of the program, in order; those of the graph
  OracleValue expected;              ///< empty where something was thrown or found instead
  std::vector<std::byte> got;
  int64_t num_wrong = 0;
  std::vector<WrongElement> elements;
  std::string launch;  ///< record of the device's launch (launch_record.h); empty: there was none
};

struct DiffReport {
  int64_t kernels = 0;   ///< that ran
  int64_t bounded = 0;   ///< of these: bits are the device's own, so the oracle's radius decided
  int64_t unjudged = 0;  ///< of these: too large for INTERP, for the oracle, or without one
  int64_t excluded = 0;  ///< elements of which the oracle can say nothing
  std::optional<Difference> first;
  /// `first` made small, or as it is; empty where its graph alone does not differ.
  std::optional<Difference> smallest;
};

/// `data`: bytes of graph.inputs, among which are all buffers of the graph. Copies to other devices
/// are left out: all kernels run on `device`. Throws kUnsupported for a device that does not run
/// programs, and what lowering and compiling throw.
DiffReport diff_graph(const TensorGraph& graph, std::span<const std::vector<std::byte>> data,
                      Device& device, const DiffOptions& options = {});

/// `arguments` fit the signature. Without `expected`, of argument 0, there is no oracle, so only
/// bits and the interpreter's checks count; a program with ops whose bits are the device's own is
/// not compared.
DiffReport diff_program(const LinearProgram& program, std::span<const DiffArray> arguments,
                        Device& device, const DiffOptions& options = {},
                        const OracleValue* expected = nullptr);

}  // namespace tenon
