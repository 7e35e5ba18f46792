// Sums of products of signed whole numbers for a unit that takes its first operand unsigned: with o
// half the range, sum(a * b) = sum((a + o) * b) - o * sum(b), which holds in wrapping sums too.
// Asked for by the pipeline before a plan is chosen. SPDX-License-Identifier: MIT

#pragma once

#include <optional>

#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

/// Before: a kernel after split_root. The kernel `[t += a * b; y = f(t)]` as `[t += (a ^ o) * b;
/// s += b; y = f(t - o * s)]`, where the Target has a unit for the latter only; b is the operand
/// that moves with the columns of y. Nothing: it is not of that form, or needs no offset.
std::optional<Kernel> offset_products(const Kernel& kernel, const Target& target);

}  // namespace tenon
