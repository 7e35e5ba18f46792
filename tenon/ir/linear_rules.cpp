// The table of rules about single instructions of linear programs. Each looks at types, constants
// and parts; what spans instructions is in linear_verify.cpp. SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>
#include <optional>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/linear_checker.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_unit.h"
#include "tenon/ir/linear_verify.h"

namespace tenon::detail {

namespace {

bool is_index_type(const LinearType& type) {
  return type.kind == TypeKind::kValue && (type.dtype == DType::kI32 || type.dtype == DType::kI64);
}

bool is_scalar_index(const LinearType& type) {
  return is_index_type(type) && type.lanes == 1;
}

bool is_scalar_of(const LinearType& type, DType dtype) {
  return type == value_type(dtype);
}

bool is_power_of_two(int64_t value) {
  return value > 0 && (value & (value - 1)) == 0;
}

bool is_memory_access(Op op) {
  return op == Op::kLoad || op == Op::kStore || op == Op::kPrefetch || op == Op::kAtomic ||
         op == Op::kTileLoad || op == Op::kTileStore;
}

// Least and most operands.
std::pair<uint32_t, uint32_t> operand_range(Op op) {
  constexpr uint32_t kMany = ~uint32_t{0};
  const int arity = op_info(op).arity;
  if (arity >= 0) return {static_cast<uint32_t>(arity), static_cast<uint32_t>(arity)};
  if (op == Op::kLoad) return {2, 4};
  if (op == Op::kStore) return {3, 4};
  if (op == Op::kFor) return {2, kMany};
  if (op == Op::kIf) return {1, 1};
  if (op == Op::kTileLoad) return {3, 3};
  if (op == Op::kTileStore) return {4, 4};
  return {0, kMany};
}

void check_operands(LinearChecker& checker, const Inst& inst) {
  const OpInfo& info = op_info(inst.op);
  if (!has_level(inst.op, kLinearLevel) || inst.op == Op::kFunc) {
    return checker.found("op '", info.name, "' is not an instruction of the linear level");
  }
  const auto [least, most] = operand_range(inst.op);
  checker.expect(inst.num_operands >= least && inst.num_operands <= most, info.name, " has ",
                 inst.num_operands, " operands, expected ", least,
                 most == least ? std::string() : std::string(" or more"));
  if (inst.op == Op::kLoad) {
    checker.expect(inst.num_operands != 3, "a gated load needs alt, the value where it is off");
  }
  const bool has_regions = inst.op == Op::kFor || inst.op == Op::kIf;
  if (has_regions) return;
  const uint32_t results = info.rule == DTypeRule::kNone ? 0 : 1;
  checker.expect(inst.num_results == results, info.name, " has ", inst.num_results,
                 " results, expected ", results);
}

void check_result_type(LinearChecker& checker, const Inst& inst) {
  for (uint32_t i = 0; i < inst.num_results; ++i) {
    const LinearType& type = checker.program.type_of(inst.first_result + i);
    checker.expect(type.kind != TypeKind::kNone, "a result has no type");
    checker.expect(type.dtype != DType::kIdx, "idx is a dtype of the kernel level; use i32 or i64");
    if (type.kind == TypeKind::kValue) {
      checker.expect(type.lanes >= 1 && type.lanes <= kMaxVectorLanes, "a vector of ", type.lanes,
                     " lanes, expected 1 to ", kMaxVectorLanes);
    }
  }
  if (inst.num_results == 1) {
    checker.expect(checker.program.type_of(inst.first_result) == inst.type, "the result is ",
                   to_text(checker.program.type_of(inst.first_result)), ", the instruction says ",
                   to_text(inst.type));
  }
}

// Of bools add and max are or, mul and min are and, as ir/eval_op.h has it.
bool fits_dtype_rule(Op op, DType dtype) {
  switch (op_info(op).rule) {
    case DTypeRule::kSame: return dtype != DType::kBool || (op != Op::kSub && op != Op::kDiv);
    case DTypeRule::kSameFloat:
    case DTypeRule::kTest: return is_float(dtype);
    case DTypeRule::kSameInt: return is_int(dtype);
    case DTypeRule::kSameIntOrBool: return is_int(dtype) || dtype == DType::kBool;
    case DTypeRule::kCompare:
    case DTypeRule::kWhere:
    case DTypeRule::kNone:
    case DTypeRule::kAttr: return true;
  }
  return true;
}

void check_elementwise(LinearChecker& checker, const Inst& inst) {
  const OpInfo& info = op_info(inst.op);
  if (!is_elementwise(inst.op) || info.rule == DTypeRule::kAttr) return;
  const bool is_where = info.rule == DTypeRule::kWhere;
  const LinearType type = checker.operand_type(inst, is_where ? 1 : 0);
  checker.expect(type.kind == TypeKind::kValue, info.name, " computes with values, got ",
                 to_text(type));
  checker.expect(fits_dtype_rule(inst.op, type.dtype), info.name, " does not take ",
                 dtype_name(type.dtype));
  for (size_t i = 0; i < inst.num_operands; ++i) {
    const bool is_mask = is_where && i == 0;
    const LinearType wanted = is_mask ? value_type(DType::kBool, type.lanes) : type;
    checker.expect(checker.operand_type(inst, i) == wanted, "operand ", i, " of ", info.name,
                   " is ", to_text(checker.operand_type(inst, i)), ", expected ", to_text(wanted),
                   is_mask ? ", a mask" : "");
  }
  const bool is_compare = info.rule == DTypeRule::kCompare || info.rule == DTypeRule::kTest;
  const LinearType result = is_compare ? value_type(DType::kBool, type.lanes) : type;
  checker.expect(inst.type == result, "the result of ", info.name, " is ", to_text(inst.type),
                 ", expected ", to_text(result));
}

void check_cast(LinearChecker& checker, const Inst& inst) {
  if (inst.op != Op::kCast && inst.op != Op::kBitcast) return;
  const LinearType& from = checker.operand_type(inst, 0);
  const bool are_values = from.kind == TypeKind::kValue && inst.type.kind == TypeKind::kValue;
  checker.expect(are_values && from.lanes == inst.type.lanes, op_name(inst.op), " of ",
                 to_text(from), " to ", to_text(inst.type), ": lanes differ");
  if (inst.op == Op::kCast) return;
  const bool has_bool = from.dtype == DType::kBool || inst.type.dtype == DType::kBool;
  checker.expect(!has_bool && dtype_bits(from.dtype) == dtype_bits(inst.type.dtype), "bitcast of ",
                 to_text(from), " to ", to_text(inst.type), ": widths differ or bool");
}

void check_source(LinearChecker& checker, const Inst& inst) {
  const LinearProgram& program = checker.program;
  if (inst.op == Op::kConst) {
    const auto bits = static_cast<uint64_t>(inst.imm);
    const bool is_empty_tile = inst.type.kind == TypeKind::kTile && bits == 0;
    checker.expect(inst.type.kind == TypeKind::kValue || is_empty_tile,
                   "a constant is a value, or a tile of zeros");
    checker.expect(inst.type.dtype == DType::kIdx || canonical_bits(inst.type.dtype, bits) == bits,
                   "bits of the constant are not in canonical form for ",
                   dtype_name(inst.type.dtype));
  } else if (inst.op == Op::kParam) {
    const auto& arguments = program.signature.arguments;
    if (inst.imm < 0 || static_cast<size_t>(inst.imm) >= arguments.size()) {
      return checker.found("param ", inst.imm, " of ", arguments.size(), " arguments");
    }
    const Argument& arg = arguments[static_cast<size_t>(inst.imm)];
    const LinearType wanted =
        arg.is_buffer ? pointer_type(arg.dtype, Scope::kGlobal) : value_type(arg.dtype);
    checker.expect(inst.type == wanted, "param ", inst.imm, " is ", to_text(inst.type),
                   ", the signature says ", to_text(wanted));
  } else if (inst.op == Op::kGridId || inst.op == Op::kLaneId) {
    const auto& extents = inst.op == Op::kGridId ? program.grid : program.lanes;
    const bool in_range = inst.imm >= 0 && static_cast<size_t>(inst.imm) < extents.size();
    checker.expect(in_range, "dimension ", inst.imm, " of ", extents.size());
    checker.expect(is_scalar_index(inst.type), "the id is ", to_text(inst.type),
                   ", expected i32 or i64");
    if (in_range && inst.type.dtype == DType::kI32) {
      const auto largest = static_cast<int64_t>(int_max_bits(DType::kI32));
      checker.expect(extents[static_cast<size_t>(inst.imm)] <= largest, "extent ",
                     extents[static_cast<size_t>(inst.imm)], " does not fit i32");
    }
  }
}

void check_alloc(LinearChecker& checker, const Inst& inst) {
  if (inst.op != Op::kAlloc) return;
  const bool is_local = inst.type.scope == Scope::kGroup || inst.type.scope == Scope::kReg;
  checker.expect(inst.type.kind == TypeKind::kPointer && is_local, "the result is ",
                 to_text(inst.type), ", expected a group or reg pointer");
  checker.expect(inst.imm >= 1 && inst.imm <= kMaxBufferElements, inst.imm,
                 " elements, expected 1 to ", kMaxBufferElements);
  checker.expect(checker.region == 0,
                 "an alloc stands in the function's body, not inside for or if");
}

void check_align(LinearChecker& checker, const Inst& inst) {
  const bool has_align = inst.op == Op::kAlloc || inst.op == Op::kLoad || inst.op == Op::kStore;
  if (!has_align || inst.type.dtype == DType::kIdx) return;
  const int64_t size = dtype_size_bytes(inst.type.dtype);
  const int64_t align = effective_align(inst);
  if (!is_power_of_two(align) || align % size != 0 || align > kBaseAlignBytes) {
    return checker.found("align ", align, ", expected a power of two from the element's ", size,
                         " bytes to ", kBaseAlignBytes);
  }
  if (inst.op == Op::kAlloc || align == size) return;
  const auto operands = checker.program.operands_of(inst);
  const LinearType& index = checker.program.type_of(operands[1]);
  checker.expect(index.lanes == 1, "a gather or scatter is aligned to its element, got ", align);
  // The start: arguments lie at kBaseAlignBytes, allocs where they say.
  const InstId source = checker.program.values[operands[0]].def;
  if (source != kNoId && checker.program.insts[source].op == Op::kAlloc) {
    const int64_t base = effective_align(checker.program.insts[source]);
    checker.expect(base >= align, "align ", align, " is claimed in memory that is aligned to ",
                   base);
  }
  const LowBits& bits = checker.low_bits[operands[1]];
  const uint64_t element = bits.value + static_cast<uint64_t>(inst.imm);
  const auto step = static_cast<uint64_t>(align / size);
  const uint64_t known_mask = bits.known >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits.known) - 1;
  checker.expect((element & (step - 1) & known_mask) == 0, "align ", align,
                 " is claimed, but the index leaves a remainder of ",
                 element & (step - 1) & known_mask, " elements");
}

void check_pointer(LinearChecker& checker, const Inst& inst) {
  if (!is_memory_access(inst.op)) return;
  const auto operands = checker.program.operands_of(inst);
  const LinearType& pointer = checker.operand_type(inst, 0);
  const LinearType& index = checker.operand_type(inst, 1);
  if (pointer.kind != TypeKind::kPointer || pointer.scope == Scope::kNone) {
    return checker.found("operand 0 of ", op_name(inst.op), " is ", to_text(pointer),
                         ", expected a pointer");
  }
  const InstId source = checker.program.values[operands[0]].def;
  const bool is_direct = source != kNoId && (checker.program.insts[source].op == Op::kParam ||
                                             checker.program.insts[source].op == Op::kAlloc);
  checker.expect(is_direct, "pointers come from param and alloc only");
  checker.expect(is_index_type(index), "the index is ", to_text(index), ", expected i32 or i64");
  const bool can_scatter = inst.op == Op::kLoad || inst.op == Op::kStore;
  checker.expect(index.lanes == 1 || (can_scatter && index.lanes == inst.type.lanes),
                 "an index of ", index.lanes, " lanes for ", to_text(inst.type));
  if (inst.op != Op::kPrefetch) {
    // A tile may lie in memory as bits, as narrow floats do.
    const bool is_tile = inst.op == Op::kTileLoad || inst.op == Op::kTileStore;
    const bool is_same = inst.type.dtype == pointer.dtype ||
                         (is_tile && dtype_bits(inst.type.dtype) == dtype_bits(pointer.dtype));
    checker.expect(is_same, op_name(inst.op), " of ", to_text(inst.type), " through ",
                   to_text(pointer));
  }
  const bool writes = inst.op == Op::kStore || inst.op == Op::kAtomic || inst.op == Op::kTileStore;
  if (!writes || !is_direct || checker.program.insts[source].op != Op::kParam) return;
  const auto number = static_cast<size_t>(checker.program.insts[source].imm);
  if (number >= checker.program.signature.arguments.size()) return;
  const Argument& arg = checker.program.signature.arguments[number];
  checker.expect(arg.access != ArgumentAccess::kRead, op_name(inst.op), " to argument '", arg.name,
                 "', which is read only");
}

// Least and largest value of an index that does not depend on any input.
std::optional<std::pair<int64_t, int64_t>> constant_index(const LinearChecker& checker,
                                                          ValueId value) {
  const LinearProgram& program = checker.program;
  const int bits = dtype_bits(program.type_of(value).dtype);
  const auto scalar = [&](ValueId of) -> std::optional<int64_t> {
    const LowBits& known = checker.low_bits[of];
    if (known.known < bits) return std::nullopt;
    return bits == 32 ? static_cast<int32_t>(known.value) : static_cast<int64_t>(known.value);
  };
  if (program.type_of(value).lanes == 1) {
    const auto only = scalar(value);
    return only ? std::optional(std::pair(*only, *only)) : std::nullopt;
  }
  const InstId source = program.values[value].def;
  if (source == kNoId) return std::nullopt;
  const Inst& inst = program.insts[source];
  if (inst.op == Op::kConst) return std::pair(inst.imm, inst.imm);
  if (inst.op != Op::kRamp) return std::nullopt;
  const auto first = scalar(program.operands_of(inst)[0]);
  const auto step = scalar(program.operands_of(inst)[1]);
  if (!first || !step) return std::nullopt;
  int64_t last = 0;
  const bool overflows = __builtin_mul_overflow(*step, inst.type.lanes - 1, &last) ||
                         __builtin_add_overflow(*first, last, &last);
  if (overflows) return std::nullopt;
  return std::pair(std::min(*first, last), std::max(*first, last));
}

// Elements behind a pointer that comes from param or alloc; -1: none.
int64_t elements_of(const LinearProgram& program, const Inst& source) {
  if (source.op == Op::kAlloc) return source.imm;
  const auto& arguments = program.signature.arguments;
  const bool is_argument = source.op == Op::kParam && source.imm >= 0 &&
                           static_cast<size_t>(source.imm) < arguments.size();
  return is_argument ? arguments[static_cast<size_t>(source.imm)].num_elements : -1;
}

// What no input can make right. Places that depend on inputs are a matter of run time.
void check_bounds(LinearChecker& checker, const Inst& inst) {
  const bool is_checked = inst.op == Op::kLoad || inst.op == Op::kStore || inst.op == Op::kAtomic;
  if (!is_checked || checker.is_under_condition || gate_of(checker.program, inst) != kNoId) return;
  const auto operands = checker.program.operands_of(inst);
  const InstId source = checker.program.values[operands[0]].def;
  const LinearType& index = checker.program.type_of(operands[1]);
  if (source == kNoId || !is_index_type(index)) return;
  const int64_t elements = elements_of(checker.program, checker.program.insts[source]);
  const auto range = constant_index(checker, operands[1]);
  if (elements < 0 || !range) return;
  const int64_t offset = inst.op == Op::kAtomic ? 0 : inst.imm;  // an atomic's imm is its op
  const int64_t width = index.lanes == 1 ? inst.type.lanes : 1;
  int64_t first = 0;
  int64_t last = 0;
  const bool overflows = __builtin_add_overflow(range->first, offset, &first) ||
                         __builtin_add_overflow(range->second, offset, &last) ||
                         __builtin_add_overflow(last, width - 1, &last);
  checker.expect(!overflows && first >= 0 && last < elements, op_name(inst.op), " at elements ",
                 first, " to ", last, " of ", checker.name(operands[0]), ", which has ", elements);
}

void check_access(LinearChecker& checker, const Inst& inst) {
  if (inst.op != Op::kLoad && inst.op != Op::kStore) return;
  checker.expect(inst.type.kind == TypeKind::kValue, op_name(inst.op), " moves values, got ",
                 to_text(inst.type));
  if (inst.op == Op::kStore) {
    checker.expect(checker.operand_type(inst, 2) == inst.type, "the value is ",
                   to_text(checker.operand_type(inst, 2)), ", the instruction says ",
                   to_text(inst.type));
  }
  const ValueId gate = gate_of(checker.program, inst);
  if (gate == kNoId) return;
  const LinearType& gate_type = checker.program.type_of(gate);
  const bool is_gate = is_scalar_of(gate_type, DType::kBool) ||
                       gate_type == value_type(DType::kBool, inst.type.lanes);
  checker.expect(is_gate, "the gate is ", to_text(gate_type), ", expected i1 or a mask of ",
                 inst.type.lanes, " lanes");
  const ValueId alt = alt_of(checker.program, inst);
  if (alt == kNoId) return;
  checker.expect(checker.program.type_of(alt) == inst.type, "alt is ",
                 to_text(checker.program.type_of(alt)), ", expected ", to_text(inst.type));
}

void check_atomic(LinearChecker& checker, const Inst& inst) {
  if (inst.op != Op::kAtomic) return;
  constexpr std::array kOps{Op::kAdd, Op::kMin, Op::kMax, Op::kAnd, Op::kOr, Op::kXor};
  const bool is_known =
      std::ranges::any_of(kOps, [&](Op op) { return static_cast<int64_t>(op) == inst.imm; });
  checker.expect(is_known, "an atomic combines with add, min, max, and, or, xor");
  checker.expect(is_int(inst.type.dtype) && inst.type == value_type(inst.type.dtype),
                 "an atomic is for scalar integers (no float atomics), got ", to_text(inst.type));
  checker.expect(checker.operand_type(inst, 2) == inst.type, "the value is ",
                 to_text(checker.operand_type(inst, 2)), ", expected ", to_text(inst.type));
}

bool can_be_carried(const LinearType& type) {
  return type.kind == TypeKind::kValue || type.kind == TypeKind::kTile;
}

std::span<const ValueId> yields_of(const LinearChecker& checker, RegionId region) {
  const LinearProgram& program = checker.program;
  return program.operands_of(program.insts[program.regions[region].insts.back()]);
}

void expect_yields(LinearChecker& checker, const Inst& inst, RegionId region) {
  const auto yields = yields_of(checker, region);
  if (yields.size() != inst.num_results) {
    return checker.found(op_name(inst.op), " has ", inst.num_results, " results, but ",
                         yields.size(), " values are yielded");
  }
  for (size_t i = 0; i < yields.size(); ++i) {
    const LinearType& result = checker.program.type_of(inst.first_result + static_cast<ValueId>(i));
    checker.expect(checker.program.type_of(yields[i]) == result, "yielded value ", i, " is ",
                   to_text(checker.program.type_of(yields[i])), ", the result ", to_text(result));
    checker.expect(can_be_carried(result), "result ", i, " is ", to_text(result),
                   ", expected a value or a tile");
  }
}

void check_for(LinearChecker& checker, const Inst& inst) {
  if (inst.op != Op::kFor) return;
  const auto operands = checker.program.operands_of(inst);
  const auto& args = checker.program.regions[inst.regions[0]].args;
  const size_t num_carried = operands.size() - 2;
  const LinearType& begin = checker.operand_type(inst, 0);
  const LinearType& end = checker.operand_type(inst, 1);
  checker.expect(is_scalar_index(begin) && begin == end, "bounds are ", to_text(begin), " and ",
                 to_text(end), ", expected both i32 or both i64");
  if (args.size() != num_carried + 1 || inst.num_results != num_carried) {
    return checker.found("carries ", num_carried, " values, but has ", inst.num_results,
                         " results and ", args.size(), " region arguments (index and carried)");
  }
  checker.expect(checker.program.type_of(args[0]) == begin, "the index is ",
                 to_text(checker.program.type_of(args[0])), ", the bounds are ", to_text(begin));
  for (size_t i = 0; i < num_carried; ++i) {
    const LinearType& start = checker.operand_type(inst, i + 2);
    const LinearType& result = checker.program.type_of(inst.first_result + static_cast<ValueId>(i));
    checker.expect(start == result && checker.program.type_of(args[i + 1]) == result,
                   "carried value ", i, " starts as ", to_text(start), " and is ",
                   to_text(checker.program.type_of(args[i + 1])), ", the result ", to_text(result));
  }
  expect_yields(checker, inst, inst.regions[0]);
}

void check_if(LinearChecker& checker, const Inst& inst) {
  if (inst.op != Op::kIf) return;
  checker.expect(is_scalar_of(checker.operand_type(inst, 0), DType::kBool), "the condition is ",
                 to_text(checker.operand_type(inst, 0)), ", expected i1");
  for (const RegionId region : inst.regions) {
    checker.expect(checker.program.regions[region].args.empty(), "a branch has no arguments");
    expect_yields(checker, inst, region);
  }
}

void check_vector(LinearChecker& checker, const Inst& inst) {
  if (op_info(inst.op).op_class != OpClass::kVector) return;
  const LinearType source = checker.operand_type(inst, 0);
  const auto both = [&] { return concat(to_text(source), " to ", to_text(inst.type)); };
  if (source.kind != TypeKind::kValue || inst.type.kind != TypeKind::kValue) {
    return checker.found(op_name(inst.op), " of ", both(), ", expected values");
  }
  if (inst.op == Op::kFirstN) {
    checker.expect(is_scalar_index(source) && inst.type.dtype == DType::kBool, "first_n of ",
                   both(), ", expected i32 or i64 to a mask");
    return;
  }
  checker.expect(source.dtype == inst.type.dtype, op_name(inst.op), " of ", both(),
                 ": dtypes differ");
  if (inst.op == Op::kExtract) {
    checker.expect(inst.type.lanes == 1 && inst.imm >= 0 && inst.imm < source.lanes, "lane ",
                   inst.imm, " of ", both());
  } else if (inst.op == Op::kShuffle) {
    checker.expect(checker.operand_type(inst, 1) == source, "the sources differ: ", to_text(source),
                   " and ", to_text(checker.operand_type(inst, 1)));
    const auto& tables = checker.program.shuffle_tables;
    if (inst.imm < 0 || static_cast<size_t>(inst.imm) >= tables.size()) {
      return checker.found("table ", inst.imm, " of ", tables.size());
    }
    const auto& table = tables[static_cast<size_t>(inst.imm)];
    checker.expect(table.size() == inst.type.lanes, "a table of ", table.size(), " lanes for ",
                   to_text(inst.type));
    const auto is_out = [&](int lane) { return lane < 0 || lane >= 2 * source.lanes; };
    checker.expect(std::ranges::none_of(table, is_out), "the table names a lane outside 0..",
                   2 * source.lanes - 1);
  } else {
    checker.expect(source.lanes == 1, op_name(inst.op), " of ", both(), ", expected a scalar");
    if (inst.op != Op::kRamp) return;
    checker.expect(is_int(source.dtype) && checker.operand_type(inst, 1) == source, "ramp of ",
                   to_text(source), " and ", to_text(checker.operand_type(inst, 1)),
                   ", expected equal integers");
  }
}

void check_unit(LinearChecker& checker, const Inst& inst) {
  if (op_info(inst.op).op_class != OpClass::kUnit) return;
  checker.expect(inst.imm >= 0 && inst.imm <= 255, "unit ", inst.imm, ", expected 0 to 255");
  if (inst.op == Op::kMma) {
    checker.expect(checker.operand_type(inst, 2) == inst.type, "the accumulator is ",
                   to_text(checker.operand_type(inst, 2)), ", the result ", to_text(inst.type));
    for (size_t i = 0; i < 3; ++i) {
      checker.expect(can_be_carried(checker.operand_type(inst, i)), "operand ", i, " is ",
                     to_text(checker.operand_type(inst, i)), ", expected a vector or a tile");
    }
  } else if (inst.op != Op::kUnitSetup) {
    checker.expect(inst.type.kind == TypeKind::kTile, op_name(inst.op), " moves tiles, got ",
                   to_text(inst.type));
    checker.expect(is_scalar_index(checker.operand_type(inst, 2)), "the stride is ",
                   to_text(checker.operand_type(inst, 2)), ", expected i32 or i64");
    if (inst.op != Op::kTileStore) return;
    checker.expect(checker.operand_type(inst, 3) == inst.type, "the tile is ",
                   to_text(checker.operand_type(inst, 3)), ", the instruction says ",
                   to_text(inst.type));
  }
}

// --- with a Target
// --------------------------------------------------------------------------------

void check_native(LinearChecker& checker, const Inst& inst) {
  if (is_optional(inst.op)) checker.expect(has_native(*checker.target, inst.op, inst.type.dtype));
  if (op_info(inst.op).op_class != OpClass::kUnit) return;
  if (const auto reason = why_not_unit(checker.program, inst, checker.target->units)) {
    checker.found(*reason);
  }
}

void check_arithmetic(LinearChecker& checker, const Inst& inst) {
  const Target& target = *checker.target;
  if (!is_elementwise(inst.op) || inst.op == Op::kWhere || inst.op == Op::kBitcast) return;
  const DType from = checker.operand_type(inst, 0).dtype;
  const DType to = inst.type.dtype;
  if (inst.op == Op::kCast && target.has_cast(from, to)) return;
  if (from != DType::kBool) checker.expect(computes(target, from));
  if (inst.op == Op::kCast && to != DType::kBool) checker.expect(computes(target, to));
}

void check_width(LinearChecker& checker, const Inst& inst) {
  const bool is_vector = inst.type.kind == TypeKind::kValue && inst.type.lanes > 1;
  if (!is_vector || inst.type.dtype == DType::kIdx) return;
  const int64_t bytes = inst.type.lanes * dtype_size_bytes(inst.type.dtype);
  checker.expect(supports(*checker.target, Limit::kVectorBytes, bytes));
}

void check_index_width(LinearChecker& checker, const Inst& inst) {
  if (!is_memory_access(inst.op) || checker.operand_type(inst, 1).dtype != DType::kI64) return;
  checker.expect(supports(*checker.target, Limit::kIndex, INT64_MAX));
}

constexpr LinearRule kInstRules[] = {
    {"operands", check_operands},        // level, count of operands and results
    {"result", check_result_type},       // kinds, lanes, no idx
    {"elementwise", check_elementwise},  // op.def's dtype rules, masks
    {"cast", check_cast},
    {"source", check_source},  // const, param, grid_id, lane_id
    {"alloc", check_alloc},
    {"align", check_align},
    {"pointer", check_pointer},  // pointer, index, scope, access
    {"bounds", check_bounds},    // constant places
    {"access", check_access},    // value, gate, alt
    {"atomic", check_atomic},
    {"for", check_for},
    {"if", check_if},
    {"vector", check_vector},
    {"unit", check_unit},
};

constexpr LinearRule kTargetRules[] = {
    {"target op", check_native},
    {"target dtype", check_arithmetic},
    {"target vector", check_width},
    {"target index", check_index_width},
};

}  // namespace

std::span<const LinearRule> linear_inst_rules() {
  return kInstRules;
}

std::span<const LinearRule> linear_target_rules() {
  return kTargetRules;
}

}  // namespace tenon::detail
