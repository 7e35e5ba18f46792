// Bounds of integer, bool and idx expressions: a function of the Node alone (extents of axes,
// ranges of scalars, constants; a load has the bounds of its dtype). Used by every rule that needs
// a proof. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <unordered_map>

#include "tenon/ir/node.h"

namespace tenon {

/// All values of an expression lie in [min, max]. INT64_MIN and INT64_MAX stand for "without bound"
/// (values of u64 above INT64_MAX count as INT64_MAX), so they never prove anything by themselves.
struct IntRange {
  int64_t min = INT64_MIN;
  int64_t max = INT64_MAX;

  bool has_min() const { return min != INT64_MIN; }
  bool has_max() const { return max != INT64_MAX; }
  bool is_bounded() const { return has_min() && has_max(); }
  bool is_value() const { return min == max && is_bounded(); }
  bool contains(int64_t value) const { return min <= value && value <= max; }
  friend bool operator==(const IntRange&, const IntRange&) = default;
};

/// All values of an integer or bool dtype; without bound for idx.
IntRange dtype_range(DType dtype);

// Saturating arithmetic on intervals of exact integers (no wrapping).
IntRange add(IntRange a, IntRange b);
IntRange sub(IntRange a, IntRange b);
IntRange mul(IntRange a, IntRange b);
IntRange floor_div(IntRange a, IntRange b);
IntRange floor_mod(IntRange a, IntRange b);

/// floor(a / b) and its remainder; 0 for b = 0, as the IR says.
int64_t floor_div(int64_t a, int64_t b);
int64_t floor_mod(int64_t a, int64_t b);

/// What has been computed, by node; holds its nodes. One per call site or pass.
class BoundsMemo {
 public:
  /// Bounds of `node`, which is of an integer dtype, bool or idx. Iterative.
  IntRange bounds(const Node& node);
  /// From now on `node` lies in `interval` as well: for facts that hold where the memo is used (the
  /// gate of a load, say). Must be called before the bounds of any user of `node` are asked for.
  void assume(const Node& node, IntRange interval);

 private:
  IntRange compute(const Node& node) const;

  std::unordered_map<Node, IntRange, NodeHash> memo_;
};

/// One-off form.
IntRange bounds(const Node& node);

}  // namespace tenon
