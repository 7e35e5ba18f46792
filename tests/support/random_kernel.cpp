// The generator of random kernels. It keeps beside each value a bound of its magnitude, and takes
// only steps after which integers in floats are still exact. SPDX-License-Identifier: MIT

#include "tests/support/random_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <random>
#include <set>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear.h"

namespace tenon::test {
namespace {

constexpr int64_t kSmall = 4;  // inputs are in -4..4
constexpr int64_t kGuardBytes = 64;
constexpr std::byte kGuard{0xc3};
constexpr std::byte kPoison{0x9d};

struct Value {
  Node node;
  double max_abs = 0;
};

// Up to here a float holds every integer; an integer dtype wraps.
double limit_of(DType dtype) {
  if (is_float(dtype)) return std::ldexp(1.0, float_format(dtype).mantissa_bits + 1);
  return dtype == DType::kBool ? 1 : std::ldexp(1.0, dtype_bits(dtype));
}

class Generator {
 public:
  explicit Generator(uint64_t seed)
      : random_(seed * 0x9e3779b97f4a7c15U + 1),
        has_long_axis_(seed % 5 == 4),
        is_product_(seed % 8 == 6) {}

  Kernel run() {
    kernel_.name = "random";
    if (is_product_) {
      add_product_kernel();
    } else {
      add_any_kernel();
    }
    Kernel result = renumber_axes(kernel_);
    for (size_t i = 0; i < result.axis_names.size(); ++i)
      result.axis_names[i] = concat("d", i);
    return result;
  }

 private:
  size_t below(size_t bound) { return random_() % bound; }
  int64_t small(size_t bound) { return static_cast<int64_t>(below(bound)); }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }

  int64_t extent() { return pick<int64_t>({2, 3, 5, 7, 8, 11, 13}); }
  // Vectors of 16 lanes and a tail.
  int64_t long_extent() { return pick<int64_t>({17, 33, 100}); }

  void add_output(DType dtype) {
    BufferDecl out{.name = "b0", .dtype = dtype, .dims = out_dims_};
    out.access = BufferAccess::kOut;
    out.scope = Scope::kGlobal;
    kernel_.add_buffer(out);
  }

  void add_any_kernel() {
    const bool is_small = below(2) == 0;
    const size_t rank = 1 + below(is_small || has_long_axis_ ? 2 : 3);
    // Rank 3 stays small, and so does what lies beside a long axis: a plan may compute a producer
    // once for each group.
    for (size_t i = 0; i < rank; ++i)
      out_dims_.push_back(rank < 3 && !has_long_axis_ ? extent() : 2 + extent() % 3);
    if (rank > 1 && below(8) == 0) out_dims_[has_long_axis_ ? 0 : below(rank)] = 1;
    if (has_long_axis_) {
      is_long_axis_red_ = below(3) == 0;
      if (!is_long_axis_red_) out_dims_.back() = long_extent();
    }
    main_dtype_ = any_dtype();
    const DType dtype = any_dtype();
    add_output(dtype);
    const size_t num_inputs = 1 + below(3);
    for (size_t i = 0; i < num_inputs; ++i)
      add_input(i);
    const size_t num_tmps = is_small ? below(2) : below(4);
    for (size_t i = 0; i < num_tmps; ++i)
      add_tmp(i);
    add_root(dtype, num_tmps == 0 && below(4) == 0);
  }

  // What matrix units take: t[.., i, j] += wide(a[.., i, k]) * wide(b[.., k, j]), dims of the
  // operands in any order; then something elementwise that reads t.
  void add_product_kernel() {
    const bool is_halves = below(2) == 0;
    const DType acc = is_halves ? DType::kF32 : DType::kI32;
    const DType of_a = is_halves ? DType::kBF16 : pick({DType::kI8, DType::kU8});
    const DType of_b = is_halves ? DType::kBF16 : DType::kI8;
    const DType out = is_halves ? pick({acc, acc, DType::kF64, DType::kF16})
                                : pick({acc, acc, DType::kI8, DType::kF32});
    main_dtype_ = acc;
    const int64_t depth = 1 + small(12);
    out_dims_ = {2 + small(10), has_long_axis_ ? long_extent() : 4 + small(32)};
    if (below(4) == 0) out_dims_.insert(out_dims_.begin(), 2);
    add_output(out);
    Comp comp = open_comp(-1);
    const Node k = new_axis(depth, AxisKind::kRed, comp.axes);
    if (below(2) == 0) std::shuffle(comp.axes.begin(), comp.axes.end(), random_);
    const size_t rank = out_dims_.size();
    const Node a = make_cast(add_factor(0, of_a, par_axes_[rank - 2], k), acc);
    const Node b = make_cast(add_factor(1, of_b, par_axes_[rank - 1], k), acc);
    comp.value = below(2) == 0 ? make_expr(Op::kMul, a, b) : make_expr(Op::kMul, b, a);
    comp.combine = Op::kAdd;
    comp.start = identity_of(Op::kAdd, acc);
    add_input(2);
    comp.dst = kernel_.add_buffer({.name = "t0", .dtype = acc, .dims = out_dims_});
    tmps_.push_back(comp.dst);
    kernel_.body.push_back(Stmt{std::move(comp)});
    const auto most = static_cast<double>(kSmall * kSmall * depth);
    tmp_max_abs_.push_back(is_halves ? most : limit_of(acc));
    Comp root = open_comp(0);
    Value value = *converted(read_tmp(0), out);
    if (below(3) != 0) value = binary(value, expression(out, 1, false));
    root.value = value.node;
    kernel_.body.push_back(Stmt{std::move(root)});
  }

  // An operand of a product with its element at the par axes but for one side, that side, and k;
  // behind a gate now and then.
  Node add_factor(size_t number, DType dtype, const Node& side, const Node& k) {
    std::vector<Node> index{side, k};
    if (below(2) == 0) std::swap(index[0], index[1]);
    if (out_dims_.size() == 3 && below(3) != 0) index.insert(index.begin(), par_axes_[0]);
    Shape dims;
    for (const Node& axis : index)
      dims.push_back(axis_extent(axis));
    const bool is_wide = !is_float(dtype) && below(3) == 0;
    BufferDecl decl{.name = concat(is_wide ? "w" : "b", number + 1), .dtype = dtype, .dims = dims};
    decl.access = BufferAccess::kIn;
    decl.scope = Scope::kGlobal;
    inputs_.push_back(kernel_.add_buffer(decl));
    max_abs_.push_back(is_wide || is_unsigned_int(dtype) ? limit_of(dtype) : kSmall);
    if (below(4) != 0) return make_load(inputs_.back(), dtype, index);
    const Node& gated = below(2) == 0 ? side : k;
    const Node gate = make_expr(Op::kLt, gated, idx_const(axis_extent(gated) - 1));
    return make_gated_load(inputs_.back(), dtype, index, gate, int_const(dtype, 0));
  }

  // A kernel is mostly of one dtype.
  DType any_dtype() {
    if (kernel_.buffers.size() > 1 && below(2) == 0) return main_dtype_;
    return pick({DType::kF32, DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI8,
                 DType::kI16, DType::kI32, DType::kI32, DType::kI64, DType::kU8, DType::kU16,
                 DType::kU32, DType::kU64, DType::kBool});
  }

  Node new_axis(int64_t size, AxisKind kind, std::vector<AxisUse>& axes) {
    const Node axis = kernel_.add_axis("", size, kind);
    axes.push_back({axis, Role::kNone, 0});
    return axis;
  }

  void add_input(size_t number) {
    Shape dims;
    const size_t rank = 1 + below(3);
    for (size_t i = 0; i < rank; ++i)
      dims.push_back(extent());
    if (has_long_axis_ && below(2) == 0) dims.back() = long_extent();
    const DType dtype = any_dtype();
    const bool is_wide = !is_float(dtype) && below(3) == 0;
    BufferDecl decl{
        .name = concat(is_wide ? "w" : "b", number + 1), .dtype = dtype, .dims = std::move(dims)};
    decl.access = BufferAccess::kIn;
    decl.scope = Scope::kGlobal;
    inputs_.push_back(kernel_.add_buffer(decl));
    const bool is_exact = !is_wide && !is_unsigned_int(dtype);
    max_abs_.push_back(is_exact ? kSmall : limit_of(dtype));
  }

  // --- statements --------------------------------------------------------------------------------

  // A Comp over fresh par axes, one for each dim of the output.
  Comp open_comp(int dst) {
    Comp comp;
    comp.dst = dst;
    par_axes_.clear();
    red_axes_.clear();
    for (int64_t dim : out_dims_) {
      par_axes_.push_back(dim == 1 ? idx_const(0) : new_axis(dim, AxisKind::kPar, comp.axes));
    }
    comp.index = par_axes_;
    return comp;
  }

  // What it writes has the dims of the output, or lacks the last one and is read along a row.
  void add_tmp(size_t number) {
    const DType dtype = any_dtype();
    BufferDecl tmp{.name = concat("t", number), .dtype = dtype, .dims = out_dims_};
    const bool is_row = out_dims_.size() > 1 && out_dims_.back() > 1 && below(4) == 0;
    if (is_row) tmp.dims.back() = 1;
    const int buffer = kernel_.add_buffer(tmp);
    Comp comp = open_comp(buffer);
    if (is_row) {
      comp.index.back() = idx_const(0);
      comp.axes.pop_back();
      par_axes_.back() = idx_const(0);
    }
    const bool reads_tmps = !tmps_.empty() && below(3) == 0;
    Value value;
    if (is_row || below(4) != 0) {
      value = add_reduction(comp, dtype, reads_tmps);
    } else {
      value = expression(dtype, 2, reads_tmps);
    }
    comp.value = value.node;
    kernel_.body.push_back(Stmt{std::move(comp)});
    tmps_.push_back(buffer);
    tmp_max_abs_.push_back(value.max_abs);
  }

  // Red axes, their operator and guard, and what is combined; the result's bound.
  Value add_reduction(Comp& comp, DType dtype, bool reads_tmps) {
    const size_t num_red = 1 + (has_long_axis_ ? 0 : below(2));
    int64_t count = 1;
    for (size_t i = 0; i < num_red; ++i) {
      const int64_t size = has_long_axis_ && is_long_axis_red_ ? long_extent() : 2 + extent() % 5;
      red_axes_.push_back(new_axis(size, AxisKind::kRed, comp.axes));
      count *= axis_extent(red_axes_.back());
    }
    if (below(2) == 0) std::shuffle(comp.axes.begin(), comp.axes.end(), random_);
    Value value = expression(dtype, 2, reads_tmps);
    const double sum = value.max_abs * static_cast<double>(count);
    if (dtype == DType::kBool) {
      comp.combine = pick({Op::kAnd, Op::kOr, Op::kMax, Op::kMin});
    } else if (is_float(dtype)) {
      const bool may_add = sum <= limit_of(dtype);
      comp.combine =
          may_add ? pick({Op::kAdd, Op::kAdd, Op::kMax, Op::kMin}) : pick({Op::kMax, Op::kMin});
      if (comp.combine == Op::kAdd) value.max_abs = sum;
    } else {
      comp.combine = pick({Op::kAdd, Op::kAdd, Op::kMul, Op::kMax, Op::kMin, Op::kAnd, Op::kOr});
      value.max_abs = limit_of(dtype);
    }
    comp.start = identity_of(*comp.combine, dtype);
    // Each conjunct uses a red axis, so that every element has a start; it may have nothing else.
    if (below(5) == 0) {
      const Node red = red_axes_[below(red_axes_.size())];
      const Node limit = below(2) == 0 ? idx_const(small(5)) : any_index(any_axis());
      comp.guard.push_back(below(2) == 0 ? make_expr(Op::kLt, red, limit)
                                         : make_expr(Op::kLt, limit, red));
      if (is_float(dtype) && *comp.combine != Op::kAdd) value.max_abs = HUGE_VAL;
    }
    return value;
  }

  void add_root(DType dtype, bool is_reduction) {
    Comp root = open_comp(0);
    if (is_reduction) {
      root.value = add_reduction(root, dtype, false).node;
    } else {
      root.value = expression(dtype, 3, true).node;
      if (below(6) == 0) {
        const Node point = below(2) == 0 ? any_axis() : any_index(any_axis());
        root.guard.push_back(make_expr(Op::kLt, point, idx_const(1 + small(8))));
      }
    }
    kernel_.body.push_back(Stmt{std::move(root)});
  }

  // --- values ------------------------------------------------------------------------------------

  Value constant(DType dtype) {
    const int64_t number = dtype == DType::kBool ? small(2) : small(8) - 3;
    const bool wraps = number < 0 && is_unsigned_int(dtype);
    return {int_const(dtype, number),
            wraps ? limit_of(dtype) : std::fabs(static_cast<double>(number))};
  }

  // NOLINTNEXTLINE(misc-no-recursion): depth is a small argument
  Value expression(DType dtype, int depth, bool with_tmps) {
    if (with_tmps && !tmps_.empty() && below(3) == 0) {
      const size_t tmp = below(tmps_.size());
      if (const auto value = converted(read_tmp(tmp), dtype)) return *value;
    }
    if (depth == 0 || below(6) == 0) return leaf(dtype);
    if (below(7) == 0) return converted_expression(dtype, depth - 1, with_tmps);
    const Value a = expression(dtype, depth - 1, with_tmps);
    if (below(6) == 0) return unary(a);
    const Value b = expression(dtype, depth - 1, with_tmps);
    if (below(5) == 0) {
      return {make_expr(Op::kWhere, condition(depth - 1, with_tmps), a.node, b.node),
              std::max(a.max_abs, b.max_abs)};
    }
    return binary(a, b);
  }

  // NOLINTNEXTLINE(misc-no-recursion): depth is a small argument
  Value converted_expression(DType dtype, int depth, bool with_tmps) {
    if (dtype == DType::kBool) return {condition(depth, with_tmps), 1};
    const Value other = expression(any_dtype(), depth, with_tmps);
    const bool is_bits = !is_float(dtype) && other.node.dtype() != DType::kBool &&
                         dtype_bits(other.node.dtype()) == dtype_bits(dtype) && below(2) == 0;
    if (is_bits) return {make_bitcast(other.node, dtype), limit_of(dtype)};
    return converted(other, dtype).value_or(leaf(dtype));
  }

  // Nothing if a float would not hold it.
  std::optional<Value> converted(const Value& value, DType dtype) {
    const DType from = value.node.dtype();
    if (from == dtype) return value;
    if (!is_float(dtype)) {
      const bool wraps = is_unsigned_int(dtype) || value.max_abs > limit_of(dtype) / 2;
      return Value{make_cast(value.node, dtype), wraps ? limit_of(dtype) : value.max_abs};
    }
    if (value.max_abs * 4 <= limit_of(dtype))
      return Value{make_cast(value.node, dtype), value.max_abs};
    if (is_float(from)) return std::nullopt;
    const Node bound = int_const(from, 7);
    const Op op = pick({Op::kFloorMod, Op::kMod});
    return Value{make_cast(make_expr(op, value.node, bound), dtype), 7};
  }

  Value unary(const Value& a) {
    const DType dtype = a.node.dtype();
    if (dtype == DType::kBool) return {make_expr(Op::kNot, a.node), 1};
    if (is_float(dtype)) {
      const Op op = pick({Op::kNeg, Op::kAbs, Op::kTrunc, Op::kFloor, Op::kCeil, Op::kRound});
      return {make_expr(op, a.node), a.max_abs};
    }
    return {make_expr(pick({Op::kNeg, Op::kAbs, Op::kNot}), a.node), limit_of(dtype)};
  }

  Value binary(const Value& a, const Value& b) {
    const DType dtype = a.node.dtype();
    const double larger = std::max(a.max_abs, b.max_abs);
    if (dtype == DType::kBool) {
      const Op op = pick(
          {Op::kAnd, Op::kOr, Op::kXor, Op::kMax, Op::kMin, Op::kEq, Op::kNe, Op::kLt, Op::kLe});
      return {make_expr(op, a.node, b.node), 1};
    }
    if (is_float(dtype)) {
      const Op op = pick({Op::kAdd, Op::kSub, Op::kMul, Op::kMax, Op::kMin});
      const double product = a.max_abs * b.max_abs;
      const double bound = op == Op::kMul ? product : a.max_abs + b.max_abs;
      if (op == Op::kMax || op == Op::kMin || bound > limit_of(dtype) / 8) {
        return {make_expr(op == Op::kMin ? Op::kMin : Op::kMax, a.node, b.node), larger};
      }
      return {make_expr(op, a.node, b.node), bound};
    }
    const Op op = pick({Op::kAdd, Op::kSub, Op::kMul, Op::kMax, Op::kMin, Op::kDiv, Op::kMod,
                        Op::kFloorDiv, Op::kFloorDiv, Op::kFloorMod, Op::kFloorMod, Op::kAnd,
                        Op::kOr, Op::kXor, Op::kShl, Op::kShr});
    // Amounts and divisors are constants now and then, as indices have them.
    const bool by_constant = (op == Op::kDiv || op == Op::kMod || op == Op::kFloorDiv ||
                              op == Op::kFloorMod || op == Op::kShl || op == Op::kShr) &&
                             below(2) == 0;
    return {make_expr(op, a.node, by_constant ? constant(dtype).node : b.node), limit_of(dtype)};
  }

  Value leaf(DType dtype) {
    if (below(8) == 0) return constant(dtype);
    if (below(8) == 0) {
      const Node index = below(2) == 0 ? any_axis() : any_index(any_axis());
      const double bound = is_unsigned_int(dtype) ? limit_of(dtype) : has_long_axis_ ? 512 : 64;
      const bool is_exact = !is_float(dtype) || bound <= limit_of(dtype);
      if (dtype != DType::kBool && is_exact) return {make_cast(index, dtype), bound};
    }
    for (size_t attempt = 0; attempt < 3; ++attempt) {
      const size_t number = below(inputs_.size());
      if (buffer(inputs_[number]).dtype != dtype && attempt < 2) continue;
      if (const auto value = converted(read_input(number), dtype)) return *value;
    }
    return constant(dtype);
  }

  Node any_axis() {
    std::vector<Node> axes;
    for (const Node& axis : par_axes_) {
      if (!is_const(axis)) axes.push_back(axis);
    }
    axes.insert(axes.end(), red_axes_.begin(), red_axes_.end());
    return axes.empty() ? idx_const(0) : axes[below(axes.size())];
  }

  // NOLINTNEXTLINE(misc-no-recursion): depth is a small argument
  Node condition(int depth, bool with_tmps) {
    if (below(2) == 0) {
      const Node limit = idx_const(small(9));
      return make_expr(pick({Op::kLt, Op::kLe, Op::kEq, Op::kNe}), any_index(any_axis()), limit);
    }
    const DType dtype = any_dtype();
    const int inner = std::max(depth - 1, 0);
    const Node a = expression(dtype, inner, with_tmps).node;
    const Node b = expression(dtype, inner, with_tmps).node;
    return make_expr(pick({Op::kLt, Op::kLe, Op::kEq, Op::kNe}), a, b);
  }

  const BufferDecl& buffer(int number) const {
    return kernel_.buffers[static_cast<size_t>(number)];
  }

  Value read_tmp(size_t number) {
    const BufferDecl& tmp = buffer(tmps_[number]);
    std::vector<Node> index = par_axes_;
    if (tmp.dims.back() == 1) index.back() = idx_const(0);
    return {make_load(tmps_[number], tmp.dtype, index), tmp_max_abs_[number]};
  }

  // --- indices -----------------------------------------------------------------------------------

  // Of any sign.
  Node any_index(const Node& axis) {
    if (has_long_axis_ && below(2) == 0) return axis;
    const Node step = idx_const(1 + small(4));
    switch (below(7)) {
      case 0: return make_expr(Op::kAdd, make_expr(Op::kMul, axis, idx_const(2)), any_axis());
      case 1: return make_expr(Op::kSub, axis, idx_const(small(3)));
      case 2: return make_expr(Op::kSub, idx_const(small(13)), axis);
      case 3: return make_expr(Op::kFloorDiv, axis, step);
      case 4: return make_expr(Op::kFloorMod, make_expr(Op::kSub, any_axis(), axis), step);
      case 5: return make_expr(Op::kFloorDiv, make_expr(Op::kSub, any_axis(), axis), step);
      default: return axis;
    }
  }

  // A loaded number as an index: an element of an input of small integers, if there is one.
  Node loaded_index() {
    for (const int input : inputs_) {
      const BufferDecl& decl = buffer(input);
      if (!is_int(decl.dtype) || dtype_bits(decl.dtype) > 32) continue;
      std::vector<Node> index;
      for (const int64_t dim : decl.dims)
        index.push_back(make_expr(Op::kFloorMod, any_axis(), idx_const(dim)));
      return make_cast(make_load(input, decl.dtype, index), DType::kIdx);
    }
    return any_axis();
  }

  // An index of a random form, then wrapped, clamped or gated into its dim.
  Value read_input(size_t number) {
    const int input = inputs_[number];
    const DType dtype = buffer(input).dtype;
    std::vector<Node> index;
    Node gate;
    for (const int64_t dim : buffer(input).dims) {
      Node at = below(16) == 0 ? loaded_index() : any_index(any_axis());
      if (below(2) == 0) {
        at = make_expr(Op::kFloorMod, at, idx_const(dim));
      } else if (below(2) == 0) {
        at = make_expr(Op::kMax, idx_const(0), make_expr(Op::kMin, at, idx_const(dim - 1)));
      } else {
        const Node inside = make_expr(Op::kAnd, make_expr(Op::kLe, idx_const(0), at),
                                      make_expr(Op::kLt, at, idx_const(dim)));
        gate = gate ? make_expr(Op::kAnd, gate, inside) : inside;
      }
      index.push_back(at);
    }
    if (!gate) return {make_load(input, dtype, index), max_abs_[number]};
    const Node outside = int_const(dtype, small(2));
    return {make_gated_load(input, dtype, index, gate, outside), max_abs_[number]};
  }

  std::mt19937_64 random_;
  const bool has_long_axis_;
  const bool is_product_;
  bool is_long_axis_red_ = false;
  Kernel kernel_;
  DType main_dtype_ = DType::kF32;
  Shape out_dims_;
  std::vector<int> inputs_;
  std::vector<double> max_abs_;  // of inputs_
  std::vector<int> tmps_;
  std::vector<double> tmp_max_abs_;
  std::vector<Node> par_axes_;
  std::vector<Node> red_axes_;
};

std::string feature_of(const Node& node) {
  const Op op = node.op();
  if (node.dtype() == DType::kIdx) return op == Op::kCast ? "a loaded index" : "";
  if (op == Op::kCast || op == Op::kBitcast) return "a cast";
  if (op == Op::kDiv || op == Op::kMod || op == Op::kFloorDiv || op == Op::kFloorMod)
    return "a division";
  if (op == Op::kShl || op == Op::kShr) return "a shift";
  if (op == Op::kAnd || op == Op::kOr || op == Op::kXor || op == Op::kNot)
    return node.dtype() == DType::kBool ? "logic" : "bits";
  return op == Op::kLoad && load_parts(node).gated ? "a gate" : "";
}

}  // namespace

Kernel random_kernel(uint64_t seed) {
  return Generator(seed).run();
}

bool has_long_axis(const Kernel& kernel) {
  return std::ranges::any_of(kernel.body, [](const Stmt& stmt) {
    const auto is_long = [](const AxisUse& use) { return axis_extent(use.axis) > 16; };
    return std::ranges::any_of(std::get<Comp>(stmt.node).axes, is_long);
  });
}

void KernelTally::add(const Kernel& kernel) {
  std::set<std::string> features;
  if (kernel.body.size() > 1) features.insert("several comps");
  if (has_long_axis(kernel)) features.insert("a long axis");
  for (const BufferDecl& buffer : kernel.buffers)
    features.insert(std::string(dtype_name(buffer.dtype)));
  for (const Stmt& stmt : kernel.body) {
    const Comp& comp = std::get<Comp>(stmt.node);
    if (comp.combine) features.insert("a reduce");
    if (!comp.guard.empty()) features.insert("a guard");
    for (const Node& node : topological_order({&comp.value, 1}))
      features.insert(feature_of(node));
  }
  features.erase("");
  ++num_kernels_;
  for (const std::string& feature : features)
    ++counts_[feature];
}

int KernelTally::share(const std::string& feature) const {
  const auto found = counts_.find(feature);
  return found == counts_.end() ? 0 : found->second * 100 / std::max(num_kernels_, 1);
}

std::string KernelTally::to_text() const {
  std::string text = concat(num_kernels_, " kernels; percent with");
  for (const auto& [feature, count] : counts_)
    append(text, " ", feature, " ", share(feature), ",");
  text.back() = '\n';
  return text;
}

KernelMemory::KernelMemory(const Kernel& kernel, uint64_t seed) {
  std::mt19937_64 random(seed + 17);
  for (const BufferDecl& buffer : kernel.buffers) {
    if (buffer.access == BufferAccess::kTmp) continue;
    Block block;
    const int64_t width = dtype_size_bytes(buffer.dtype);
    const int64_t count = layout_num_elements(buffer);
    block.size = count * width;
    block.is_output = buffer.access == BufferAccess::kOut;
    block.bytes.assign(static_cast<size_t>(block.size + 2 * kGuardBytes + kBaseAlignBytes), kGuard);
    const auto address = reinterpret_cast<uintptr_t>(block.bytes.data() + kGuardBytes);
    block.begin = kGuardBytes + static_cast<int64_t>(-address % uintptr_t{kBaseAlignBytes});
    if (!block.is_output) {
      for (int64_t i = 0; i < count; ++i) {
        const auto code = static_cast<uint64_t>(i) * 7 + random() % 3;
        const auto value = buffer.name.starts_with("w")
                               ? static_cast<int64_t>(code * 0x9e3779b97f4a7c15U)
                               : static_cast<int64_t>(code % 9) - kSmall;
        const uint64_t bits = eval_cast(static_cast<uint64_t>(value), DType::kI64, buffer.dtype);
        std::memcpy(block.bytes.data() + block.begin + i * width, &bits,
                    static_cast<size_t>(width));
      }
    }
    blocks_.push_back(std::move(block));
  }
  reset();
}

void KernelMemory::reset() {
  for (Block& block : blocks_) {
    if (!block.is_output) continue;
    std::fill_n(block.bytes.begin() + block.begin, block.size, kPoison);
  }
}

void KernelMemory::fill(size_t parameter, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, blocks_[parameter].bytes.begin() + blocks_[parameter].begin);
}

std::vector<KernelArgument> KernelMemory::kernel_arguments() {
  std::vector<KernelArgument> arguments;
  for (Block& block : blocks_) {
    arguments.push_back({.data = block.bytes.data() + block.begin, .size_bytes = block.size});
  }
  return arguments;
}

std::vector<ArgumentValue> KernelMemory::program_arguments(const Signature& signature) {
  TENON_ASSERT(signature.arguments.size() == blocks_.size(),
               "random kernel: ", signature.arguments.size(), " arguments for ", blocks_.size(),
               " buffers");
  std::vector<ArgumentValue> values;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    values.push_back({.is_buffer = true,
                      .dtype = signature.arguments[i].dtype,
                      .address = blocks_[i].bytes.data() + blocks_[i].begin,
                      .size_bytes = blocks_[i].size});
  }
  return values;
}

std::vector<std::byte> KernelMemory::outputs() const {
  std::vector<std::byte> bytes;
  for (const Block& block : blocks_) {
    if (!block.is_output) continue;
    const auto begin = block.bytes.begin() + block.begin;
    bytes.insert(bytes.end(), begin, begin + block.size);
  }
  return bytes;
}

std::string KernelMemory::guard_finding() const {
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto& bytes = blocks_[i].bytes;
    const auto is_guard = [](std::byte b) { return b == kGuard; };
    const auto begin = bytes.begin() + blocks_[i].begin;
    if (!std::all_of(bytes.begin(), begin, is_guard) ||
        !std::all_of(begin + blocks_[i].size, bytes.end(), is_guard)) {
      return concat("the guard zone of buffer ", i, " was written");
    }
  }
  return "";
}

}  // namespace tenon::test
