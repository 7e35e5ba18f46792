// The ops of matrix units in linear programs against the units that a Target has: what the
// verifier, the evaluator and the renderers ask alike. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <span>
#include <string>

#include "tenon/ir/linear.h"
#include "tenon/types/matrix_unit.h"

namespace tenon {

/// Why the instruction, one of unit_setup, tile_load, tile_store and mma, does not fit `units`;
/// nothing if it does.
std::optional<std::string> why_not_unit(const LinearProgram& program, const Inst& inst,
                                        std::span<const MatrixUnit> units);

/// The types of the unit's operands a, b and of its accumulator.
LinearType unit_type_of_a(const MatrixUnit& unit);
LinearType unit_type_of_b(const MatrixUnit& unit);
LinearType unit_type_of_acc(const MatrixUnit& unit);

/// The first unit that has tiles of this type, or null.
const MatrixUnit* find_tile_unit(std::span<const MatrixUnit> units, const LinearType& type);

/// Rows of a tile of this type in memory, each of equally many elements that lie side by side.
int tile_rows(const MatrixUnit& unit, const LinearType& type);

}  // namespace tenon
