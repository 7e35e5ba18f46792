// The parts of the oracle that evaluate one node each; used by oracle.cpp alone.
// SPDX-License-Identifier: MIT

#pragma once

#include <span>

#include "tenon/conform/oracle.h"

namespace tenon::detail {

/// A value on the way through the graph.
struct OracleNode {
  OracleValue value;
  /// The bits are those of an input or constant, so even the payload of a NaN is known.
  bool is_raw = false;
  /// Float products that were rounded: a device may leave that to a fused multiply-add when they
  /// are summed (docs/ir.md), so the sum's radius must cover it.
  bool has_rounded_products = false;
  /// f32 values of bf16, and products of two such: when they are summed, a matrix unit may flush
  /// denormals (docs/ir.md), so the sum's radius must cover it.
  bool is_widened = false;
  bool is_unit_product = false;
  double most_flushed = 0;  ///< of unit products: the largest one with a denormal factor
};

/// A closed interval of real numbers that holds whatever a right device has.
struct RealInterval {
  double lo;
  double hi;
};
RealInterval interval_of(double value, double radius);

/// Radius of element `i` of `out`, whose value is `value` and whose device value is the rounding of
/// something in `ends`: 0 if both ends round to the value. Where an infinity or NaN is possible
/// beside something else, the element is excluded.
void set_radius(OracleValue& out, size_t i, double value, RealInterval ends);
void exclude(OracleValue& out, size_t i);

/// What the device that is judged declares.
struct OracleDeviations {
  bool flushes = false;        ///< denormals of f32, in which bf16 is computed too
  bool flushes_units = false;  ///< in sums that matrix units take
  std::span<const Deviation> all;

  explicit OracleDeviations(std::span<const Deviation> declared);
  double ulp_of(Op op, double least) const;  ///< that the op may be off
  bool flushes_values_of(DType dtype) const;
  /// The values that an operand, or a result before its rounding, may count as.
  RealInterval widened(DType dtype, RealInterval values, bool is_result) const;
};

void evaluate_elementwise(const Node& node, std::span<const OracleNode* const> srcs,
                          const OracleDeviations& deviations, OracleNode& out);
void evaluate_reduce(const Node& node, const OracleNode& source, const OracleDeviations& deviations,
                     OracleNode& out);
/// Reshape, permute, expand, pad, shrink, flip, window.
void evaluate_movement(const Node& node, const OracleValue& x, OracleValue& out);

/// Elements of x at base + sum(index[axis] * strides[axis]) for each index of out.shape, in order.
void gather(const OracleValue& x, int64_t base, std::span<const int64_t> strides, OracleValue& out);
/// Row-major strides in elements.
std::vector<int64_t> strides_of(ShapeView shape);
size_t count_of(ShapeView shape);

}  // namespace tenon::detail
