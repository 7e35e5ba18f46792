// Vectors along two axes of ExprEmitter: what matrix units read, and stores side by side.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/codegen/emit_expr.h"

namespace tenon {
namespace {

// Odd: beside the even kinds of nodes.
constexpr int64_t kGroupedKind = 1;
constexpr int64_t kTileKind = 3;

}  // namespace

int ExprEmitter::number_of(const Node& own_axis) const {
  const auto own = std::ranges::find(own_axes_, own_axis);
  TENON_ASSERT(own != own_axes_.end(), "emit_linear: an axis of '", nest_.name,
               "' that the statement does not bind");
  return static_cast<int>(own - own_axes_.begin());
}

ValueId ExprEmitter::emit_along(const Node& expr, const Node& axis) {
  const int vec = std::exchange(vec_, number_of(axis));
  const ValueId value = widen(emit(expr), lanes());
  vec_ = vec;
  return value;
}

int64_t ExprEmitter::stride(const Node& index, const Node& own_axis) {
  analyse(index);
  const IndexForm& form = form_of(index);
  const int number = number_of(own_axis);
  const bool is_constant = (form.rest_axes >> number & 1U) == 0;
  return is_constant ? form.own[static_cast<size_t>(number)] : 0;
}

Address ExprEmitter::place_along(const Node& index, DType dtype, const Node& axis) {
  const int vec = std::exchange(vec_, number_of(axis));
  const Address at = place(index, dtype);
  vec_ = vec;
  return at;
}

ValueId ExprEmitter::emit_grouped(const Node& value, const Node& axis) {
  Node load = value;
  while (load.op() == Op::kBitcast)
    load = load.src(0);
  analyse(load);
  const int total = lanes() * static_cast<int>(axis_extent(axis));
  const int vec = std::exchange(vec_, number_of(axis));
  const Key key = key_of(load.id(), info(load).axes, kGroupedKind);
  ValueId result = find(key);
  if (result == kNoId) {
    const LoadParts parts = load_parts(load);
    const Address at = place(parts.index[0], load.dtype());
    const IndexForm& form = form_of(parts.index[0]);
    TENON_ASSERT(!parts.gated && at.kind == Address::Kind::kVector &&
                     form.own[static_cast<size_t>(vec)] == lanes(),
                 "emit_linear: an operand of a matrix unit of '", nest_.name,
                 "' does not lie as the unit reads it");
    result = this->load(value_type(load.dtype(), total), parts.buffer, at, kNoId, kNoId);
    if (value.dtype() != load.dtype()) result = builder_.bitcast(result, value.dtype());
    remember(key, info(load).life, result);
  }
  vec_ = vec;
  return result;
}

ExprEmitter::TilePlace ExprEmitter::tile_place(int buffer, const Node& index, const Node& row) {
  const Address at = place(index, nest_.buffers[static_cast<size_t>(buffer)].dtype);
  const LinearType type = value_type(index_);
  const ValueId offset = constant(type, static_cast<uint64_t>(at.offset));
  return {pointer(buffer), apply(Op::kAdd, at.index, offset),
          constant(type, static_cast<uint64_t>(stride(index, row)))};
}

ValueId ExprEmitter::emit_tile(const Node& value, const Node& row, int unit,
                               const LinearType& type) {
  Node load = value;
  while (load.op() == Op::kBitcast)
    load = load.src(0);
  analyse(load);
  const Key key = key_of(load.id(), info(load).axes, kTileKind);
  if (const ValueId known = find(key); known != kNoId) return known;
  const LoadParts parts = load_parts(load);
  const TilePlace at = tile_place(parts.buffer, parts.index[0], row);
  const ValueId result = builder_.append_value({.op = Op::kTileLoad, .type = type, .imm = unit},
                                               std::array{at.pointer, at.index, at.stride});
  remember(key, info(load).life, result);
  return result;
}

}  // namespace tenon
