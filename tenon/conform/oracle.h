// The oracle: what a tensor graph means, evaluated as written, node by node, with plain loops,
// exact integers and wider floats. It shares no scheduling, code generation, folding, rule or
// eval_op with what it judges. Beside each value stands how far a right device may be from it: 0
// for the exact class, else a bound from ULP tables, summation error and interval arithmetic.
// Called by the conformance kit, `tenon diff` and property tests. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tenon/ir/node.h"
#include "tenon/types/target.h"

namespace tenon {

/// The value of one output. A right device's element i lies within `radius[i]` of `bits[i]`; with
/// radius 0 it has these bits (any NaN for NaN). A radius above 0 implies a finite value.
struct OracleValue {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<uint64_t> bits;     ///< canonical (ir/eval_op.h), row-major
  std::vector<double> radius;     ///< empty: all 0
  std::vector<uint8_t> excluded;  ///< not 0: nothing can be said of the element; empty: all 0

  double radius_at(size_t i) const { return radius.empty() ? 0 : radius[i]; }
  bool is_excluded(size_t i) const { return !excluded.empty() && excluded[i] != 0; }
};

/// Where the leaves of a graph get their data.
struct OracleInputs {
  /// Row-major elements of a buffer node, valid until the next call.
  std::function<std::span<const std::byte>(const Node& buffer)> buffer;
  /// Value of a variable node; may be empty if the graph has none.
  std::function<int64_t(const Node& variable)> variable;
  /// Of the device that is judged (deviations_of): what they change is left open.
  std::vector<Deviation> deviations = {};
};

/// Buffer `buffers[i]` has the bytes `data[i]`; borrows both.
OracleInputs bind_inputs(std::span<const Node> buffers,
                         std::span<const std::vector<std::byte>> data,
                         std::vector<Deviation> deviations = {});

/// Evaluates `outputs` in one pass over the graph; values that no one needs any more are dropped.
/// A buffer has its value from before all assigns. Throws kInvalidArgument if an input has a wrong
/// size or a variable is out of its bounds, kUnsupported beyond 2^28 elements in one node (the
/// nodes between a large reduction and its operands are evaluated in blocks and may be larger).
std::vector<OracleValue> evaluate_oracle(std::span<const Node> outputs, const OracleInputs& inputs);

/// The value as a device would store it: row-major elements.
std::vector<std::byte> to_bytes(const OracleValue& value);
/// What has exactly these bytes.
OracleValue exact_value(DType dtype, ShapeView shape, std::span<const std::byte> bytes);
/// A value in decimal, with its bits where decimal does not tell all.
std::string element_text(DType dtype, uint64_t bits);

/// One element of a result that is not what it must be.
struct WrongElement {
  int64_t index = 0;  ///< row-major
  uint64_t expected = 0;
  uint64_t got = 0;
};

/// A Comparison lists no more; it counts all.
inline constexpr size_t kMaxListedElements = 16;

struct Comparison {
  int64_t failed = 0;
  int64_t excluded = 0;
  int64_t compared = 0;      ///< failed ones too, excluded ones not
  int64_t first_wrong = -1;  ///< row-major index; -1: none
  double max_ulp = 0;        ///< largest distance of finite floats, in ulps of the expected value
  std::string text;          ///< the first wrong element in words; empty if none failed
  std::vector<WrongElement> elements;  ///< the first wrong ones
};

/// Judges a device's row-major result: bit equality where the radius is 0 (NaN equals NaN, the sign
/// of zero counts), else distance. Throws kInvalidArgument if `got` has a wrong size.
Comparison compare(const OracleValue& expected, std::span<const std::byte> got);

}  // namespace tenon
