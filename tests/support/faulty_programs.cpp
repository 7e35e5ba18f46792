// SPDX-License-Identifier: MIT

#include "tests/support/faulty_programs.h"

#include <algorithm>
#include <vector>

namespace tenon::testing {
namespace {

ValueId add_value(LinearProgram& program, LinearType type, InstId def) {
  program.values.push_back({.type = type, .def = def});
  return static_cast<ValueId>(program.values.size() - 1);
}

/// Adds `inst` behind or before another one, in its region.
InstId insert(LinearProgram& program, Inst inst, const std::vector<ValueId>& operands, InstId at,
              bool is_before) {
  inst.first_operand = static_cast<uint32_t>(program.operands.size());
  inst.num_operands = static_cast<uint32_t>(operands.size());
  program.operands.insert(program.operands.end(), operands.begin(), operands.end());
  const auto id = static_cast<InstId>(program.insts.size());
  program.insts.push_back(inst);
  for (Region& region : program.regions) {
    const auto place = std::ranges::find(region.insts, at);
    if (place != region.insts.end()) {
      region.insts.insert(is_before ? place : place + 1, id);
      break;
    }
  }
  return id;
}

}  // namespace

void max_forgets_last_lane(LinearProgram& program) {
  const size_t count = program.insts.size();
  for (InstId id = 0; id < count; ++id) {
    const Inst max = program.insts[id];
    if (max.op != Op::kMax || max.type.lanes < 2) continue;
    // Whoever reads the result gets that of a shuffle of the real one and the first operand.
    const ValueId first = program.operands[max.first_operand];
    const ValueId right = add_value(program, max.type, id);
    program.insts[id].first_result = right;
    std::vector<int> table(max.type.lanes);
    for (size_t lane = 0; lane < table.size(); ++lane)
      table[lane] = static_cast<int>(lane);
    table.back() += max.type.lanes;
    program.shuffle_tables.push_back(table);
    const Inst shuffle{.op = Op::kShuffle,
                       .type = max.type,
                       .first_result = max.first_result,
                       .num_results = 1,
                       .imm = static_cast<int64_t>(program.shuffle_tables.size()) - 1};
    program.values[max.first_result].def = insert(program, shuffle, {right, first}, id, false);
  }
}

void gates_are_ignored(LinearProgram& program) {
  for (Inst& inst : program.insts) {
    if (gate_of(program, inst) == kNoId) continue;
    if (inst.op == Op::kLoad) inst.num_operands = 2;
    if (inst.op == Op::kStore) inst.num_operands = 3;
  }
}

void last_terms_are_dropped(LinearProgram& program) {
  const size_t count = program.insts.size();
  for (InstId id = 0; id < count; ++id) {
    const Inst loop = program.insts[id];
    if (loop.op != Op::kFor || loop.num_results == 0) continue;
    const ValueId end = program.operands[loop.first_operand + 1];
    const LinearType type = program.type_of(end);
    const ValueId one = add_value(program, type, kNoId);
    const Inst constant{
        .op = Op::kConst, .type = type, .first_result = one, .num_results = 1, .imm = 1};
    program.values[one].def = insert(program, constant, {}, id, true);
    const ValueId less = add_value(program, type, kNoId);
    const Inst sub{.op = Op::kSub, .type = type, .first_result = less, .num_results = 1};
    program.values[less].def = insert(program, sub, {end, one}, id, true);
    program.operands[loop.first_operand + 1] = less;
  }
}

void additions_subtract(LinearProgram& program) {
  for (Inst& inst : program.insts)
    if (inst.op == Op::kAdd && inst.type.dtype == DType::kF32) inst.op = Op::kSub;
}

ProgramFault only_in(std::string word, ProgramFault fault) {
  return [word = std::move(word), fault = std::move(fault)](LinearProgram& program) {
    if (program.name.find(word) != std::string::npos) fault(program);
  };
}

}  // namespace tenon::testing
