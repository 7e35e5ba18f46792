// CheckedProgram: a linear program decoded for the checked interpreter, which runs all lanes of a
// group in lockstep and looks at every access: bounds, claims of alignment, bytes never written,
// races between lanes and between groups, barriers that not all lanes reach.
// Used by interpret.h for host memory and by devices with memory of their own.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tenon/ir/linear.h"
#include "tenon/types/matrix_unit.h"

namespace tenon {

namespace interp {
struct Decoded;  // decode.h
}

struct InterpOptions {
  bool fuses_mulacc = false;               ///< mulacc rounds once, as the Target says
  std::span<const MatrixUnit> units = {};  ///< of the Target; what programs name by number
};

/// The value of one argument. A buffer's bytes may be longer than the signature says; no more than
/// that is touched.
struct CheckedArgument {
  std::span<std::byte> bytes;
  /// As many as bytes: 0 where nothing was ever written; stores set 1. Empty: all is written.
  /// Of an argument that is only written a launch may read what it wrote itself, no more.
  std::span<uint8_t> written;
  uint64_t address = 0;  ///< that claims of alignment are held against
  uint64_t bits = 0;     ///< of a scalar
};

enum class FaultKind : uint8_t { kBounds, kAlignment, kNeverWritten, kRace, kBarrier };

/// The first rule that a launch broke. The text names kernel, instruction, group, lanes, memory and
/// element, and both sides of a race.
struct LaunchFault {
  FaultKind kind;
  std::string text;
};

struct CheckedRun {
  std::optional<LaunchFault> fault;
  /// Executed instructions times lanes times vector width of what they make or move.
  uint64_t lane_operations = 0;
  bool is_complete = false;  ///< all groups ran
};

class CheckedProgram {
 public:
  /// `program` satisfies the verifier (ir/linear_verify.h), but for its rule about barriers: where
  /// lanes part is found when it happens. Throws kUnsupported for matrix units that options.units
  /// lacks.
  CheckedProgram(LinearProgram program, const InterpOptions& options);
  CheckedProgram(CheckedProgram&&) noexcept;
  ~CheckedProgram();

  const LinearProgram& program() const;

  /// `arguments` fit the signature (why_arguments_differ). Runs all groups, one after the other, to
  /// the end, to the first fault, or to that which takes the count of lane operations beyond
  /// `max_lane_operations`; what was written until then stays. Safe from several threads.
  /// Throws kUnsupported for programs that need too much memory.
  CheckedRun run(std::span<const CheckedArgument> arguments,
                 uint64_t max_lane_operations = UINT64_MAX) const;

 private:
  std::unique_ptr<const interp::Decoded> decoded_;
};

}  // namespace tenon
