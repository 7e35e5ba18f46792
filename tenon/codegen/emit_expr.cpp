// The memo and the nodes; memory is in emit_memory.cpp. SPDX-License-Identifier: MIT

#include "tenon/codegen/emit_expr.h"

#include <algorithm>
#include <array>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

// Kinds of keys; nodes of a Comp with a vec axis that they depend on have 1 + its id.
constexpr int64_t kConstantKind = -1;
constexpr int64_t kSplatKind = -2;

}  // namespace

// --- the memo ------------------------------------------------------------------------------------

size_t ExprEmitter::KeyHash::operator()(const Key& key) const {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15U;
  uint64_t hash = key.what * kMix;
  hash = (hash ^ (hash >> 29) ^ key.point) * kMix;
  return (hash ^ (hash >> 29) ^ static_cast<uint64_t>(key.kind)) * kMix;
}

ExprEmitter::Key ExprEmitter::key_of(const void* id, uint64_t axes, int64_t kind) const {
  Key key{reinterpret_cast<uintptr_t>(id), 0, kind};
  if (axes == 0) return key;
  for (const size_t axis : by_id_) {
    if ((axes >> axis & 1U) == 0 || static_cast<int>(axis) == vec_) continue;
    key.point =
        key.point * static_cast<uint64_t>(extents_[axis]) + static_cast<uint64_t>(point_[axis]);
  }
  if (varies(axes)) key.kind += 2 * (1 + axis_id(own_axes_[static_cast<size_t>(vec_)]));
  return key;
}

ValueId ExprEmitter::find(const Key& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? kNoId : found->second;
}

void ExprEmitter::remember(const Key& key, Life life, ValueId value) {
  values_.emplace(key, value);
  Log& log = life == Life::kRegion ? region_log_ : life == Life::kComp ? comp_log_ : point_log_;
  log.push_back(key);
}

void ExprEmitter::forget(Log& log, size_t mark) {
  for (; log.size() > mark; log.pop_back())
    values_.erase(log.back());
}

ExprEmitter::Mark ExprEmitter::enter_region() {
  ++depth_;
  return region_log_.size();
}

void ExprEmitter::leave_region(Mark mark) {
  forget(region_log_, mark);
  --depth_;
}

void ExprEmitter::bind_axis(const Node& axis, ValueId value) {
  axes_[axis_id(axis)] = {value, depth_};
}

// --- the open Comp -------------------------------------------------------------------------------

void ExprEmitter::open(const Comp& comp, const std::vector<AxisUse>& axes) {
  TENON_ASSERT(axes.size() < 64, "emit_linear: a Comp of '", nest_.name, "' has ", axes.size(),
               " axes; expected fewer than 64");
  infos_.clear();
  forms_.clear();
  differences_.clear();
  comp_ = &comp;
  const Node vec = vec_axis_of(axes, nest_.name);
  for (const AxisUse& use : axes) {
    if (vec && use.axis == vec) vec_ = static_cast<int>(own_axes_.size());
    own_axes_.push_back(use.axis);
    extents_.push_back(axis_extent(use.axis));
    by_id_.push_back(by_id_.size());
  }
  std::ranges::sort(by_id_, {}, [&](size_t axis) { return axis_id(own_axes_[axis]); });
  point_.assign(own_axes_.size(), 0);
  guard_axes_ = 0;
  uint64_t guard_axes = 0;
  for (const Node& conjunct : comp.guard) {
    analyse(conjunct);
    guard_axes |= info(conjunct).axes;
  }
  guard_axes_ = guard_axes;
}

void ExprEmitter::close() {
  forget(comp_log_, 0);
  forget(point_log_, 0);
  comp_ = nullptr;
  own_axes_.clear();
  extents_.clear();
  by_id_.clear();
  point_.clear();
  vec_ = -1;
  guard_ = {};
  infos_.clear();
  forms_.clear();
  differences_.clear();
}

bool ExprEmitter::move_to(const std::vector<int64_t>& point) {
  forget(point_log_, 0);
  point_ = point;
  update_guard();
  return !guard_.is_never;
}

void ExprEmitter::update_guard() {
  guard_ = {};
  Gate gate;
  for (const Node& conjunct : comp_->guard)
    narrow(gate, emit(conjunct));
  guard_ = gate;
}

// True for loads that the guard must keep from touching memory that may not be there, or that
// nothing was written to.
bool ExprEmitter::is_guarded(const Node& load) {
  if (comp_ == nullptr || comp_->guard.empty()) return false;
  const LoadParts parts = load_parts(load);
  if (regs_.is_reg(parts.buffer)) return false;
  const BufferDecl& buffer = nest_.buffers[static_cast<size_t>(parts.buffer)];
  const IntRange range = bounds_.bounds(parts.index[0]);
  return buffer.access != BufferAccess::kIn || range.min < 0 ||
         range.max >= layout_num_elements(buffer);
}

ExprEmitter::Info ExprEmitter::info_of_load(const Node& load, Info info) {
  const bool is_own = comp_ == nullptr || load_parts(load).buffer == comp_->dst;
  info.life = std::max(info.life, is_own ? Life::kPoint : Life::kComp);
  info.depth = depth_;
  if (is_guarded(load)) info.axes |= guard_axes_;
  return info;
}

void ExprEmitter::analyse(const Node& root) {
  if (infos_.contains(root.id())) return;
  for (const Node& node : topological_order(std::span(&root, 1))) {
    if (infos_.contains(node.id())) continue;
    Info info;
    if (node.op() == Op::kAxis) {
      const auto own = std::ranges::find(own_axes_, node);
      if (own != own_axes_.end()) {
        info.axes = uint64_t{1} << (own - own_axes_.begin());
      } else {
        info.depth = axes_.at(axis_id(node)).second;
      }
    }
    for (const Node& src : node.srcs()) {
      const Info& of_src = this->info(src);
      info.axes |= of_src.axes;
      info.life = std::max(info.life, of_src.life);
      info.depth = std::max(info.depth, of_src.depth);
    }
    infos_.emplace(node.id(), node.op() == Op::kLoad ? info_of_load(node, info) : info);
  }
}

// --- values --------------------------------------------------------------------------------------

ValueId ExprEmitter::constant(const LinearType& type, uint64_t bits) {
  const auto where = static_cast<uint64_t>(type.dtype) << 16 | type.lanes;
  const Key key{bits, where, kConstantKind};
  if (const ValueId known = find(key); known != kNoId) return known;
  const ValueId value = builder_.constant(type, bits);
  remember(key, Life::kRegion, value);
  return value;
}

ValueId ExprEmitter::widen(ValueId value, int lanes) {
  if (lanes_of(value) == lanes) return value;
  if (const auto bits = scalar_bits(value)) {
    return constant(value_type(program_.type_of(value).dtype, lanes), *bits);
  }
  const Key key{value, static_cast<uint64_t>(lanes), kSplatKind};
  if (const ValueId known = find(key); known != kNoId) return known;
  const ValueId wide = builder_.splat(value, lanes);
  remember(key, Life::kRegion, wide);
  return wide;
}

std::optional<uint64_t> ExprEmitter::scalar_bits(ValueId value) const {
  const LinearValue& what = program_.values[value];
  if (what.def == kNoId || what.type.lanes != 1) return std::nullopt;
  const Inst& def = program_.insts[what.def];
  if (def.op != Op::kConst) return std::nullopt;
  return static_cast<uint64_t>(def.imm);
}

// Scalars of integers and bools: what is known of instances (their coordinates) goes at once.
std::optional<ValueId> ExprEmitter::folded(Op op, std::span<const ValueId> args) {
  const LinearType& type = program_.type_of(args.back());
  const bool is_exact = (is_int(type.dtype) || type.dtype == DType::kBool) && type.lanes == 1;
  if (!is_exact || !is_elementwise(op) || op == Op::kCast || op == Op::kBitcast) {
    return std::nullopt;
  }
  std::array<ScalarBits, kMaxScalarOperands> bits{};
  size_t num_known = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto known = scalar_bits(args[i]);
    if (known) bits[i] = *known;
    num_known += known ? 1 : 0;
  }
  if (num_known == args.size()) {
    const DType result = op_info(op).rule == DTypeRule::kCompare ? DType::kBool : type.dtype;
    return constant(value_type(result),
                    eval_op(op, type.dtype, std::span(bits).first(args.size())));
  }
  if (num_known != 1 || args.size() != 2) return std::nullopt;
  const size_t known = scalar_bits(args[0]) ? 0 : 1;
  const ValueId other = args[1 - known];
  if (op == Op::kAdd && bits[known] == 0 && type.dtype != DType::kBool) return other;
  if (op == Op::kMul && bits[known] == 1) return other;
  if (op == Op::kMul && bits[known] == 0) return args[known];
  return std::nullopt;
}

ValueId ExprEmitter::apply(Op op, std::span<const ValueId> args) {
  if (const auto known = folded(op, args)) return *known;
  int lanes = 1;
  for (const ValueId arg : args)
    lanes = std::max(lanes, lanes_of(arg));
  std::array<ValueId, kMaxScalarOperands> wide{};
  for (size_t i = 0; i < args.size(); ++i)
    wide[i] = widen(args[i], lanes);
  if (args.size() == 1) return builder_.unary(op, wide[0]);
  if (args.size() == 2) return builder_.binary(op, wide[0], wide[1]);
  if (args.size() == 3) return builder_.ternary(op, wide[0], wide[1], wide[2]);
  return builder_.append_value({.op = op, .type = program_.type_of(wide[0])},
                               std::span(wide).first(args.size()));
}

// --- nodes ---------------------------------------------------------------------------------------

// NOLINTNEXTLINE(misc-no-recursion): once more, for the rows of a transpose
ValueId ExprEmitter::emit(const Node& expr) {
  analyse(expr);
  std::vector<const Node*> stack{&expr};
  while (!stack.empty()) {
    const Node& node = *stack.back();
    const Key key = key_of(node);
    const size_t before = stack.size();
    if (find(key) == kNoId) push_missing(node, stack);
    if (stack.size() > before) continue;
    stack.pop_back();
    // The rows of a transpose remember their own columns.
    if (find(key) != kNoId) continue;
    const ValueId value = emit_node(node);
    if (find(key) == kNoId) remember(key, info(node).life, value);
  }
  const ValueId result = find(expr);
  if (comp_ == nullptr) forget(point_log_, 0);
  return result;
}

// The values that emit_node will ask for and that are not there yet, the first on top.
void ExprEmitter::push_missing(const Node& node, std::vector<const Node*>& stack) {
  const auto need = [&](const Node& source) {
    if (find(source) == kNoId) stack.push_back(&source);
  };
  const auto need_last = [&](size_t first) {
    for (size_t i = node.srcs().size(); i-- > first;)
      need(node.srcs()[i]);
  };
  const auto need_terms = [&](const IndexForm& form) {
    for (size_t i = form.rest.size(); i-- > 0;)
      need(form.rest[i].node);
  };
  if (node.op() == Op::kLoad) {
    const LoadParts parts = load_parts(node);
    need_last(parts.index.size());  // the gate and alt
    if (!regs_.is_reg(parts.buffer)) need_terms(form_of(parts.index[0]));
  } else if (decided(node)) {
    // A constant.
  } else if (const IndexForm* bound = bound_of(node)) {
    need_terms(*bound);
  } else {
    need_last(0);
  }
}

// NOLINTNEXTLINE(misc-no-recursion): see emit
ValueId ExprEmitter::emit_node(const Node& node) {
  if (node.op() == Op::kConst) return constant(value_type(node.dtype()), const_bits(node));
  if (node.op() == Op::kAxis) return emit_axis(node);
  if (node.op() == Op::kScalar) return scalars_.at(node.attr(0));
  if (node.op() == Op::kLoad) return emit_load(node);
  if (node.op() == Op::kCast) return emit_cast(node);
  if (node.op() == Op::kBitcast) return builder_.bitcast(find(node.src(0)), node.dtype());
  if (const auto known = decided(node)) return constant(value_type(DType::kBool), *known ? 1 : 0);
  if (const IndexForm* bound = bound_of(node)) return emit_first_n(node, *bound);
  TENON_ASSERT(has_level(node.op(), kLinearLevel), "emit_linear: '", op_name(node.op()),
               "' was not decomposed");
  std::array<ValueId, kMaxScalarOperands> args{};
  const size_t count = node.srcs().size();
  for (size_t i = 0; i < count; ++i)
    args[i] = find(node.src(i));
  return apply(node.op(), std::span(args).first(count));
}

ValueId ExprEmitter::emit_axis(const Node& axis) {
  const auto own = std::ranges::find(own_axes_, axis);
  if (own == own_axes_.end()) return axes_.at(axis_id(axis)).first;
  const auto number = own - own_axes_.begin();
  const LinearType type = value_type(index_);
  if (number != vec_) {
    return constant(type, static_cast<uint64_t>(point_[static_cast<size_t>(number)]));
  }
  return builder_.ramp(constant(type, 0), constant(type, 1), lanes());
}

ValueId ExprEmitter::emit_cast(const Node& node) {
  const ValueId value = find(node.src(0));
  const DType from = node.src(0).dtype() == DType::kIdx ? index_ : node.src(0).dtype();
  return from == node.dtype() ? value : builder_.cast(value, node.dtype());
}

// --- masks `position < bound` --------------------------------------------------------------------

// `a < b` as v < bound, `a <= b` as v < bound + 1, where v is the vec axis; null if it is not of
// that form or may wrap.
const IndexForm* ExprEmitter::bound_of(const Node& compare) {
  if (compare.op() != Op::kLt && compare.op() != Op::kLe) return nullptr;
  if (!varies(info(compare).axes)) return nullptr;
  const std::optional<IndexForm>& form = difference_of(compare);
  const bool is_bound =
      form && form->own[static_cast<size_t>(vec_)] == -1 && !varies(form->rest_axes);
  return is_bound ? &*form : nullptr;
}

// `b - a` of `a < b`, `b - a + 1` of `a <= b`: above 0 where the comparison is true. Nothing if one
// of them is not affine or may wrap.
const std::optional<IndexForm>& ExprEmitter::difference_of(const Node& compare) {
  const auto found = differences_.find(compare.id());
  if (found != differences_.end()) return found->second;
  return differences_.emplace(compare.id(), find_difference(compare)).first->second;
}

std::optional<IndexForm> ExprEmitter::find_difference(const Node& compare) {
  const DType dtype = compare.src(0).dtype();
  if (dtype != DType::kI32 && dtype != DType::kI64) return std::nullopt;
  const auto left = to_affine(compare.src(0), order_);
  const auto right = to_affine(compare.src(1), order_);
  if (!left || !right) return std::nullopt;
  auto difference = add_scaled(*right, *left, -1, order_);
  if (!difference) return std::nullopt;
  if (compare.op() == Op::kLe) {
    if (difference->offset == INT64_MAX) return std::nullopt;
    ++difference->offset;
  }
  // The bound is the difference plus v, of at most 64 lanes.
  const IntRange whole = dtype_range(compare.src(0).dtype());
  const IntRange bound = add(bounds(*difference, bounds_), {0, kMaxVectorLanes});
  for (const IntRange& range : {bounds(*left, bounds_), bounds(*right, bounds_), bound}) {
    if (!range.is_bounded() || range.min < whole.min || range.max > whole.max) return std::nullopt;
  }
  return make_form(*difference);
}

// What a comparison of positions is in all lanes of this point, wherever outer loops, groups and
// lanes are.
std::optional<bool> ExprEmitter::decided(const Node& node) {
  if (node.op() != Op::kLt && node.op() != Op::kLe) return std::nullopt;
  const std::optional<IndexForm>& form = difference_of(node);
  if (!form || form->rest_axes != 0) return std::nullopt;
  const int64_t part = constant_part(*form);
  IntRange range{part, part};
  if (vec_ >= 0) {
    const int64_t step = form->own[static_cast<size_t>(vec_)];
    range = add(range, mul({step, step}, {0, lanes() - 1}));
  }
  for (const AffineTerm& term : form->rest)
    range = add(range, mul({term.coefficient, term.coefficient}, bounds_.bounds(term.node)));
  if (range.min > 0) return true;
  if (range.max <= 0) return false;
  return std::nullopt;
}

ValueId ExprEmitter::emit_first_n(const Node& compare, const IndexForm& bound) {
  const LinearType type = value_type(compare.src(0).dtype());
  const ValueId part = constant(type, static_cast<uint64_t>(constant_part(bound)));
  const ValueId count = apply(Op::kAdd, sum_of(compare.id(), bound, type.dtype), part);
  const auto known = scalar_bits(count);
  if (!known) return builder_.first_n(count, lanes());
  const auto number = static_cast<int64_t>(*known);
  if (number <= 0 || number >= lanes()) return constant(value_type(DType::kBool), number > 0);
  return builder_.first_n(count, lanes());
}

}  // namespace tenon
