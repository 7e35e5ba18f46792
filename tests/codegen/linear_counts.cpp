// SPDX-License-Identifier: MIT

#include "tests/codegen/linear_counts.h"

namespace tenon::test {

int count_ops(const LinearProgram& program, RegionId region, Op op) {
  int count = 0;
  for (const InstId id : program.regions[region].insts) {
    const Inst& inst = program.insts[id];
    count += inst.op == op ? 1 : 0;
    for (size_t i = 0; i < inst.num_regions; ++i)
      count += count_ops(program, inst.regions[i], op);
  }
  return count;
}

RegionId innermost_loop_with(const LinearProgram& program, Op op) {
  RegionId result = kNoId;
  for (const InstId id : program_order(program)) {
    const Inst& inst = program.insts[id];
    if (inst.op != Op::kFor) continue;
    if (count_ops(program, inst.regions[0], op) > 0) result = inst.regions[0];
  }
  return result;
}

}  // namespace tenon::test
