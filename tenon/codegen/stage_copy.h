// The copy of a staged operand's box into group memory. Called by placement.cpp
// and build_nest.
// SPDX-License-Identifier: MIT

#pragma once

#include <unordered_set>

#include "tenon/codegen/placement.h"

namespace tenon {

/// Works a stage out: the box of the operand that the comp's body reads while the axes `outer`
/// stand still, and its buffer, which is added to `nest`. Throws PlanRefusal.
PlacedStage place_stage(const Kernel& kernel, const PlacedComp& comp, const Stage& stage,
                        const std::unordered_set<const void*>& outer, Kernel& nest);

/// Statements that fill the stage's buffer; places of its box beyond what the comp reads of the
/// operand get 0. The loops walk the source in its order, `lanes` elements at a time; where source
/// and copy are contiguous along different dims, in square blocks of lanes that emit_linear
/// transposes in registers. Groups of a unit's operand are stored side by side (why_not_unit bounds
/// their vectors).
Body stage_copy(Kernel& nest, const PlacedStage& stage, int lanes, bool is_for_unit);

}  // namespace tenon
