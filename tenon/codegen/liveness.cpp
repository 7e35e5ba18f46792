// SPDX-License-Identifier: MIT

#include "tenon/codegen/liveness.h"

namespace tenon {
namespace {

bool has_effect(Op op) {
  return op == Op::kStore || op == Op::kAtomic || op == Op::kPrefetch || op == Op::kBarrier ||
         op == Op::kTileStore || op == Op::kUnitSetup;
}

}  // namespace

Liveness::Liveness(const LinearProgram& program)
    : program_(program),
      insts_(program.insts.size(), false),
      values_(program.values.size(), false),
      owner_(program.regions.size(), kNoId),
      region_(program.insts.size(), 0),
      loop_of_arg_(program.values.size(), kNoId) {
  for (RegionId region = 0; region < program.regions.size(); ++region) {
    for (const InstId id : program.regions[region].insts) {
      region_[id] = region;
      const Inst& inst = program.insts[id];
      for (size_t i = 0; i < inst.num_regions; ++i)
        note_region(id, inst.regions[i]);
    }
  }
  for (const InstId id : program_order(program)) {
    if (has_effect(program.insts[id].op)) need_inst(id);
  }
  while (!pending_.empty()) {
    const ValueId value = pending_.back();
    pending_.pop_back();
    visit(value);
  }
}

void Liveness::note_region(InstId owner, RegionId region) {
  owner_[region] = owner;
  for (const ValueId arg : program_.regions[region].args)
    loop_of_arg_[arg] = owner;
}

void Liveness::need(ValueId value) {
  if (values_[value]) return;
  values_[value] = true;
  pending_.push_back(value);
}

// The instruction, what it is inside of, and the operands that it always needs.
void Liveness::need_inst(InstId id) {
  for (; id != kNoId && !insts_[id]; id = around(id)) {
    insts_[id] = true;
    const Inst& inst = program_.insts[id];
    const auto operands = program_.operands_of(inst);
    for (const ValueId operand : inst.op == Op::kFor ? operands.first(2) : operands)
      need(operand);
  }
}

ValueId Liveness::yielded(RegionId region, size_t number) const {
  const Inst& yield = program_.insts[program_.regions[region].insts.back()];
  return program_.operands_of(yield)[number];
}

void Liveness::visit(ValueId value) {
  const InstId loop = loop_of_arg_[value];
  if (loop != kNoId) {
    need_inst(loop);
    const Inst& inst = program_.insts[loop];
    const ValueId first_arg = program_.regions[inst.regions[0]].args[0];
    if (value != first_arg) need(inst.first_result + (value - first_arg - 1));
    return;
  }
  const InstId def = program_.values[value].def;
  if (def == kNoId) return;
  need_inst(def);
  const Inst& inst = program_.insts[def];
  const size_t number = value - inst.first_result;
  for (size_t i = 0; i < inst.num_regions; ++i)
    need(yielded(inst.regions[i], number));
  if (inst.op != Op::kFor) return;
  need(program_.operands_of(inst)[2 + number]);
  need(program_.regions[inst.regions[0]].args[1 + number]);
}

}  // namespace tenon
