// The copy of a staged operand's box into group memory. Called by build_nest.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/codegen/placement.h"

namespace tenon {

/// Statements that fill the stage's buffer; places of its box beyond the operand get 0. The loops
/// walk the source in its order, `lanes` elements at a time; where source and copy are contiguous
/// along different dims, in square blocks of lanes that emit_linear transposes in registers.
Body stage_copy(Kernel& nest, const PlacedStage& stage, int lanes);

}  // namespace tenon
