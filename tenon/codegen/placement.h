// Placement: a Plan worked out against its kernel: loops and instances with their extents, each
// comp's axes as expressions of them, where each tmp lies. check_plan asks whether there is one,
// build_nest makes statements of it. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/codegen/plan.h"
#include "tenon/ir/kernel.h"

namespace tenon {

/// The values base .. base + length - 1 of an axis or a dim.
struct AxisRange {
  Node base;
  int64_t length = 0;
  bool is_bound = false;  ///< a place fixes it; else it is the whole axis
  bool is_exact = true;   ///< never runs beyond the axis
};

struct PlacedLoop {
  AxisUse use;
  Node extent;  ///< trimmed
  Part part;
};

/// Where a tmp (or the accumulators of a reduction) lies: its own buffer holds a box of it.
struct Storage {
  int buffer = -1;
  std::vector<AxisRange> box;  ///< by dim of the tmp
  bool is_reg = false;
  int vec_dim = -1;  ///< in registers: the dim along which they are vectors; -1: scalars
  /// The tmp lies in another buffer: by its dim, an expression of `dims`, which stand for the
  /// tmp's index.
  std::vector<Node> alias;
  std::vector<Node> dims;
};

struct PlacedStage {
  Stage stage;
  Storage storage;
};

struct PlacedComp {
  const Comp* comp = nullptr;
  const CompPlan* plan = nullptr;
  std::vector<AxisRange> ranges;  ///< by axis
  std::vector<PlacedLoop> loops;
  std::vector<AxisUse> instances;
  std::vector<Part> instance_parts;
  std::vector<Node> exprs;    ///< by axis: its value
  std::vector<Node> clamped;  ///< by axis: what loads use; the same as `exprs` without a clamp
  std::vector<Node> guards;   ///< by axis: value < extent, or null where it always holds

  int start_depth = 0;              ///< of a reduction: loops around the life of its tmp
  std::optional<Storage> acc;       ///< register tile, if it is not the tmp's storage itself
  std::optional<Storage> partials;  ///< with an element for each red instance as well
  std::optional<Storage> carry;     ///< where the tile lies between reduce loops
  std::vector<PlacedStage> stages;
  std::vector<int> before;  ///< entries of the plan placed in it, in kernel order
  std::vector<int> after;
};

struct Placement {
  Kernel nest;                               ///< buffers and axes; no statements yet
  std::vector<PlacedComp> comps;             ///< by entry of the plan
  std::unordered_map<int, Storage> storage;  ///< of each tmp, by buffer
  std::string reason;                        ///< why there is none; empty: there is one
};

/// Works the plan out. `kernel` and `plan` must outlive the result.
Placement place_comps(const Kernel& kernel, const Plan& plan);

/// What a comp that is placed next would have to cover: by axis, the values that the place leaves
/// open. `plan` has the entries so far. Nothing if it cannot stand there.
std::optional<std::vector<AxisRange>> ranges_at(const Kernel& kernel, const Plan& plan, int comp,
                                                How how, LoopPlace place);

/// The reduction has an accumulator for each point of this instance axis.
bool is_partial(const PlacedComp& comp, const AxisUse& use);

bool has_red_axis(const Node& expr);

/// Index of the tmp's element in its storage.
std::vector<Node> storage_index(const Storage& storage, std::span<const Node> index);

}  // namespace tenon
