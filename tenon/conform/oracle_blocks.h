// Evaluation of a large reduction block by block: `sum(expand(a) * expand(b))` of a matrix product
// has K times as many elements as its result. Nothing is computed otherwise than as written; a
// block of the result just needs a block of each node above it. Used by oracle.cpp alone.
// SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "tenon/conform/oracle_parts.h"

namespace tenon::detail {

/// Nodes with more elements are not kept whole if it can be avoided.
constexpr size_t kLargeElements = size_t{1} << 22;

/// Elements of the largest node of a block: some arrays of it fit the cache.
constexpr size_t kElementsOfBlock = size_t{1} << 17;

/// How a reduction is cut: along `axis` of its result, with all nodes above that are cut too.
struct BlockPlan {
  int64_t axis = 0;
  std::vector<Node> boundary;  ///< the nodes whose whole values are needed
};

/// Nothing if `node` is no reduction over more than kLargeElements, or no axis can be cut.
std::optional<BlockPlan> plan_blocks(const Node& node);

/// A graph for elements begin..end of the plan's axis, in which the buffers `stand_ins` stand for
/// the plan's boundary.
Node make_block(const Node& node, const BlockPlan& plan, std::span<const Node> stand_ins,
                int64_t begin, int64_t end);

/// Writes a block's value to its place along `axis`.
void place_block(const OracleNode& block, int64_t axis, int64_t begin, OracleNode& out);

}  // namespace tenon::detail
