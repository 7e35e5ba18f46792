// The families of plans, by how the heaviest comp walks memory. Each proposes some; choose_plans
// prices them. SPDX-License-Identifier: MIT

#pragma once

#include <string_view>
#include <vector>

#include "tenon/codegen/plan.h"
#include "tenon/codegen/walk.h"

namespace tenon {

/// A plan that may not fit: check_plan tells.
struct Candidate {
  Plan plan;
  std::string_view family;
};

/// What families work on.
struct PlanInput {
  const Kernel& kernel;
  const Target& target;
  const std::vector<Walk>& walks;  ///< one for each comp
};

/// Loops over one elementwise comp: along its contiguous axis, or in squares where operands cross.
void add_stream_plans(const PlanInput& input, std::vector<Candidate>& plans);

/// A reduction in tiles of rows x vectors, then what reads it.
void add_tile_plans(const PlanInput& input, std::vector<Candidate>& plans);

/// A reduction along its contiguous red axis in vectors of partial sums, then what reads it.
void add_dot_plans(const PlanInput& input, std::vector<Candidate>& plans);

/// Tmps that are read row by row, each row computed once where it is used.
void add_row_plans(const PlanInput& input, std::vector<Candidate>& plans);

/// Contractions over what rows share in register tiles of a block of rows, all else row by row.
void add_block_plans(const PlanInput& input, std::vector<Candidate>& plans);

/// For groups of many lanes: rows, columns, tiles and squares of them.
void add_lane_plans(const PlanInput& input, std::vector<Candidate>& plans);

/// By axis of a comp the axis of `last`, which reads it, that runs over it; its number of axes:
/// none.
std::vector<size_t> consumer_axes(const Walk& comp, const Walk& last);
/// What `last` writes can hold the sums of a reduction that it reads between blocks of it.
bool can_carry_in_output(const Kernel& kernel, const Walk& reduction, const Walk& last);
/// What a comp's index runs through inside the first `num_loops` loops of its entry, overhanging
/// steps included; 0: it is not affine.
int64_t staged_extent(const Walk& walk, const Node& index, const CompPlan& entry, int num_loops);

}  // namespace tenon
