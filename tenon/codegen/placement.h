// Placement: a Plan worked out against its kernel: loops and instances with their extents, each
// comp's axes as expressions of them, where each tmp lies. check_plan asks whether there is one,
// build_nest makes statements of it. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/codegen/axis_range.h"
#include "tenon/codegen/plan.h"
#include "tenon/ir/kernel.h"

namespace tenon {

struct PlacedLoop {
  AxisUse use;
  Node extent;  ///< trimmed
  Part part;
};

/// A part of an axis that is dealt to the lanes of a dim; those beyond its extent idle.
struct PlacedLane {
  AxisUse use;
  Part part;
  int64_t count() const { return axis_extent(use.axis); }
  bool is_red(const struct PlacedComp& comp) const;
};

/// Dims of a buffer in which the tiles of a matrix unit lie, and what a tile has of them.
struct TileDims {
  int row = -1;  ///< -1: no tiles
  int column = -1;
  int64_t rows = 1;
  int64_t columns = 1;
};

/// Where a tmp (or the accumulators of a reduction) lies: its own buffer holds a box of it.
struct StorageBox {
  int buffer = -1;
  std::vector<AxisRange> box;  ///< by dim of the tmp
  bool is_reg = false;
  int vec_dim = -1;  ///< in registers: the dim along which they are vectors; -1: scalars
  TileDims tile = {};
  /// The tmp lies in another buffer: by its dim, an expression of `dims`, which stand for the
  /// tmp's index.
  std::vector<Node> alias;
  std::vector<Node> dims;
};

struct PlacedStage {
  Stage stage;
  LoopPlace at;
  StorageBox storage;
  /// By dim of the operand: what the comp reads of it, first .. end - 1; all else counts as zeros.
  std::vector<int64_t> first;
  std::vector<int64_t> end;
};

struct PlacedComp {
  const Comp* comp = nullptr;
  const CompPlan* plan = nullptr;
  std::vector<AxisRange> ranges;  ///< by axis
  std::vector<PlacedLoop> loops;
  std::vector<AxisUse> instances;
  std::vector<Part> instance_parts;
  std::vector<PlacedLane> lanes;
  std::vector<Node> exprs;    ///< by axis: its value
  std::vector<Node> clamped;  ///< by axis: what loads use; the same as `exprs` without a clamp
  std::vector<Node> guards;   ///< by axis: value < extent, or null where it always holds
  bool overruns = false;      ///< some loop starts beyond its axis

  int start_depth = 0;                 ///< of a reduction: loops around the life of its tmp
  std::optional<StorageBox> acc;       ///< register tile, if it is not the tmp's storage itself
  std::optional<StorageBox> partials;  ///< with an element for each red instance as well
  std::optional<StorageBox> carry;     ///< where the tile lies between reduce loops
  std::vector<PlacedStage> stages;
  std::optional<int> via;   ///< group buffer in which lanes fold what is red
  std::vector<int> before;  ///< entries of the plan placed in it, in kernel order
  std::vector<int> after;

  /// The part dealt to the lane dim; null: none.
  const PlacedLane* lane_of(size_t dim) const;
};

struct Placement {
  Kernel nest;                                  ///< buffers and axes; no statements yet
  std::vector<PlacedComp> comps;                ///< by entry of the plan
  std::unordered_map<int, StorageBox> storage;  ///< of each tmp, by buffer
  /// Lane axes of parts that leave lanes idle, with the nest's axis of the dim.
  std::vector<std::pair<Node, Node>> lane_axes;
  std::string reason;  ///< why there is none; empty: there is one
};

/// Works the plan out. `kernel` and `plan` must outlive the result.
Placement place_comps(const Kernel& kernel, const Plan& plan);

/// What a comp that is placed next would have to cover: by axis, the values that the place leaves
/// open. `plan` has the entries so far. Nothing if it cannot stand there.
std::optional<std::vector<AxisRange>> ranges_at(const Kernel& kernel, const Plan& plan, int comp,
                                                How how, LoopPlace place);

/// The dim of an index that moves with an instance of the comp; -1: none.
int dim_of(const PlacedComp& comp, std::span<const Node> index, const Node& axis);
/// The dim along which one instance with this index takes several elements of a register buffer,
/// and how many; -1 and 1 without a vec axis in it.
std::pair<int, int64_t> vec_dim(const PlacedComp& comp, std::span<const Node> index);

/// Each axis of the comp with its value: replacements for substitute().
std::vector<std::pair<Node, Node>> axis_values(const PlacedComp& comp);

/// The reduction has an accumulator for each point of this instance axis.
bool is_partial(const PlacedComp& comp, const AxisUse& use);

bool has_red_axis(const Node& expr);

/// Elements of the storage's box.
int64_t num_elements(const StorageBox& storage);

/// Gives the buffer the storage's box, then `more`, as its dims, and a layout: registers are
/// vectors along one dim, so that is the innermost; tiles lie in one piece each.
void lay_out(BufferDecl& decl, const StorageBox& storage, const std::vector<int64_t>& more = {});

/// Index within the box of one dim.
Node local_index(const AxisRange& range, const Node& index);
/// Index of the tmp's element in its storage.
std::vector<Node> storage_index(const StorageBox& storage, std::span<const Node> index);

}  // namespace tenon
