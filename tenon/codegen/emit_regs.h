// Register buffers as SSA values: which registers a buffer is made of, what they hold at the place
// being emitted, and which of them loops carry. Used by emit_linear.
// SPDX-License-Identifier: MIT

#pragma once

#include <compare>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/ir/linear.h"
#include "tenon/rules/affine.h"

namespace tenon {

/// Elements [first, first + width) of a register buffer; `width` is the same for all of a buffer.
struct RegKey {
  int buffer = 0;
  int64_t first = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): it takes the 0 of the comparison for a pointer
  friend auto operator<=>(const RegKey&, const RegKey&) = default;
};

/// Index of a register buffer: offset + sum(coefficient * axis), axes of one statement.
struct RegIndex {
  int64_t offset = 0;
  std::vector<std::pair<Node, int64_t>> terms;

  int64_t coefficient(const Node& axis) const;
};

/// The axis that becomes vectors: the one with role kVec and more than one point, or null. Asserts
/// that there is at most one, of no more points than vectors have lanes.
Node vec_axis_of(const std::vector<AxisUse>& axes, const std::string& nest_name);

class RegFile {
 public:
  /// Finds the width of every register buffer: the extent of the vec axis along which Comps
  /// address it, or the elements of the tiles that they move, else 1. Asserts that all agree. Keeps
  /// a reference to `nest`.
  explicit RegFile(const Kernel& nest);

  bool is_reg(int buffer) const;
  int64_t width(int buffer) const { return widths_[static_cast<size_t>(buffer)]; }
  /// Its registers are tiles of a matrix unit, of `width` elements.
  bool is_tile(int buffer) const { return is_tile_[static_cast<size_t>(buffer)]; }
  LinearType type(int buffer) const;
  RegKey key(int buffer, int64_t element) const;
  /// Asserts that `index` is affine in axes.
  const RegIndex& index(const Node& index);

  /// What a register holds; kNoId if nothing was written to it yet.
  ValueId find(const RegKey& key) const;
  void set(const RegKey& key, ValueId value) { values_[key] = value; }
  void forget(const RegKey& key) { values_.erase(key); }
  /// The buffer begins to live (again).
  void forget_buffer(int buffer);

  /// Registers that statements of the body write and that live outside of it, in order.
  const std::vector<RegKey>& written_in(const Body& body);
  /// Registers that a statement with these axes writes.
  std::vector<RegKey> written_by(int buffer, const Node& index, const std::vector<AxisUse>& axes);

 private:
  void note_width(int buffer, const Node& index, const Node& vec);
  void note_tile(int buffer, const Node& index, const Node& row, const Node& column);
  void note_widths(const Comp& comp);
  void note_kept_width(const Combine& combine);

  const Kernel& nest_;
  StructuralOrder order_;
  std::vector<int64_t> widths_;
  std::vector<bool> is_tile_;
  std::unordered_map<const void*, RegIndex> indices_;
  std::map<RegKey, ValueId> values_;
  std::unordered_map<const Body*, std::vector<RegKey>> written_;
};

}  // namespace tenon
