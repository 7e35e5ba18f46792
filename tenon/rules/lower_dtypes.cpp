// SPDX-License-Identifier: MIT

#include "tenon/rules/lower_dtypes.h"

#include <array>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel.h"
#include "tenon/rules/decompose_steps.h"
#include "tenon/rules/embeds.h"
#include "tenon/rules/supports.h"

namespace tenon {
namespace {

// Ops whose result is one of the operands or a whole number near one: exact in every narrow format.
bool keeps_format(Op op) {
  return op == Op::kMin || op == Op::kMax || op == Op::kWhere || op == Op::kNeg || op == Op::kAbs ||
         op == Op::kTrunc || op == Op::kFloor || op == Op::kCeil || op == Op::kRound;
}

bool has_hardware_casts(DType dtype, const Target& target) {
  return target.has_cast(dtype, DType::kF32) && target.has_cast(DType::kF32, dtype);
}

}  // namespace

DType lowered_dtype(DType dtype, const Target& target) {
  if (dtype == DType::kIdx || target.can_compute(dtype)) return dtype;
  require(supports(target, dtype), "lower_dtypes: ");
  return DType::kF32;
}

DType storage_dtype(DType dtype, const Target& target) {
  const DType lowered = lowered_dtype(dtype, target);
  if (lowered == dtype || has_hardware_casts(dtype, target)) return dtype;
  return unsigned_of_same_width(dtype);
}

Node DTypeLowering::widen(const Node& stored, DType narrow) {
  if (is_const(stored)) {
    return bits_const(DType::kF32, eval_cast(const_bits(stored), narrow, DType::kF32));
  }
  Node wide =
      stored.dtype() == narrow ? make_cast(stored, DType::kF32) : widen_bits(stored, narrow);
  stored_.insert_or_assign(wide, Source{narrow, stored});
  return wide;
}

// A value of any dtype as the narrow float that a buffer holds.
Node DTypeLowering::narrow(const Node& value, DType dtype) const {
  const DType storage = storage_dtype(dtype, *target_);
  if (is_const(value)) {
    return bits_const(storage, eval_cast(const_bits(value), value.dtype(), dtype));
  }
  if (storage != dtype) return narrow_to_bits(value, dtype);
  return make_cast(steps::to_f32_for_narrowing({value}).node, dtype);
}

Node DTypeLowering::round(const Node& value, DType dtype) {
  if (is_const(value)) {
    const uint64_t bits = eval_cast(const_bits(value), value.dtype(), dtype);
    return bits_const(DType::kF32, eval_cast(bits, dtype, DType::kF32));
  }
  Node rounded = storage_dtype(dtype, *target_) == dtype
                     ? make_cast(narrow(value, dtype), DType::kF32)
                     : round_to_narrow(value, dtype);
  unrounded_.insert_or_assign(rounded, Source{dtype, value});
  return rounded;
}

Node DTypeLowering::to_storage(const Node& lowered, DType dtype) const {
  if (!is_emulated(dtype)) return lowered;
  if (const auto found = stored_.find(lowered); found != stored_.end()) {
    if (found->second.narrow == dtype) return found->second.node;
  }
  if (const auto found = unrounded_.find(lowered); found != unrounded_.end()) {
    if (found->second.narrow == dtype) return narrow(found->second.node, dtype);
  }
  return narrow(lowered, dtype);
}

// The node has the shape of the original, with lowered indices, gate and alternative.
Node DTypeLowering::lower_load(const Node& load, const Node& original) {
  const DType dtype = original.dtype();
  const DType storage = storage_dtype(dtype, *target_);
  const LoadParts parts = load_parts(load);
  if (!parts.gated) return widen(make_load(parts.buffer, storage, parts.index), dtype);
  const Node alt = to_storage(parts.alt, dtype);
  return widen(make_gated_load(parts.buffer, storage, parts.index, parts.gate, alt), dtype);
}

Node DTypeLowering::lower_cast(const Node& node, DType from) {
  const DType to = node.dtype();
  Node value = node.src(0);
  if (from == DType::kIdx && is_narrow_float(to)) {
    // f32 holds small positions, i64 all.
    const IntRange range = bounds_.bounds(value);
    const bool is_small = range.min >= -(1 << 24) && range.max <= 1 << 24;
    value = make_cast(value, is_small ? DType::kI32 : DType::kI64);
    if (is_small) value = make_cast(value, DType::kF32);
  }
  if (!is_emulated(to)) return make_cast(value, to);
  if (value.dtype() == DType::kF32 && embeds(from, to)) return value;
  const bool is_exact = from != DType::kIdx && embeds(from, to);
  return is_exact ? make_cast(value, DType::kF32) : round(value, to);
}

Node DTypeLowering::lower_bitcast(const Node& node, DType from) {
  const DType to = node.dtype();
  const DType bits_dtype = unsigned_of_same_width(to);
  Node bits = node.src(0);
  if (is_emulated(from)) {
    bits = to_storage(bits, from);
    if (bits.dtype() == from) bits = make_bitcast(bits, bits_dtype);
  } else if (from != bits_dtype) {
    bits = make_bitcast(bits, bits_dtype);
  }
  if (!is_emulated(to)) return to == bits_dtype ? bits : make_bitcast(bits, to);
  return storage_dtype(to, *target_) == to ? widen(make_bitcast(bits, to), to) : widen(bits, to);
}

Node DTypeLowering::lower_constant_bitcast(const Node& original) {
  const DType to = original.dtype();
  const Node& value = original.src(0);
  const Node bits = bits_const(to, eval_bitcast(const_bits(value), value.dtype(), to));
  return is_emulated(to) ? widen(bits, to) : bits;
}

Node DTypeLowering::lower_op(const Node& node) {
  const DType narrow = node.dtype();
  const Op op = node.op();
  if (keeps_format(op)) return make_expr(op, node.srcs());
  if (op == Op::kMulAcc) {
    const Node product = round(make_expr(Op::kMul, node.src(0), node.src(1)), narrow);
    return round(make_expr(Op::kAdd, product, node.src(2)), narrow);
  }
  if (op == Op::kFma) {
    require(supports(*target_, op, narrow), "lower_dtypes: ");
    return round(steps::fma_to_odd({node.src(0)}, {node.src(1)}, {node.src(2)}).node, narrow);
  }
  return round(make_expr(op, node.srcs()), narrow);
}

Node DTypeLowering::lower(const Node& node, const Node& original) {
  const DType dtype = original.dtype();
  const DType lowered = lowered_dtype(dtype, *target_);  // refuses what cannot be emulated
  if (node.op() == Op::kCast && (is_narrow_float(original.src(0).dtype()) || lowered != dtype)) {
    return lower_cast(node, original.src(0).dtype());
  }
  if (node.op() == Op::kBitcast && !(node == original && lowered == dtype)) {
    // The bits of a constant as written: as f32, a NaN would lose some.
    return is_const(original.src(0)) ? lower_constant_bitcast(original)
                                     : lower_bitcast(node, original.src(0).dtype());
  }
  if (lowered == dtype) {
    // Comparisons and tests of lowered values: the dtype of the result is right.
    return {};
  }
  if (is_const(node)) {
    return bits_const(DType::kF32, eval_cast(const_bits(node), dtype, DType::kF32));
  }
  if (node.op() == Op::kLoad) return lower_load(node, original);
  TENON_ASSERT(is_elementwise(node.op()), op_name(node.op()), " has no narrow form");
  return lower_op(node);
}

Node DTypeLowering::run(const Node& root) {
  return rewriter_.run(
      root, [this](const Node& node, const Node& original) { return lower(node, original); });
}

Node DTypeLowering::run_to_storage(const Node& root) {
  return to_storage(run(root), root.dtype());
}

Node lower_dtype_expr(const Node& root, const Target& target) {
  return DTypeLowering(target).run(root);
}

}  // namespace tenon
