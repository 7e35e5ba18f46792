// Expressions in dtypes that a Target does not compute with, rewritten in those that it does. f16,
// bf16 and the 8-bit floats become f32 values that are rounded to the narrow dtype after each op:
// no excess precision, so the same bits as a device that computes in the narrow dtype. f64 and
// 64-bit integers are not emulated: an error, never a smaller dtype. Runs before decompose; the
// pass in codegen/ changes the dtypes of buffers by storage_dtype. SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "tenon/ir/node.h"
#include "tenon/rules/bounds.h"
#include "tenon/rules/rewrite.h"
#include "tenon/types/target.h"

namespace tenon {

/// f16, bf16, f8e4m3 or f8e5m2.
bool is_narrow_float(DType dtype);

/// The dtype that values of `dtype` have after lowering: itself if the Target computes with it, f32
/// for narrow floats. Throws kUnsupported for a dtype that cannot be emulated.
DType lowered_dtype(DType dtype, const Target& target);

/// The dtype that buffers of `dtype` get: itself if the Target computes with it or converts it to
/// and from f32 in hardware, else the unsigned integer of the same width.
DType storage_dtype(DType dtype, const Target& target);

/// The f32 value of bits (u8 or u16) that stand for a narrow float. Exact.
Node widen_bits(const Node& bits, DType narrow);
/// The bits (u8 or u16) of a narrow float nearest to `value` (any number dtype or bool): one
/// rounding, to nearest even; overflow gives infinity (NaN in f8e4m3); denormals and NaN are kept.
Node narrow_to_bits(const Node& value, DType narrow);
/// The f32 that a f32 becomes when it is rounded to a narrow float and widened again.
Node round_to_narrow(const Node& value, DType narrow);

/// Lowers all expressions of a kernel for one Target; remembers what it did.
class DTypeLowering {
 public:
  explicit DTypeLowering(const Target& target) : target_(&target) {}

  /// The value in lowered_dtype(root.dtype()); loads read storage_dtype buffers. idx parts are
  /// kept.
  Node run(const Node& root);
  /// The value in storage_dtype(root.dtype()), as a store needs it: rounded once.
  Node run_to_storage(const Node& root);

 private:
  /// A lowered value seen as one of a narrow dtype, and where it came from.
  struct Source {
    DType narrow;
    Node node;
  };
  using SourceMap = std::unordered_map<Node, Source, NodeHash>;

  bool is_emulated(DType dtype) const { return !target_->can_compute(dtype); }
  Node lower(const Node& node, const Node& original);
  Node lower_load(const Node& load, const Node& original);
  Node lower_cast(const Node& node, DType from);
  Node lower_bitcast(const Node& node, DType from);
  Node lower_constant_bitcast(const Node& original);
  Node lower_op(const Node& node);
  Node widen(const Node& stored, DType narrow);
  Node round(const Node& value, DType narrow);
  Node to_storage(const Node& lowered, DType dtype) const;
  Node narrow(const Node& value, DType dtype) const;

  const Target* target_;  // borrowed
  Rewriter rewriter_;
  BoundsMemo bounds_;
  SourceMap unrounded_;  // a rounded f32: the value before
  SourceMap stored_;     // a widened f32: what was loaded
};

/// One-off form of DTypeLowering::run.
Node lower_dtype_expr(const Node& root, const Target& target);

}  // namespace tenon
