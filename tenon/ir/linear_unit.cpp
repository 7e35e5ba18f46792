// SPDX-License-Identifier: MIT

#include "tenon/ir/linear_unit.h"

#include <algorithm>

#include "tenon/base/text.h"
#include "tenon/ir/linear_text.h"

namespace tenon {
namespace {

LinearType matrix_type(const MatrixUnit& unit, DType dtype, int size) {
  const TypeKind kind = unit.place == UnitPlace::kTiles ? TypeKind::kTile : TypeKind::kValue;
  return {kind, dtype, Scope::kNone, static_cast<uint16_t>(size)};
}

// The body sets the unit up, before all else that names it.
bool is_set_up(const LinearProgram& program, int64_t unit) {
  const std::vector<InstId>& body = program.regions[0].insts;
  return std::ranges::any_of(body, [&](InstId id) {
    return program.insts[id].op == Op::kUnitSetup && program.insts[id].imm == unit;
  });
}

}  // namespace

LinearType unit_type_of_a(const MatrixUnit& unit) {
  return matrix_type(unit, unit.a, unit.m * unit.k);
}
LinearType unit_type_of_b(const MatrixUnit& unit) {
  return matrix_type(unit, unit.b, unit.k * unit.n);
}
LinearType unit_type_of_acc(const MatrixUnit& unit) {
  return matrix_type(unit, unit.acc, unit.m * unit.n);
}

const MatrixUnit* find_tile_unit(std::span<const MatrixUnit> units, const LinearType& type) {
  for (const MatrixUnit& unit : units) {
    if (type == unit_type_of_acc(unit) || type == unit_type_of_a(unit) ||
        type == unit_type_of_b(unit)) {
      return &unit;
    }
  }
  return nullptr;
}

int tile_rows(const MatrixUnit& unit, const LinearType& type) {
  if (type == unit_type_of_acc(unit) || type == unit_type_of_a(unit)) return unit.m;
  return unit.k / unit.group;
}

std::optional<std::string> why_not_unit(const LinearProgram& program, const Inst& inst,
                                        std::span<const MatrixUnit> units) {
  if (inst.imm < 0 || static_cast<size_t>(inst.imm) >= units.size()) {
    return concat("the target has no matrix unit ", inst.imm, ", it has ", units.size());
  }
  const MatrixUnit& unit = units[static_cast<size_t>(inst.imm)];
  if (inst.op == Op::kUnitSetup) return std::nullopt;
  if (unit.needs_setup && !is_set_up(program, inst.imm)) {
    return concat("the body has no unit_setup ", inst.imm, ", which this unit needs");
  }
  const LinearType a = unit_type_of_a(unit);
  const LinearType b = unit_type_of_b(unit);
  const LinearType acc = unit_type_of_acc(unit);
  if (inst.op != Op::kMma) {
    const bool is_its = inst.type == a || inst.type == b || inst.type == acc;
    if (unit.place == UnitPlace::kTiles && is_its) return std::nullopt;
    return concat(to_text(inst.type), " is no tile of unit ", inst.imm, ", ", to_text(unit));
  }
  const auto operands = program.operands_of(inst);
  const bool fits = program.type_of(operands[0]) == a && program.type_of(operands[1]) == b &&
                    program.type_of(operands[2]) == acc;
  if (fits) return std::nullopt;
  return concat("unit ", inst.imm, " takes ", to_text(a), ", ", to_text(b), " and ", to_text(acc),
                ", found ", to_text(program.type_of(operands[0])), ", ",
                to_text(program.type_of(operands[1])), " and ",
                to_text(program.type_of(operands[2])));
}

}  // namespace tenon
