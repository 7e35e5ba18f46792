// LinearBuilder and the small facts about linear programs that renderers, evaluators and the
// verifier must agree on (order, group memory layout, alignment).
// SPDX-License-Identifier: MIT

#include "tenon/ir/linear.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/integer.h"

namespace tenon {

namespace {

int64_t product(const std::vector<int64_t>& extents) {
  int64_t result = 1;
  for (const int64_t extent : extents)
    result *= extent;
  return result;
}

}  // namespace

int64_t num_groups(const LinearProgram& program) {
  return product(program.grid);
}

int64_t num_lanes(const LinearProgram& program) {
  return product(program.lanes);
}

std::vector<InstId> program_order(const LinearProgram& program) {
  struct Cursor {
    RegionId region;
    size_t next;
  };
  std::vector<InstId> order;
  order.reserve(program.insts.size());
  std::vector<Cursor> stack;
  if (!program.regions.empty()) stack.push_back({0, 0});
  while (!stack.empty()) {
    const Region& region = program.regions[stack.back().region];
    if (stack.back().next == region.insts.size()) {
      stack.pop_back();
      continue;
    }
    const InstId id = region.insts[stack.back().next++];
    order.push_back(id);
    const Inst& inst = program.insts[id];
    for (int i = inst.num_regions - 1; i >= 0; --i) {
      stack.push_back({inst.regions[static_cast<size_t>(i)], 0});
    }
  }
  return order;
}

ScratchLayout layout_scratch(const LinearProgram& program) {
  ScratchLayout layout;
  layout.offsets.assign(program.insts.size(), -1);
  for (const InstId id : program_order(program)) {
    const Inst& inst = program.insts[id];
    if (inst.op != Op::kAlloc || inst.type.scope != Scope::kGroup) continue;
    const int64_t align = std::max<int64_t>(effective_align(inst), 1);
    const int64_t begin = round_up(layout.size_bytes, align);
    layout.offsets[id] = begin;
    layout.size_bytes = begin + inst.imm * dtype_size_bytes(inst.type.dtype);
  }
  return layout;
}

int64_t effective_align(const Inst& inst) {
  return inst.align != 0 ? static_cast<int64_t>(inst.align) : dtype_size_bytes(inst.type.dtype);
}

ValueId gate_of(const LinearProgram& program, const Inst& inst) {
  const size_t position = inst.op == Op::kStore ? 3 : 2;
  const bool gated = inst.op == Op::kStore ? inst.num_operands == 4
                                           : inst.op == Op::kLoad && inst.num_operands == 4;
  return gated ? program.operands_of(inst)[position] : kNoId;
}

ValueId alt_of(const LinearProgram& program, const Inst& inst) {
  return inst.op == Op::kLoad && inst.num_operands == 4 ? program.operands_of(inst)[3] : kNoId;
}

LinearBuilder::LinearBuilder(LinearProgram& program) : program_(program) {
  if (program_.regions.empty()) program_.regions.emplace_back();
}

RegionId LinearBuilder::add_region() {
  program_.regions.emplace_back();
  return static_cast<RegionId>(program_.regions.size() - 1);
}

ValueId LinearBuilder::add_region_arg(RegionId region, LinearType type) {
  const auto value = static_cast<ValueId>(program_.values.size());
  program_.values.push_back({type, kNoId});
  program_.regions[region].args.push_back(value);
  return value;
}

InstId LinearBuilder::append(Inst inst, std::span<const ValueId> operands,
                             std::span<const LinearType> results) {
  const auto id = static_cast<InstId>(program_.insts.size());
  inst.first_operand = static_cast<uint32_t>(program_.operands.size());
  inst.num_operands = static_cast<uint32_t>(operands.size());
  for (const ValueId operand : operands) {
    TENON_ASSERT(operand < program_.values.size(), "linear builder: operand ", operand, " of ",
                 op_name(inst.op), " is not a value");
    program_.operands.push_back(operand);
  }
  inst.first_result = results.empty() ? kNoId : static_cast<ValueId>(program_.values.size());
  inst.num_results = static_cast<uint32_t>(results.size());
  for (const LinearType& type : results)
    program_.values.push_back({type, id});
  program_.insts.push_back(inst);
  program_.regions[region_].insts.push_back(id);
  return id;
}

ValueId LinearBuilder::append_value(Inst inst, std::span<const ValueId> operands) {
  const LinearType type = inst.type;
  const InstId id = append(inst, operands, {&type, 1});
  return program_.insts[id].first_result;
}

ValueId LinearBuilder::constant(LinearType type, uint64_t bits) {
  return append_value({.op = Op::kConst, .type = type, .imm = static_cast<int64_t>(bits)}, {});
}

ValueId LinearBuilder::param(int argument) {
  TENON_ASSERT(argument >= 0 && static_cast<size_t>(argument) < program_.signature.arguments.size(),
               "linear builder: param ", argument, " of ", program_.signature.arguments.size());
  const Argument& what = program_.signature.arguments[static_cast<size_t>(argument)];
  const LinearType type =
      what.is_buffer ? pointer_type(what.dtype, Scope::kGlobal) : value_type(what.dtype);
  return append_value({.op = Op::kParam, .type = type, .imm = argument}, {});
}

ValueId LinearBuilder::grid_id(int dim, DType dtype) {
  return append_value({.op = Op::kGridId, .type = value_type(dtype), .imm = dim}, {});
}

ValueId LinearBuilder::lane_id(int dim, DType dtype) {
  return append_value({.op = Op::kLaneId, .type = value_type(dtype), .imm = dim}, {});
}

ValueId LinearBuilder::alloc(DType dtype, Scope scope, int64_t num_elements, uint32_t align) {
  return append_value(
      {.op = Op::kAlloc, .type = pointer_type(dtype, scope), .imm = num_elements, .align = align},
      {});
}

ValueId LinearBuilder::unary(Op op, ValueId a) {
  return append_value({.op = op, .type = program_.type_of(a)}, {&a, 1});
}

ValueId LinearBuilder::binary(Op op, ValueId a, ValueId b) {
  LinearType type = program_.type_of(a);
  if (op_info(op).rule == DTypeRule::kCompare) type.dtype = DType::kBool;
  return append_value({.op = op, .type = type}, std::array{a, b});
}

ValueId LinearBuilder::ternary(Op op, ValueId a, ValueId b, ValueId c) {
  return append_value({.op = op, .type = program_.type_of(b)}, std::array{a, b, c});
}

ValueId LinearBuilder::cast(ValueId a, DType dtype) {
  return append_value({.op = Op::kCast, .type = value_type(dtype, program_.type_of(a).lanes)},
                      {&a, 1});
}

ValueId LinearBuilder::bitcast(ValueId a, DType dtype) {
  return append_value({.op = Op::kBitcast, .type = value_type(dtype, program_.type_of(a).lanes)},
                      {&a, 1});
}

ValueId LinearBuilder::splat(ValueId a, int lanes) {
  return append_value({.op = Op::kSplat, .type = value_type(program_.type_of(a).dtype, lanes)},
                      {&a, 1});
}

ValueId LinearBuilder::ramp(ValueId base, ValueId step, int lanes) {
  return append_value({.op = Op::kRamp, .type = value_type(program_.type_of(base).dtype, lanes)},
                      std::array{base, step});
}

ValueId LinearBuilder::extract(ValueId vector, int lane) {
  return append_value(
      {.op = Op::kExtract, .type = value_type(program_.type_of(vector).dtype), .imm = lane},
      {&vector, 1});
}

ValueId LinearBuilder::shuffle(ValueId a, ValueId b, std::span<const int> table) {
  auto& tables = program_.shuffle_tables;
  const auto same = [&](const std::vector<int>& other) { return std::ranges::equal(other, table); };
  const auto found = std::ranges::find_if(tables, same);
  const auto number = found - tables.begin();
  if (found == tables.end()) tables.emplace_back(table.begin(), table.end());
  const LinearType type = value_type(program_.type_of(a).dtype, static_cast<int>(table.size()));
  return append_value({.op = Op::kShuffle, .type = type, .imm = number}, std::array{a, b});
}

ValueId LinearBuilder::first_n(ValueId n, int lanes) {
  return append_value({.op = Op::kFirstN, .type = value_type(DType::kBool, lanes)}, {&n, 1});
}

ValueId LinearBuilder::load(LinearType type, ValueId pointer, ValueId index, int64_t offset,
                            uint32_t align) {
  return append_value({.op = Op::kLoad, .type = type, .imm = offset, .align = align},
                      std::array{pointer, index});
}

ValueId LinearBuilder::gated_load(LinearType type, ValueId pointer, ValueId index, ValueId gate,
                                  ValueId alt, int64_t offset, uint32_t align) {
  return append_value({.op = Op::kLoad, .type = type, .imm = offset, .align = align},
                      std::array{pointer, index, gate, alt});
}

InstId LinearBuilder::store(ValueId pointer, ValueId index, ValueId value, int64_t offset,
                            ValueId gate, uint32_t align, bool nt) {
  const std::array operands{pointer, index, value, gate};
  const size_t count = gate == kNoId ? 3 : 4;
  return append(
      {.op = Op::kStore, .nt = nt, .type = program_.type_of(value), .imm = offset, .align = align},
      std::span(operands).first(count), {});
}

void LinearBuilder::prefetch(ValueId pointer, ValueId index, int64_t offset) {
  append({.op = Op::kPrefetch, .imm = offset}, std::array{pointer, index}, {});
}

ValueId LinearBuilder::atomic(Op op, ValueId pointer, ValueId index, ValueId value) {
  return append_value(
      {.op = Op::kAtomic, .type = program_.type_of(value), .imm = static_cast<int64_t>(op)},
      std::array{pointer, index, value});
}

InstId LinearBuilder::barrier() {
  return append({.op = Op::kBarrier}, {}, {});
}

void LinearBuilder::finish() {
  program_.scratch_bytes = layout_scratch(program_).size_bytes;
}

LinearBuilder::Loop LinearBuilder::begin_for(ValueId begin, ValueId end,
                                             std::span<const ValueId> starts) {
  std::vector<ValueId> operands{begin, end};
  operands.insert(operands.end(), starts.begin(), starts.end());
  std::vector<LinearType> types;
  for (const ValueId start : starts)
    types.push_back(program_.type_of(start));
  Loop loop{.inst = append({.op = Op::kFor, .num_regions = 1}, operands, types),
            .outer = region_,
            .index = kNoId,
            .carried = {}};
  const RegionId body = add_region();
  program_.insts[loop.inst].regions[0] = body;
  if (!types.empty()) program_.insts[loop.inst].type = types[0];
  loop.index = add_region_arg(body, program_.type_of(begin));
  for (const LinearType& type : types)
    loop.carried.push_back(add_region_arg(body, type));
  region_ = body;
  return loop;
}

std::vector<ValueId> LinearBuilder::end_for(const Loop& loop, std::span<const ValueId> yielded) {
  append({.op = Op::kYield}, yielded, {});
  region_ = loop.outer;
  std::vector<ValueId> results;
  const Inst& inst = program_.insts[loop.inst];
  for (uint32_t i = 0; i < inst.num_results; ++i)
    results.push_back(inst.first_result + i);
  return results;
}

LinearBuilder::Branch LinearBuilder::begin_if(ValueId condition,
                                              std::span<const LinearType> results) {
  const Branch branch{.inst = append({.op = Op::kIf, .num_regions = 2}, {&condition, 1}, results),
                      .outer = region_};
  const RegionId then_region = add_region();
  const RegionId else_region = add_region();
  Inst& inst = program_.insts[branch.inst];
  inst.regions = {then_region, else_region};
  if (!results.empty()) inst.type = results[0];
  region_ = then_region;
  return branch;
}

void LinearBuilder::begin_else(const Branch& branch, std::span<const ValueId> yielded) {
  append({.op = Op::kYield}, yielded, {});
  region_ = program_.insts[branch.inst].regions[1];
}

std::vector<ValueId> LinearBuilder::end_if(const Branch& branch, std::span<const ValueId> yielded) {
  append({.op = Op::kYield}, yielded, {});
  region_ = branch.outer;
  std::vector<ValueId> results;
  const Inst& inst = program_.insts[branch.inst];
  for (uint32_t i = 0; i < inst.num_results; ++i)
    results.push_back(inst.first_result + i);
  return results;
}

}  // namespace tenon
