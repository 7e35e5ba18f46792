// Builders of kernel expressions: each asserts its dtype rule, constants are canonical.
// SPDX-License-Identifier: MIT

#include <array>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel.h"

namespace tenon {

namespace {

bool is_idx_op(Op op) {
  return op == Op::kAdd || op == Op::kSub || op == Op::kMul || op == Op::kFloorDiv ||
         op == Op::kFloorMod || op == Op::kMin || op == Op::kMax || op == Op::kWhere ||
         op_info(op).rule == DTypeRule::kCompare;
}

bool is_index_dtype(DType dtype) {
  return dtype == DType::kIdx || is_int(dtype);
}

// What the rule of an elementwise op demands of the sources' common dtype.
bool allows(DTypeRule rule, DType dtype) {
  const bool is_integer = is_int(dtype) || dtype == DType::kIdx;
  switch (rule) {
    case DTypeRule::kSame:
    case DTypeRule::kCompare:
    case DTypeRule::kWhere: return true;
    case DTypeRule::kSameFloat:
    case DTypeRule::kTest: return is_float(dtype);
    case DTypeRule::kSameInt: return is_integer;
    case DTypeRule::kSameIntOrBool: return is_int(dtype) || dtype == DType::kBool;
    case DTypeRule::kNone:
    case DTypeRule::kAttr: return false;
  }
  return false;
}

}  // namespace

Node make_axis(int64_t id, int64_t extent, AxisKind kind) {
  TENON_ASSERT(id >= 0 && extent >= 1, "axis ", id, ": its extent is ", extent, ", expected >= 1");
  const std::array<int64_t, 3> attr{id, extent, static_cast<int64_t>(kind)};
  return make_node(Op::kAxis, DType::kIdx, {}, {}, attr);
}

Node make_scalar(int64_t number, int64_t min, int64_t max) {
  TENON_ASSERT(number >= 0 && min <= max, "scalar ", number, ": its range is ", min, "..", max);
  const std::array<int64_t, 3> attr{number, min, max};
  return make_node(Op::kScalar, DType::kIdx, {}, {}, attr);
}

Node idx_const(int64_t value) {
  return make_node(Op::kConst, DType::kIdx, {}, {}, std::span(&value, 1));
}

Node bits_const(DType dtype, uint64_t bits) {
  const auto attr = static_cast<int64_t>(dtype == DType::kIdx ? bits : canonical_bits(dtype, bits));
  return make_node(Op::kConst, dtype, {}, {}, std::span(&attr, 1));
}

Node number_const(DType dtype, double value) {
  if (dtype == DType::kIdx) {
    TENON_ASSERT(std::abs(value) < 0x1p62 && std::trunc(value) == value, "constant ", value,
                 " is not an index");
    return idx_const(static_cast<int64_t>(value));
  }
  if (is_float(dtype)) return bits_const(dtype, double_to_float(value, dtype));
  return bits_const(dtype, eval_cast(std::bit_cast<uint64_t>(value), DType::kF64, dtype));
}

Node int_const(DType dtype, int64_t value) {
  if (dtype == DType::kIdx) return idx_const(value);
  return bits_const(dtype, eval_cast(static_cast<uint64_t>(value), DType::kI64, dtype));
}

bool is_const(const Node& node) {
  return node.op() == Op::kConst;
}

uint64_t const_bits(const Node& node) {
  TENON_ASSERT(is_const(node), "a constant is expected, not ", op_name(node.op()));
  return static_cast<uint64_t>(node.attr(0));
}

std::optional<std::string> why_not_expr(Op op, std::span<const Node> srcs) {
  if (!is_elementwise(op) || !has_level(op, kKernelLevel) || op == Op::kCast ||
      op == Op::kBitcast) {
    return concat(op_name(op), ": not an elementwise op of kernel expressions");
  }
  const OpInfo& info = op_info(op);
  if (srcs.size() != static_cast<size_t>(info.arity)) {
    return concat(op_name(op), ": takes ", info.arity, " operands, got ", srcs.size());
  }
  for (const Node& src : srcs) {
    if (!src) return concat(op_name(op), ": an operand is null");
  }
  const bool is_where = info.rule == DTypeRule::kWhere;
  if (is_where && srcs[0].dtype() != DType::kBool) {
    return concat("where: the condition must be i1, got ", dtype_name(srcs[0].dtype()));
  }
  const std::span<const Node> same = is_where ? srcs.subspan(1) : srcs;
  for (const Node& src : same) {
    if (src.dtype() != same[0].dtype()) {
      return concat(op_name(op), ": operands differ in dtype: ", dtype_name(same[0].dtype()),
                    " and ", dtype_name(src.dtype()));
    }
  }
  const DType dtype = same[0].dtype();
  if (!allows(info.rule, dtype) || (dtype == DType::kIdx && !is_idx_op(op))) {
    return concat(op_name(op), ": not defined for ", dtype_name(dtype));
  }
  return std::nullopt;
}

Node make_expr(Op op, std::span<const Node> srcs) {
  const std::optional<std::string> reason = why_not_expr(op, srcs);
  TENON_ASSERT(!reason, *reason);
  const DTypeRule rule = op_info(op).rule;
  const bool gives_bool = rule == DTypeRule::kCompare || rule == DTypeRule::kTest;
  return make_node(op, gives_bool ? DType::kBool : srcs.back().dtype(), {}, srcs);
}

Node make_expr(Op op, const Node& a) {
  return make_expr(op, std::span(&a, 1));
}

Node make_expr(Op op, const Node& a, const Node& b) {
  const std::array<Node, 2> srcs{a, b};
  return make_expr(op, srcs);
}

Node make_expr(Op op, const Node& a, const Node& b, const Node& c) {
  const std::array<Node, 3> srcs{a, b, c};
  return make_expr(op, srcs);
}

Node make_cast(const Node& value, DType dtype) {
  TENON_ASSERT(value, "cast: the value is null");
  TENON_ASSERT(dtype != DType::kIdx || is_index_dtype(value.dtype()), "cast: only integers become",
               " idx, got ", dtype_name(value.dtype()));
  return make_node(Op::kCast, dtype, {}, std::span(&value, 1));
}

Node make_bitcast(const Node& value, DType dtype) {
  TENON_ASSERT(value && dtype_bits(value.dtype()) == dtype_bits(dtype) && dtype_bits(dtype) != 0 &&
                   (value.dtype() == DType::kBool) == (dtype == DType::kBool),
               "bitcast: the value must have the width of ", dtype_name(dtype));
  return make_node(Op::kBitcast, dtype, {}, std::span(&value, 1));
}

namespace {

Node make_any_load(int buffer, DType dtype, std::span<const Node> srcs, size_t rank, bool gated) {
  TENON_ASSERT(buffer >= 0 && dtype != DType::kIdx, "load: buffer ", buffer, " of ",
               dtype_name(dtype));
  for (const Node& index : srcs.first(rank)) {
    TENON_ASSERT(index && is_index_dtype(index.dtype()), "load: an index must be idx");
  }
  const std::array<int64_t, 3> attr{buffer, static_cast<int64_t>(rank), gated ? 1 : 0};
  return make_node(Op::kLoad, dtype, {}, srcs, attr);
}

}  // namespace

Node make_load(int buffer, DType dtype, std::span<const Node> index) {
  return make_any_load(buffer, dtype, index, index.size(), false);
}

Node make_gated_load(int buffer, DType dtype, std::span<const Node> index, const Node& gate,
                     const Node& alt) {
  TENON_ASSERT(gate && gate.dtype() == DType::kBool, "load: the gate must be i1");
  TENON_ASSERT(alt && alt.dtype() == dtype, "load: the value outside must be ", dtype_name(dtype));
  std::vector<Node> srcs(index.begin(), index.end());
  srcs.push_back(gate);
  srcs.push_back(alt);
  return make_any_load(buffer, dtype, srcs, index.size(), true);
}

LoadParts load_parts(const Node& load) {
  TENON_ASSERT(load.op() == Op::kLoad, "a load is expected, not ", op_name(load.op()));
  const auto rank = static_cast<size_t>(load.attr(1));
  LoadParts parts{.buffer = static_cast<int>(load.attr(0)),
                  .index = load.srcs().first(rank),
                  .gated = load.attr(2) != 0,
                  .gate = {},
                  .alt = {}};
  if (parts.gated) {
    parts.gate = load.src(rank);
    parts.alt = load.src(rank + 1);
  }
  return parts;
}

namespace {

uint64_t float_identity_bits(Op op, DType dtype) {
  if (op == Op::kAdd) return 0;
  if (op == Op::kMul) return double_to_float(1.0, dtype);
  TENON_ASSERT(op == Op::kMin || op == Op::kMax, op_name(op), ": no identity in ",
               dtype_name(dtype));
  const FloatFormat format = float_format(dtype);
  const int value_bits = format.exponent_bits + format.mantissa_bits;
  const uint64_t all_ones = (uint64_t{1} << value_bits) - 1;
  const uint64_t mantissa = (uint64_t{1} << format.mantissa_bits) - 1;
  const uint64_t highest = format.finite_only ? all_ones - 1 : all_ones - mantissa;
  return op == Op::kMin ? highest : highest | uint64_t{1} << value_bits;
}

}  // namespace

Node identity_of(Op op, DType dtype) {
  TENON_ASSERT(is_combining(op) && dtype != DType::kIdx, op_name(op), ": no identity in ",
               dtype_name(dtype));
  if (is_float(dtype)) return bits_const(dtype, float_identity_bits(op, dtype));
  const bool is_bool = dtype == DType::kBool;
  if (op == Op::kMul) return bits_const(dtype, 1);
  if (op == Op::kMax) return bits_const(dtype, int_min_bits(dtype));
  if (op == Op::kMin) return bits_const(dtype, int_max_bits(dtype));
  if (op == Op::kAnd) return bits_const(dtype, is_bool ? 1 : ~uint64_t{0});
  return bits_const(dtype, 0);
}

Node substitute(const Node& expr, std::span<const std::pair<Node, Node>> replacements) {
  if (!expr || replacements.empty()) return expr;
  std::unordered_map<const void*, Node> result;
  for (const auto& [from, to] : replacements) {
    TENON_ASSERT(from && to && from.dtype() == to.dtype(), "substitute: dtypes differ");
    result.emplace(from.id(), to);
  }
  std::vector<Node> srcs;
  for (const Node& node : topological_order(std::span(&expr, 1))) {
    if (result.contains(node.id())) continue;
    srcs.clear();
    for (const Node& src : node.srcs())
      srcs.push_back(result.at(src.id()));
    result.emplace(node.id(), with_srcs(node, srcs));
  }
  return result.at(expr.id());
}

}  // namespace tenon
