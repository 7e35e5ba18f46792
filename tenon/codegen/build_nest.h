// Turns a kernel and its Plan into a nest. Pass 3 of docs/ir.md, the only one that reads the Plan.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/codegen/plan.h"
#include "tenon/ir/kernel.h"

namespace tenon {

/// A root (last Comp) that combines becomes a Comp into a tmp and a root that copies it, so that
/// every root is a plain `set` over par axes. Stands before choose_plan.
Kernel split_root(const Kernel& kernel);

/// Before: kernel 2a after split_root, a plan that check_plan accepts. After: every axis is bound
/// by the grid, a For (tails trimmed: loop extents are expressions) or its Comp (unroll, vec),
/// starts are explicit Comps, tmps have a scope (kReg where instances alone index them, else
/// kGroup).
Kernel build_nest(const Kernel& kernel, const Plan& plan);

}  // namespace tenon
