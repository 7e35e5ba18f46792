// A linear program as the interpreter executes it: one compact Code per instruction, region by
// region, with operands as places in a table of words. Private to tenon/interp.
// SPDX-License-Identifier: MIT

#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tenon/interp/checked_program.h"
#include "tenon/interp/row_functions.h"

namespace tenon::interp {

constexpr uint32_t kNone = ~uint32_t{0};

struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
};

/// Words of all lanes copied from one value to another.
struct Move {
  uint32_t dst = 0;
  uint32_t src = 0;
  uint32_t width = 1;
};

/// A value has `width` words for each lane, one lane after the other, from its place on.
struct Code {
  Op op = Op::kConst;
  bool has_lane_indices = false;  ///< gather, scatter
  bool has_lane_gates = false;
  uint32_t width = 1;         ///< of the result, or of what is moved
  uint32_t src_width = 1;     ///< of src[0]
  RowFunction row = nullptr;  ///< elementwise ops
  RowOp row_op;
  ElementMoves elements{};  ///< memory accesses
  uint32_t memory = kNone;  ///< number in Decoded::memories
  uint32_t dst = 0;
  std::array<uint32_t, kMaxScalarOperands> src{};
  uint32_t gate = kNone;
  uint32_t alt = kNone;
  uint64_t align_mask = 0;  ///< bits of an address that must be 0
  int64_t imm = 0;
  InstId id = 0;
  std::array<Range, 2> bodies{};  ///< codes of the regions
  /// For: starts, then what an iteration hands on. If: what either region yields.
  std::array<Range, 2> moves{};
  uint32_t loop_index = kNone;
};

/// What a pointer points at.
struct MemoryPlan {
  ValueId pointer = kNoId;
  Scope scope = Scope::kGlobal;
  DType dtype = DType::kF32;
  int64_t num_elements = 0;
  int64_t argument = -1;
  int64_t offset = 0;     ///< in local memory, of group and private memory
  int64_t lane_step = 0;  ///< bytes between the pieces of lanes, of private memory
};

struct Decoded {
  LinearProgram program;
  std::vector<MatrixUnit> units;
  uint32_t num_lanes = 1;
  uint32_t num_words = 0;
  int64_t local_bytes = 0;  ///< group memory, then the private memory of all lanes
  Range body;
  std::vector<Code> codes;
  std::vector<Move> moves;
  std::vector<MemoryPlan> memories;
};

}  // namespace tenon::interp
