// Finds the casts that a matrix unit does by itself: of what it multiplies and adds up. Storing
// their results, or counting the casts, would be wrong. Called by choose_stores.
// SPDX-License-Identifier: MIT

#pragma once

#include <span>
#include <vector>

#include "tenon/ir/node.h"
#include "tenon/types/matrix_unit.h"

namespace tenon {

/// By position in `order` (sources before users): a cast whose value is read, through movement, by
/// products alone that are summed up and that one of `units` takes with the operands before their
/// casts. `users`: positions of each node's users.
std::vector<bool> unit_operands(std::span<const Node> order,
                                std::span<const std::vector<size_t>> users,
                                std::span<const MatrixUnit> units);

}  // namespace tenon
