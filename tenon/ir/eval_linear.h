// Executes linear programs on host memory: the meaning of the linear level, for tests and as the
// measure of renderers. Bounds and alignment of every access are checked; races, reads of memory
// never written and the like are the checked interpreter's business. Slow, deterministic.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <span>

#include "tenon/ir/linear.h"
#include "tenon/types/matrix_unit.h"
#include "tenon/types/signature.h"

namespace tenon {

struct EvalLinearOptions {
  bool fused_mulacc = false;               ///< mulacc rounds once, as on a Target with fuses_mulacc
  bool reverse_groups = false;             ///< the last group first; no program may depend on it
  bool reverse_lanes = false;              ///< between barriers the last lane first; the same
  std::span<const MatrixUnit> units = {};  ///< of the Target; what programs name by number
};

/// Runs all groups one after the other. Between two barriers each lane runs on its own, one after
/// the other, so a missing barrier shows as a value that is not there yet; loops and branches that
/// contain a barrier must go the same way in all lanes. Group and private memory start as 0xa5
/// bytes in every group.
///
/// `arguments` must fit the signature; a buffer's first num_elements may be touched, no more.
/// Throws kInvalidArgument (instruction, index, what it left) for programs that break a rule,
/// accesses out of bounds or not as aligned as they claim, and lanes that part around a barrier;
/// kUnsupported for matrix units that are not among options.units. Results are written in place;
/// after an error they are partial.
void eval_linear(const LinearProgram& program, std::span<const ArgumentValue> arguments,
                 const EvalLinearOptions& options = {});

}  // namespace tenon
