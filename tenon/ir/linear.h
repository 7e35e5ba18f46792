// The linear level (.tir): structured SSA that every renderer and every backend consumes. A flat
// arena of instructions; `for` and `if` own regions; loops carry values, there are no variables.
// Only the 49 ops of op.def with level L appear. Text form: ir/linear_text.h; rules:
// ir/linear_verify.h; meaning: interp/interpret.h and docs/ir.md. Versioned: kLinearVersion.
// SPDX-License-Identifier: MIT

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/types/signature.h"

namespace tenon {

constexpr int kLinearVersion = 1;
/// Vectors have 1 to 64 lanes; regions nest at most 64 deep (so walks over them may recurse).
constexpr int kMaxVectorLanes = 64;
constexpr int kMaxRegionDepth = 64;
/// What every buffer argument's address and the start of group memory are a multiple of. It is the
/// largest `align` that a load, store or alloc may claim; devices guarantee it.
constexpr int64_t kBaseAlignBytes = 64;

using ValueId = uint32_t;
using InstId = uint32_t;
using RegionId = uint32_t;
constexpr uint32_t kNoId = ~uint32_t{0};

enum class TypeKind : uint8_t { kNone, kValue, kPointer, kTile };

/// Type of a value: scalar or vector of a dtype (a mask is a vector of bool), pointer to elements
/// with a scope, or a tile of a matrix unit (dtype and `lanes` elements; the unit says how they
/// lie). Pointers come from param and alloc only: they are never carried, yielded or computed.
struct LinearType {
  TypeKind kind = TypeKind::kNone;
  DType dtype = DType::kI32;
  Scope scope = Scope::kNone;
  uint16_t lanes = 1;
  friend bool operator==(const LinearType&, const LinearType&) = default;
};

inline LinearType value_type(DType dtype, int lanes = 1) {
  return {TypeKind::kValue, dtype, Scope::kNone, static_cast<uint16_t>(lanes)};
}
inline LinearType pointer_type(DType dtype, Scope scope) {
  return {TypeKind::kPointer, dtype, scope, 1};
}

/// One instruction. Which fields count, per op (elementwise ops: operands of equal lanes, no
/// implicit splat; `where` takes a mask of as many lanes):
///   const      imm = bits in the canonical form of ir/eval_op.h, splat over type.lanes
///   param      imm = argument number
///   grid_id, lane_id  imm = dimension; the result is i32 or i64
///   alloc      imm = elements, align; type.scope is kGroup or kReg. Stands in region 0 (the body)
///   load       operands pointer, index [, gate, alt]; imm = offset in elements added to the index;
///              align = bytes that the address is a multiple of; nt. A vector reads consecutive
///              elements, with a vector index it is a gather. gate: bool or mask; where it is false
///              the memory is not touched and the result is alt's
///   store      operands pointer, index, value [, gate]; the rest as load; vector index: scatter
///   prefetch   operands pointer, index; imm = offset
///   atomic     operands pointer, index, value (scalar integers); imm = combining Op (add, min,
///              max, and, or, xor); the result is the old value
///   for        operands begin, end, carried starts...; region args index, carried...; the step is
///              1; results: the carried values after the last iteration
///   if         operand condition (bool); two regions without args; results: what they yield
///   yield      operands: results of the region it ends. Every region of for and if ends with one;
///              the body (region 0) has none
///   cast, bitcast  type = result type
///   splat      scalar -> type.lanes lanes
///   ramp       operands base, step (scalars): lane i is base + i * step
///   extract    imm = lane
///   shuffle    imm = index into shuffle_tables; lane i of the result is lane table[i] of the two
///              sources side by side
///   first_n    operand n (i32 or i64): lane i is i < n
///   unit_setup, tile_load, tile_store, mma  imm = number of the matrix unit
///   tile_load  operands pointer, index, stride (elements); tile_store: the same, then the tile
/// Memory holds one byte (0 or 1) per bool, so a mask is loaded and stored as bytes.
struct Inst {
  Op op = Op::kConst;
  bool nt = false;
  uint16_t num_regions = 0;
  LinearType type = {};  ///< of the (first) result; of the value moved for store and tile_store
  uint32_t first_operand = 0;
  uint32_t num_operands = 0;
  ValueId first_result = kNoId;
  uint32_t num_results = 0;
  std::array<RegionId, 2> regions{kNoId, kNoId};
  int64_t imm = 0;
  uint32_t align = 0;  ///< bytes; 0: the element's size
};

struct Region {
  std::vector<InstId> insts;
  std::vector<ValueId> args;
};

struct LinearValue {
  LinearType type;
  InstId def = kNoId;  ///< kNoId for region arguments
};

/// A program: one function. Region 0 is its body.
struct LinearProgram {
  std::string name;
  Signature signature;         ///< arguments in order; kParam refers to them
  std::vector<int64_t> grid;   ///< groups per dimension, 1 to 3 entries
  std::vector<int64_t> lanes;  ///< lanes of a group per dimension, 1 to 3 entries
  int64_t scratch_bytes = 0;   ///< group memory: sum of the kGroup allocs, each aligned

  std::vector<Inst> insts;
  std::vector<ValueId> operands;  ///< pool; Inst::first_operand
  std::vector<LinearValue> values;
  std::vector<Region> regions;
  std::vector<std::vector<int>> shuffle_tables;
  std::vector<std::string> value_names;  ///< by value id; may be shorter; empty: printed by number

  std::span<const ValueId> operands_of(const Inst& inst) const {
    return {operands.data() + inst.first_operand, inst.num_operands};
  }
  std::span<ValueId> operands_of(const Inst& inst) {
    return {operands.data() + inst.first_operand, inst.num_operands};
  }
  const LinearType& type_of(ValueId value) const { return values[value].type; }
};

int64_t num_groups(const LinearProgram& program);
int64_t num_lanes(const LinearProgram& program);

/// Instructions in the order of the text: one before those of its regions. Iterative.
std::vector<InstId> program_order(const LinearProgram& program);

/// Where each kGroup alloc lies in group memory: in program order, each at its alignment.
struct ScratchLayout {
  std::vector<int64_t> offsets;  ///< bytes, by InstId; -1 for all else
  int64_t size_bytes = 0;        ///< what LinearProgram::scratch_bytes must be
};
ScratchLayout layout_scratch(const LinearProgram& program);

/// The `align` of a memory access or alloc, or its default, the size of an element.
int64_t effective_align(const Inst& inst);

/// Gate and alt of a load or store; kNoId if it has none.
ValueId gate_of(const LinearProgram& program, const Inst& inst);
ValueId alt_of(const LinearProgram& program, const Inst& inst);

/// Appends instructions to a program; used by emit_linear, the parser and tests.
class LinearBuilder {
 public:
  explicit LinearBuilder(LinearProgram& program);

  /// Region into which instructions are appended (the body at first).
  RegionId region() const { return region_; }
  void set_region(RegionId region) { region_ = region; }
  RegionId add_region();
  ValueId add_region_arg(RegionId region, LinearType type);

  /// Appends `inst` with these operands and result types; returns its id. Results get consecutive
  /// ids.
  InstId append(Inst inst, std::span<const ValueId> operands, std::span<const LinearType> results);
  /// The same for the usual case of one result of type `inst.type`; returns the value.
  ValueId append_value(Inst inst, std::span<const ValueId> operands);

  ValueId constant(LinearType type, uint64_t bits);
  ValueId param(int argument);
  ValueId grid_id(int dim, DType dtype);
  ValueId lane_id(int dim, DType dtype);
  ValueId alloc(DType dtype, Scope scope, int64_t num_elements, uint32_t align);
  ValueId unary(Op op, ValueId a);
  ValueId binary(Op op, ValueId a, ValueId b);  ///< compare: bool with the lanes of `a`
  ValueId ternary(Op op, ValueId a, ValueId b, ValueId c);
  ValueId cast(ValueId a, DType dtype);
  ValueId bitcast(ValueId a, DType dtype);
  ValueId splat(ValueId a, int lanes);
  ValueId ramp(ValueId base, ValueId step, int lanes);
  ValueId extract(ValueId vector, int lane);
  ValueId shuffle(ValueId a, ValueId b, std::span<const int> table);
  ValueId first_n(ValueId n, int lanes);
  ValueId load(LinearType type, ValueId pointer, ValueId index, int64_t offset = 0,
               uint32_t align = 0);
  ValueId gated_load(LinearType type, ValueId pointer, ValueId index, ValueId gate, ValueId alt,
                     int64_t offset = 0, uint32_t align = 0);
  InstId store(ValueId pointer, ValueId index, ValueId value, int64_t offset = 0,
               ValueId gate = kNoId, uint32_t align = 0, bool nt = false);
  void prefetch(ValueId pointer, ValueId index, int64_t offset = 0);
  ValueId atomic(Op op, ValueId pointer, ValueId index, ValueId value);
  InstId barrier();
  /// Sets scratch_bytes to what the allocs need; call it when the program is complete.
  void finish();

  struct Loop {
    InstId inst;
    RegionId outer;
    ValueId index;
    std::vector<ValueId> carried;  ///< inside the loop
  };
  /// Opens `for index = begin..end carry ...` and moves into its region.
  Loop begin_for(ValueId begin, ValueId end, std::span<const ValueId> starts);
  /// Yields and returns to the outer region; gives the values after the loop.
  std::vector<ValueId> end_for(const Loop& loop, std::span<const ValueId> yielded);

  struct Branch {
    InstId inst;
    RegionId outer;
  };
  /// Opens `if condition` with results of these types and moves into its first region.
  Branch begin_if(ValueId condition, std::span<const LinearType> results);
  void begin_else(const Branch& branch, std::span<const ValueId> yielded);
  std::vector<ValueId> end_if(const Branch& branch, std::span<const ValueId> yielded);

 private:
  LinearProgram& program_;
  RegionId region_ = 0;
};

}  // namespace tenon
