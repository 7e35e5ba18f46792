// The entries of a Plan with the loops around them, as the price sees them: no expressions, only
// trips and lengths. Called by cost.cpp. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <vector>

#include "tenon/codegen/plan.h"
#include "tenon/codegen/walk.h"

namespace tenon {

/// A loop around the body of an entry.
struct PlanLoop {
  int owner = 0;  ///< entry whose loop it is, and its number there
  int number = 0;
  int axis = -1;  ///< of the comp inside that moves with it; -1: none does
  int64_t trips = 1;
  bool is_grid = false;
  bool is_same(const PlanLoop& other) const {
    return owner == other.owner && number == other.number;
  }
};

/// An entry of the plan with all loops around it.
struct PlanNest {
  const Walk* walk = nullptr;
  const CompPlan* plan = nullptr;
  size_t outer = 0;  ///< loops of the place where it stands
  std::vector<PlanLoop> levels;
  /// By number of loops, by axis: what the loops inside them run through.
  std::vector<std::vector<int64_t>> lengths;
  std::vector<int64_t> counts;  ///< by axis: unrolled instances
  size_t vec = 0;               ///< axis; number of axes: none
  int64_t lanes = 1;

  double trips(size_t from, size_t to) const {
    double product = 1;
    for (size_t i = from; i < to; ++i)
      product *= static_cast<double>(levels[i].trips);
    return product;
  }
};

/// By comp and comp: for each axis of the second the axis of the first that moves with it; -1:
/// none. Empty if no tmps lead from one to the other.
using AxisMoves = std::vector<std::vector<std::vector<int>>>;

AxisMoves axis_moves(const std::vector<Walk>& walks);

/// In the order of the plan.
std::vector<PlanNest> nests_of(const Plan& plan, const std::vector<Walk>& walks,
                               const AxisMoves& moves);

/// What the nest reads in place of the operand; null: the operand.
const Stage* stage_of(const PlanNest& nest, const Access& access);
/// What it loads or stores needs no instruction and no memory.
bool in_registers(const Kernel& kernel, const PlanNest& nest, const Access& access);

/// What an access runs through: `rows` runs of `run` elements, `pitch` apart in the innermost
/// direction that is not contiguous.
struct AccessBox {
  int64_t run = 1;
  int64_t rows = 1;
  int64_t pitch = 0;
};

AccessBox box_of(const Access& access, const std::vector<int64_t>& lengths);

/// Lanes of the vector that holds so many elements.
int64_t padded(int64_t count);

}  // namespace tenon
