// SPDX-License-Identifier: MIT

#include "tests/support/linear_mutants.h"

#include <algorithm>

#include "tenon/base/text.h"
#include "tenon/ir/linear_text.h"

namespace tenon::testing {
namespace {

/// Position of an instruction in its region.
std::pair<RegionId, size_t> find_inst(const LinearProgram& program, InstId id) {
  for (RegionId region = 0; region < program.regions.size(); ++region) {
    const auto& insts = program.regions[region].insts;
    const auto found = std::ranges::find(insts, id);
    if (found != insts.end()) return {region, static_cast<size_t>(found - insts.begin())};
  }
  return {};
}

/// operand + step in place of the operand.
LinearProgram with_step(LinearProgram program, InstId id, size_t operand, int64_t step) {
  const uint32_t place = program.insts[id].first_operand + static_cast<uint32_t>(operand);
  const ValueId before = program.operands[place];
  LinearBuilder builder(program);
  const RegionId spare = builder.add_region();
  builder.set_region(spare);
  const ValueId one = builder.constant(program.type_of(before), static_cast<uint64_t>(step));
  const ValueId moved = builder.binary(Op::kAdd, before, one);
  program.operands[place] = moved;
  const std::vector<InstId> added = program.regions[spare].insts;
  program.regions.pop_back();
  const auto [region, position] = find_inst(program, id);
  auto& insts = program.regions[region].insts;
  insts.insert(insts.begin() + static_cast<std::ptrdiff_t>(position), added.begin(), added.end());
  return program;
}

}  // namespace

std::vector<LinearMutant> linear_mutants(const LinearProgram& program) {
  std::vector<LinearMutant> mutants;
  for (const InstId id : program_order(program)) {
    const Inst& inst = program.insts[id];
    const std::string text = inst_text(program, id);
    if (inst.op == Op::kBarrier) {
      LinearProgram changed = program;
      const auto [region, position] = find_inst(program, id);
      auto& insts = changed.regions[region].insts;
      insts.erase(insts.begin() + static_cast<std::ptrdiff_t>(position));
      mutants.push_back({concat("barrier ", id), std::move(changed)});
    }
    if (gate_of(program, inst) != kNoId) {
      LinearProgram changed = program;
      changed.insts[id].num_operands = inst.op == Op::kStore ? 3 : 2;
      mutants.push_back({concat("gate of `", text, "`"), std::move(changed)});
    }
    if (inst.op == Op::kFor || inst.op == Op::kFirstN) {
      const size_t operand = inst.op == Op::kFor ? 1 : 0;
      for (const int64_t step : {-1, 1}) {
        mutants.push_back(
            {concat("bound ", step, " of `", text, "`"), with_step(program, id, operand, step)});
      }
    }
  }
  return mutants;
}

}  // namespace tenon::testing
