// Makes the kernel (2a) that computes one stored node: movement becomes index expressions, pads
// become gates, unstored reductions and tmps become Comps of their own before the last one. Called
// by schedule.cpp for each stored node. SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/ir/node.h"

namespace tenon {

struct MovedKernel {
  Kernel kernel;             ///< buffer 0 is the output, then the inputs, then the tmps
  std::vector<Node> inputs;  ///< stored or given nodes, for kernel buffers 1, 2, ...
};

/// Before: `root` is stored, has at least one element, and `is_stored` says of every node below
/// whether it is in memory when the kernel runs (given or stored); of the others, `is_tmp` says
/// which are computed once, over axes of their own, and read at any index. After: no movement is
/// left; buffers and axes are canonically named and numbered, so equal kernels print equal text.
///
/// Throws kUnsupported on a symbolic variable (no kernel parameter yet).
MovedKernel lower_movement(const Node& root, const std::function<bool(const Node&)>& is_stored,
                           const std::function<bool(const Node&)>& is_tmp);

}  // namespace tenon
