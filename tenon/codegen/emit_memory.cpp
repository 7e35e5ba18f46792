// Addresses, gates, loads and registers of ExprEmitter. SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/codegen/emit_expr.h"
#include "tenon/codegen/emit_fold.h"

namespace tenon {
namespace {

constexpr int64_t kSumKind = 1;  // odd: beside the even kinds of nodes
constexpr int64_t kAnyKind = -3;

}  // namespace

// --- addresses -----------------------------------------------------------------------------------

IndexForm ExprEmitter::make_form(const AffineForm& affine) {
  IndexForm form;
  form.offset = affine.offset;
  form.own.assign(own_axes_.size(), 0);
  AffineForm rest;
  for (const AffineTerm& term : affine.terms) {
    const Node& axis = term.node.op() == Op::kCast ? term.node.src(0) : term.node;
    const auto own = std::ranges::find(own_axes_, axis);
    if (own != own_axes_.end()) {
      form.own[static_cast<size_t>(own - own_axes_.begin())] += term.coefficient;
      continue;
    }
    rest.terms.push_back(term);
    form.rest_axes |= info(term.node).axes;
    form.step = std::gcd(form.step, term.coefficient);
  }
  const IntRange range = bounds(rest, bounds_);
  const IntRange whole = dtype_range(index_);
  form.is_apart = range.is_bounded() && range.min >= whole.min && range.max <= whole.max;
  form.rest = std::move(rest.terms);
  std::ranges::stable_sort(form.rest, {},
                           [&](const AffineTerm& term) { return info(term.node).depth; });
  return form;
}

const IndexForm& ExprEmitter::form_of(const Node& index) {
  if (const auto found = forms_.find(index.id()); found != forms_.end()) return found->second;
  const auto affine = to_affine(index, order_);
  return forms_.emplace(index.id(), make_form(affine ? *affine : AffineForm{{{index, 1}}, 0}))
      .first->second;
}

int64_t ExprEmitter::constant_part(const IndexForm& form) const {
  int64_t part = form.offset;
  for (size_t axis = 0; axis < form.own.size(); ++axis) {
    if (static_cast<int>(axis) != vec_) part += form.own[axis] * point_[axis];
  }
  return part;
}

// The sum of `rest`, shared by all instances on whose coordinates it does not depend.
ValueId ExprEmitter::sum_of(const void* id, const IndexForm& form, DType dtype) {
  const Key key = key_of(id, form.rest_axes, kSumKind);
  if (const ValueId known = find(key); known != kNoId) return known;
  Life life = Life::kRegion;
  ValueId sum = kNoId;
  for (const bool is_vector : {false, true}) {
    for (const AffineTerm& term : form.rest) {
      const ValueId value = find(term.node);
      if ((lanes_of(value) > 1) != is_vector) continue;
      life = std::max(life, info(term.node).life);
      if (sum != kNoId && term.coefficient == -1) {
        sum = apply(Op::kSub, sum, value);
        continue;
      }
      const LinearType type = value_type(dtype);
      const ValueId scaled =
          term.coefficient == 1
              ? value
              : apply(Op::kMul, value, constant(type, static_cast<uint64_t>(term.coefficient)));
      sum = sum == kNoId ? scaled : apply(Op::kAdd, sum, scaled);
    }
  }
  if (sum == kNoId) sum = constant(value_type(dtype), 0);
  remember(key, life, sum);
  return sum;
}

// What the address of a vector is a multiple of, from coefficients and the aligned base; 0: no more
// than an element.
uint32_t ExprEmitter::alignment(const IndexForm& form, DType dtype) const {
  const int64_t elements = std::gcd(form.step, constant_part(form));
  const int64_t size = dtype_size_bytes(dtype);
  if (elements == 0) return static_cast<uint32_t>(kBaseAlignBytes);
  const auto power =
      static_cast<int64_t>(uint64_t{1} << std::countr_zero(static_cast<uint64_t>(elements)));
  const int64_t bytes = power >= kBaseAlignBytes ? kBaseAlignBytes : power * size;
  return bytes == size ? 0 : static_cast<uint32_t>(std::min(bytes, kBaseAlignBytes));
}

Address ExprEmitter::place(const Node& index, DType dtype) {
  analyse(index);
  for (const AffineTerm& term : form_of(index).rest)
    emit(term.node);
  return address(index, dtype);
}

// The terms were emitted.
Address ExprEmitter::address(const Node& index, DType dtype) {
  const IndexForm& form = form_of(index);
  const int64_t stride = vec_ < 0 ? 0 : form.own[static_cast<size_t>(vec_)];
  Address at;
  at.index = sum_of(index.id(), form, index_);
  at.offset = constant_part(form);
  const bool is_scattered = lanes_of(at.index) > 1 || (stride != 0 && stride != 1);
  if (!form.is_apart || is_scattered) {
    const auto offset = static_cast<uint64_t>(std::exchange(at.offset, 0));
    at.index = apply(Op::kAdd, at.index, constant(value_type(index_), offset));
  }
  if (is_scattered) {
    at.kind = Address::Kind::kScattered;
    const auto ramp = [&](ValueId base) {
      const ValueId step = constant(value_type(index_), static_cast<uint64_t>(stride));
      return builder_.ramp(base, step, lanes());
    };
    if (lanes_of(at.index) == 1) {
      at.index = ramp(at.index);
    } else if (stride != 0) {
      at.index = apply(Op::kAdd, at.index, ramp(constant(value_type(index_), 0)));
    }
  } else if (stride == 1) {
    at.kind = Address::Kind::kVector;
    at.align = alignment(form, dtype);
  }
  return at;
}

// --- gates ---------------------------------------------------------------------------------------

void ExprEmitter::narrow(Gate& gate, ValueId condition) {
  if (const auto known = scalar_bits(condition)) {
    gate.is_never = gate.is_never || *known == 0;
    return;
  }
  ValueId& part = lanes_of(condition) > 1 ? gate.mask : gate.scalar;
  part = part == kNoId ? condition : apply(Op::kAnd, part, condition);
}

ValueId ExprEmitter::whole(const Gate& gate) {
  if (gate.scalar == kNoId || gate.mask == kNoId) {
    return gate.scalar == kNoId ? gate.mask : gate.scalar;
  }
  return apply(Op::kAnd, gate.mask, gate.scalar);
}

ValueId ExprEmitter::any(const Gate& gate) {
  if (gate.mask == kNoId) return gate.scalar;
  const Key key{gate.mask, 0, kAnyKind};
  ValueId some = find(key);
  if (some == kNoId) {
    const InstId def = program_.values[gate.mask].def;
    if (def != kNoId && program_.insts[def].op == Op::kFirstN) {
      const ValueId count = program_.operands_of(program_.insts[def])[0];
      some = apply(Op::kLt, constant(program_.type_of(count), 0), count);
    } else {
      some = fold_lanes(builder_, Op::kOr, gate.mask, program_.type_of(gate.mask));
    }
    remember(key, Life::kRegion, some);
  }
  return gate.scalar == kNoId ? some : apply(Op::kAnd, gate.scalar, some);
}

// --- loads ---------------------------------------------------------------------------------------

ValueId ExprEmitter::load(const LinearType& type, int buffer, const Address& at, ValueId gate,
                          ValueId alt) {
  const ValueId from = pointer(buffer);
  if (gate == kNoId) return builder_.load(type, from, at.index, at.offset, at.align);
  return builder_.gated_load(type, from, at.index, gate, alt, at.offset, at.align);
}

// NOLINTNEXTLINE(misc-no-recursion): see emit
ValueId ExprEmitter::emit_load(const Node& load) {
  const LoadParts parts = load_parts(load);
  if (regs_.is_reg(parts.buffer)) return emit_reg_load(load);
  if (const int axis = transposed_axis(load); axis >= 0) return emit_transposed(load, axis);
  const LinearType scalar = value_type(load.dtype());
  const ValueId own = parts.gated ? find(parts.gate) : kNoId;
  Gate gate = is_guarded(load) ? guard_ : Gate{};
  if (own != kNoId) narrow(gate, own);
  const bool is_open = gate.scalar == kNoId && gate.mask == kNoId && !gate.is_never;
  const ValueId alt = parts.gated ? find(parts.alt) : is_open ? kNoId : constant(scalar, 0);
  if (gate.is_never) return alt;
  const Address at = address(parts.index[0], load.dtype());
  if (at.kind != Address::Kind::kScalar) {
    const LinearType type = value_type(load.dtype(), lanes());
    const ValueId wide = is_open ? kNoId : widen(alt, lanes());
    return this->load(type, parts.buffer, at, whole(gate), wide);
  }
  // One element for all lanes: touched if some lane wants it.
  const bool is_chosen_by_lane = own != kNoId && (lanes_of(own) > 1 || lanes_of(alt) > 1);
  const ValueId other = is_chosen_by_lane ? constant(scalar, 0) : alt;
  const ValueId value = this->load(scalar, parts.buffer, at, any(gate), other);
  return is_chosen_by_lane ? apply(Op::kWhere, std::array{own, value, alt}) : value;
}

// The own axis u of a load that is read in rows: contiguous along u, not along the vec axis, both
// of one power of two. -1: none.
int ExprEmitter::transposed_axis(const Node& load) {
  if (vec_ < 0 || info(load).life != Life::kComp) return -1;
  const LoadParts parts = load_parts(load);
  const IndexForm& form = form_of(parts.index[0]);
  const int64_t stride = form.own[static_cast<size_t>(vec_)];
  const auto size = static_cast<unsigned>(lanes());
  if (stride == 0 || stride == 1 || varies(form.rest_axes) || !std::has_single_bit(size)) return -1;
  const auto is_pure = [&](const Node& node) { return info(node).life == Life::kRegion; };
  if (parts.gated && !(is_pure(parts.gate) && is_pure(parts.alt))) return -1;
  if (!std::ranges::all_of(form.rest, is_pure, &AffineTerm::node)) return -1;
  for (size_t axis = 0; axis < form.own.size(); ++axis) {
    const bool is_row = static_cast<int>(axis) != vec_ && form.own[axis] == 1 &&
                        extents_[axis] == lanes() && (form.rest_axes >> axis & 1U) == 0;
    if (is_row) return static_cast<int>(axis);
  }
  return -1;
}

// Reads the square in rows, with the roles of the two axes exchanged, and shuffles it into columns,
// one for each point of `row_axis`.
// NOLINTNEXTLINE(misc-no-recursion): see emit
ValueId ExprEmitter::emit_transposed(const Node& load, int row_axis) {
  const int size = lanes();
  const int vec = std::exchange(vec_, row_axis);
  const std::vector<int64_t> point = point_;
  const Gate guard = guard_;
  std::vector<ValueId> rows;
  for (int row = 0; row < size; ++row) {
    point_[static_cast<size_t>(vec)] = row;
    update_guard();
    const LinearType type = value_type(load.dtype(), size);
    rows.push_back(guard_.is_never ? constant(type, 0) : widen(emit(load), size));
  }
  vec_ = vec;
  point_ = point;
  guard_ = guard;
  const std::vector<ValueId> columns = transpose_square(builder_, std::move(rows));
  for (int column = 0; column < size; ++column) {
    point_[static_cast<size_t>(row_axis)] = column;
    remember(key_of(load), Life::kComp, columns[static_cast<size_t>(column)]);
  }
  point_ = point;
  return find(load);
}

// --- registers -----------------------------------------------------------------------------------

int64_t ExprEmitter::reg_element(const Node& index) {
  const RegIndex& form = regs_.index(index);
  int64_t element = form.offset;
  for (const auto& [axis, coefficient] : form.terms) {
    const auto own = std::ranges::find(own_axes_, axis);
    TENON_ASSERT(own != own_axes_.end(), "emit_linear: a register buffer of '", nest_.name,
                 "' is indexed by a loop; expected unroll and vec axes of the statement");
    const auto number = own - own_axes_.begin();
    if (number != vec_) element += coefficient * point_[static_cast<size_t>(number)];
  }
  return element;
}

int64_t ExprEmitter::reg_stride(const Node& index) {
  return vec_ < 0 ? 0 : regs_.index(index).coefficient(own_axes_[static_cast<size_t>(vec_)]);
}

ValueId ExprEmitter::reg_vector(int buffer, int64_t element) {
  const auto where = [&] {
    return concat("emit_linear: element ", element, " of register buffer '",
                  nest_.buffers[static_cast<size_t>(buffer)].name, "' of '", nest_.name,
                  "' is read ");
  };
  TENON_ASSERT(element % regs_.width(buffer) == 0, where(), "as the first of a vector of ",
               regs_.width(buffer), " lanes, whose first elements are its multiples");
  const ValueId value = regs_.find(regs_.key(buffer, element));
  TENON_ASSERT(value != kNoId, where(), "before it is written");
  return value;
}

ValueId ExprEmitter::reg_scalar(int buffer, int64_t element) {
  const int64_t lane = element % regs_.width(buffer);
  const ValueId value = reg_vector(buffer, element - lane);
  return lanes_of(value) == 1 ? value : builder_.extract(value, static_cast<int>(lane));
}

ValueId ExprEmitter::emit_reg_load(const Node& load) {
  const LoadParts parts = load_parts(load);
  const int64_t element = reg_element(parts.index[0]);
  const bool is_vector = reg_stride(parts.index[0]) != 0;
  const ValueId value =
      is_vector ? reg_vector(parts.buffer, element) : reg_scalar(parts.buffer, element);
  if (!parts.gated) return value;
  return apply(Op::kWhere, std::array{find(parts.gate), value, find(parts.alt)});
}

}  // namespace tenon
