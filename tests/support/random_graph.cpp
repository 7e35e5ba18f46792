// The generator of random graphs. It keeps beside each value a bound of its magnitude and whether
// its bits are sure, and takes only steps that stay exact (or finite). SPDX-License-Identifier: MIT

#include "tests/support/random_graph.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tenon/base/text.h"
#include "tenon/ir/eval_op.h"
#include "tests/support/random.h"
#include "tests/support/spread_estimate.h"

namespace tenon::testing {
namespace {

struct Value {
  Node node;
  double max_abs = 0;     // of floats, and of integers that are known to be small
  bool is_exact = true;   // bit-equal on every device
  bool is_risky = false;  // the oracle may have to exclude elements
  DType dtype() const { return node.dtype(); }
  Shape shape() const { return Shape(node.shape().begin(), node.shape().end()); }
};

constexpr double kSmall = 15;  // range of the inputs that may be multiplied often
constexpr int kMaxAttempts = 5;
constexpr int64_t kAnyStepPercent = 20;  // of steps whatever their result says

// Up to here all integers are values of the dtype.
double exact_limit(DType dtype) {
  return std::ldexp(1.0, float_format(dtype).mantissa_bits + 1);
}

double int_limit(DType dtype) {
  return static_cast<double>(int_max_bits(dtype)) + 1;
}

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options)
      : random_(seed * 2 + (options.integer_valued ? 1 : 0)),
        options_(options),
        spread_(options.integer_valued) {}

  TensorGraph generate(uint64_t seed) {
    graph_.name = concat(options_.integer_valued ? "int_" : "real_", seed);
    keep(first_input());
    const int64_t num_steps = random_.between(options_.min_steps, options_.max_steps);
    const int64_t broadcast_step = random_.percent(50) ? random_.below(num_steps) : -1;
    const int64_t triple_step = random_.percent(45) ? random_.below(num_steps) : -1;
    for (int64_t step = 0; step < num_steps && total_ < options_.max_total; ++step) {
      if (step == triple_step) {
        for (int i = 0; i < 3; ++i)
          keep(movement(pool_.back()));
      }
      if (step == broadcast_step) keep(broadcast_back(pick_value()));
      telling_step();
    }
    finish();
    return std::move(graph_);
  }

 private:
  void keep(const Value& value) {
    if (!(value.node == pool_node())) pool_.push_back(value);
  }
  Node pool_node() const { return pool_.empty() ? Node() : pool_.back().node; }

  // Mostly the newest, so that chains grow, or the newest that tells much.
  Value pick_value() {
    const int64_t chance = random_.below(100);
    if (chance >= 70) return random_.pick_from(pool_);
    if (chance >= 20) {
      for (size_t i = pool_.size(); i-- > 0;) {
        if (spread_.is_rich(pool_[i].node)) return pool_[i];
      }
      if (graph_.inputs.size() < 4 && random_.percent(40)) return first_input();
    }
    return pool_.back();
  }

  // Mostly a step whose result still tells one element from another; others are taken back.
  void telling_step() {
    const size_t num_inputs = graph_.inputs.size();
    const size_t num_assigned = assigned_.size();
    const int64_t total = total_;
    const int64_t num_variables = num_variables_;
    for (int attempt = 0;; ++attempt) {
      const Value next = random_step(pick_value());
      if (attempt == kMaxAttempts || random_.percent(kAnyStepPercent) ||
          spread_.is_rich(next.node)) {
        keep(next);
        return;
      }
      graph_.inputs.resize(num_inputs);
      graph_.input_names.resize(num_inputs);
      assigned_.resize(num_assigned);
      total_ = total;
      num_variables_ = num_variables;
    }
  }

  bool fits(ShapeView shape) const {
    int64_t count = 1;
    for (int64_t dim : shape)
      count *= std::max<int64_t>(dim, 1);  // dims are small here
    return count <= options_.max_elements && total_ + count <= options_.max_total;
  }

  Value made(Node node, double max_abs, bool is_exact = true, bool is_risky = false) {
    total_ += 2 * num_elements(node.shape());  // a step makes helper nodes too
    if (is_int(node.dtype())) max_abs = std::min(max_abs, int_limit(node.dtype()));
    return {std::move(node), max_abs, is_exact, is_risky};
  }
  Value like(Node node, const Value& x) {
    return made(std::move(node), x.max_abs, x.is_exact, x.is_risky);
  }

  // Whether floats of this size stay exact (integer mode) or finite.
  bool is_in_range(DType dtype, double max_abs) const {
    if (!is_float(dtype)) return true;
    if (options_.integer_valued) return max_abs <= exact_limit(dtype);
    return max_abs <= (dtype == DType::kF16 ? 4000 : 1e30);
  }

  // ---- leaves ----

  // Real graphs start with floats more often, or the bounded class would be rare.
  DType random_dtype() {
    const DType dtype = random_.pick_from(options_.dtypes);
    const bool again = !options_.integer_valued && !is_float(dtype) && random_.percent(70);
    return again ? random_.pick_from(options_.dtypes) : dtype;
  }

  Shape random_shape() {
    const int64_t chance = random_.below(100);
    const int rank = chance < 3 ? 0 : chance < 22 ? 1 : chance < 62 ? 2 : chance < 90 ? 3 : 4;
    Shape shape;
    for (int axis = 0; axis < rank; ++axis) {
      const int64_t roll = random_.below(1000);
      int64_t dim = random_.pick<int64_t>({3, 7, 31, 33, 3, 7});
      if (roll < 100) dim = 1;
      if (roll >= 100 && roll < 190) dim = 1000;
      if (roll >= 190 && roll < 205) dim = 0;
      shape.push_back(dim);
      if (!fits(shape)) shape.back() = 1;
    }
    return shape;
  }

  // Mostly of a dtype that can tell all elements of the shape apart.
  Value first_input() {
    const Shape shape = random_shape();
    DType dtype = random_dtype();
    const auto is_wide = [&] {
      return num_elements(shape) < int64_t{1} << (dtype_bits(dtype) - 1);
    };
    for (int attempt = 0; attempt < kMaxAttempts && !is_wide() && !random_.percent(20); ++attempt)
      dtype = random_dtype();
    return input(shape, dtype);
  }

  Value input(const Shape& shape, DType dtype) {
    const size_t number = graph_.inputs.size();
    const double wide = wide_range(dtype);
    double range = random_.pick({wide, wide, std::min(wide, 300.0), std::min(wide, kSmall)});
    std::string kind = concat("int", static_cast<int64_t>(range));
    if (is_float(dtype) && !options_.integer_valued) {
      kind = "real";
      range = 2;
    } else if (!is_float(dtype) && random_.percent(50)) {
      kind = "any";
      range = int_limit(dtype);
    }
    graph_.inputs.push_back(tensor_buffer(dtype, shape));
    graph_.input_names.push_back(concat("x", number, "_", kind));
    const bool has_negatives = is_signed_int(dtype) || is_float(dtype);
    spread_.set_input(graph_.inputs.back(), kind == "real" ? 1e6 : range * (has_negatives ? 2 : 1));
    return made(graph_.inputs.back(), range);
  }

  static double wide_range(DType dtype) {
    if (dtype == DType::kBool) return 1;
    const double limit = is_float(dtype) ? exact_limit(dtype) / 2 : int_limit(dtype) - 1;
    return std::min(limit, 6000.0);
  }

  Value constant(DType dtype, double number, const Shape& shape) {
    uint64_t bits = 0;
    if (is_float(dtype)) {
      bits = double_to_float(number, dtype);
    } else if (dtype == DType::kBool) {
      bits = number != 0 ? 1 : 0;
    } else {
      bits = canonical_bits(dtype, static_cast<uint64_t>(static_cast<int64_t>(number)));
    }
    return spread(made(tensor_const(dtype, bits), std::fabs(number)), shape);
  }

  // A 0-d value to all elements of a shape.
  Value spread(const Value& x, const Shape& shape) {
    if (shape.empty()) return x;
    const Node ones = tensor_reshape(x.node, Shape(shape.size(), 1));
    return like(tensor_expand(ones, shape), x);
  }

  double random_number(DType dtype) {
    if (is_float(dtype) && !options_.integer_valued) {
      return static_cast<double>(random_.between(-24, 24)) / 8;
    }
    return static_cast<double>(random_.between(is_unsigned_int(dtype) ? 0 : -7, 9));
  }

  // Something of the same shape and dtype to combine `x` with.
  Value partner(const Value& x) {
    const Shape shape = x.shape();
    const int64_t chance = random_.below(100);
    if (chance < 40) {
      for (int attempt = 0; attempt < 4; ++attempt) {
        const Value& other = random_.pick_from(pool_);
        if (other.node == x.node || other.shape() != shape) continue;
        if (const auto found = cast_if_possible(other, x.dtype())) return *found;
      }
    }
    if (chance < 65 && graph_.inputs.size() < 6 && fits(shape)) return input(shape, x.dtype());
    if (chance < 78 && !shape.empty() && fits(shape)) {
      const auto axis = random_.below(std::ssize(shape));
      const DType dtype = random_.pick({DType::kI32, DType::kI64, DType::kU16});
      const auto last = static_cast<double>(shape[static_cast<size_t>(axis)]);
      const Value index = made(tensor_index(dtype, shape, axis), last);
      if (const auto found = cast_if_possible(index, x.dtype())) return *found;
    }
    if (chance < 84 && options_.has_variables) {
      const Value variable = made(tensor_variable(num_variables_++, -5, 9), 9);
      if (const auto found = cast_if_possible(variable, x.dtype())) return spread(*found, shape);
    }
    return constant(x.dtype(), random_number(x.dtype()), shape);
  }

  // ---- casts ----

  std::optional<Value> cast_if_possible(const Value& x, DType dtype) {
    if (x.dtype() == dtype) return x;
    const double max_abs = x.dtype() == DType::kBool ? 1 : x.max_abs;
    if (!is_in_range(dtype, max_abs)) return std::nullopt;
    if (!x.is_exact && !is_float(dtype)) {
      if (!random_.percent(15)) return std::nullopt;
      return made(tensor_cast(x.node, dtype), max_abs, true, true);
    }
    // A negative number wraps to a large unsigned one.
    const double range = is_unsigned_int(dtype) ? int_limit(dtype) : max_abs;
    return made(tensor_cast(x.node, dtype), dtype == DType::kBool ? 1 : range, x.is_exact,
                x.is_risky);
  }

  Value cast(const Value& x) {
    const DType dtype = random_dtype();
    if (const auto found = cast_if_possible(x, dtype)) return *found;
    if (!is_int(x.dtype())) return x;
    const Value small =
        made(tensor_binary(Op::kAnd, x.node, constant(x.dtype(), 63, x.shape()).node), 63);
    return cast_if_possible(small, dtype).value_or(small);
  }

  Value bitcast(const Value& x) {
    if (x.dtype() == DType::kBool || !x.is_exact) return cast(x);
    const bool to_int = is_float(x.dtype()) || random_.percent(50);
    const DType dtype = to_int && !is_signed_int(x.dtype()) ? signed_of_same_width(x.dtype())
                                                            : unsigned_of_same_width(x.dtype());
    return made(tensor_bitcast(x.node, dtype), int_limit(dtype), true, x.is_risky);
  }

  // ---- elementwise ----

  Value unary(const Value& from) {
    Value x = from;
    if (!options_.integer_valued && (!is_float(x.dtype()) || x.dtype() == DType::kF64)) {
      const DType dtype = random_dtype();
      if (is_float(dtype)) x = cast_if_possible(x, dtype).value_or(x);
    }
    if (x.dtype() == DType::kBool) return like(tensor_unary(Op::kNot, x.node), x);
    if (is_int(x.dtype())) {
      return made(tensor_unary(random_.pick({Op::kNeg, Op::kAbs, Op::kNot}), x.node),
                  int_limit(x.dtype()), x.is_exact, x.is_risky);
    }
    if (!options_.integer_valued && x.dtype() != DType::kF64 && random_.percent(85)) {
      return bounded(x);
    }
    const Op op = random_.pick(
        {Op::kNeg, Op::kAbs, Op::kSqrt, Op::kSqrt, Op::kTrunc, Op::kFloor, Op::kCeil, Op::kRound});
    if (op == Op::kNeg || op == Op::kAbs) return like(tensor_unary(op, x.node), x);
    if (op == Op::kSqrt) {
      const Node root = tensor_unary(Op::kSqrt, tensor_unary(Op::kAbs, x.node));
      const Value result = made(root, std::sqrt(x.max_abs) + 1, x.is_exact, x.is_risky);
      if (!options_.integer_valued) return result;
      return like(tensor_unary(random_.pick({Op::kFloor, Op::kCeil}), root), result);
    }
    if (!x.is_exact && !random_.percent(15)) return like(tensor_unary(Op::kAbs, x.node), x);
    return made(tensor_unary(op, x.node), x.max_abs + 1, x.is_exact, x.is_risky || !x.is_exact);
  }

  Value inexact(Op op, const Value& x, double max_abs) {
    return made(tensor_unary(op, x.node), max_abs, false, x.is_risky);
  }

  // The bounded class, on arguments where the result is finite and not lost in its radius.
  Value bounded(Value x) {
    // exp stands in every softmax already, sin and tanh make large arguments small.
    const Op op = random_.pick({Op::kExp2, Op::kExp2, Op::kLog2, Op::kLog2, Op::kSin, Op::kLog,
                                Op::kLog, Op::kCos, Op::kCos, Op::kTan, Op::kTan, Op::kTanh,
                                Op::kSigmoid, Op::kSigmoid});
    if (op == Op::kLog || op == Op::kLog2) {
      const Value half = constant(x.dtype(), 0.5, x.shape());
      const Node positive = tensor_binary(Op::kAdd, tensor_unary(Op::kAbs, x.node), half.node);
      return made(tensor_unary(op, positive), std::log2(x.max_abs + 1) + 2, false, x.is_risky);
    }
    if (x.max_abs > 1000) x = inexact(Op::kTanh, x, 1);
    if (op == Op::kExp || op == Op::kExp2) {
      if (x.max_abs > 7) x = inexact(Op::kSin, x, 1);
      return inexact(op, x, std::exp(x.max_abs));
    }
    if (op == Op::kTan) {
      if (x.max_abs > 1.2) x = inexact(Op::kSin, x, 1);
      return inexact(op, x, 3);
    }
    return inexact(op, x, 1);
  }

  Value binary(const Value& x) {
    const Value y = partner(x);
    const bool is_exact = x.is_exact && y.is_exact;
    const bool is_risky = x.is_risky || y.is_risky;
    if (x.dtype() == DType::kBool) {
      const Op op = random_.pick({Op::kAnd, Op::kOr, Op::kOr, Op::kXor, Op::kXor, Op::kMin,
                                  Op::kMax, Op::kEq, Op::kNe, Op::kLt, Op::kLe});
      return made(tensor_binary(op, x.node, y.node), 1, is_exact, is_risky);
    }
    if (is_int(x.dtype())) {
      const Op op = random_.pick(
          {Op::kAdd,      Op::kSub,      Op::kMul,      Op::kDiv,      Op::kDiv,      Op::kMod,
           Op::kMod,      Op::kMod,      Op::kFloorDiv, Op::kFloorDiv, Op::kFloorDiv, Op::kFloorMod,
           Op::kFloorMod, Op::kFloorMod, Op::kMin,      Op::kMax,      Op::kAnd,      Op::kAnd,
           Op::kOr,       Op::kOr,       Op::kOr,       Op::kXor,      Op::kXor,      Op::kXor,
           Op::kShl,      Op::kShl,      Op::kShr,      Op::kShr});
      const bool is_cut = op == Op::kDiv || op == Op::kFloorDiv || op == Op::kShl || op == Op::kShr;
      if (is_cut && random_.percent(60)) {  // else the result is mostly the same
        const Value few =
            constant(x.dtype(), static_cast<double>(random_.between(1, 5)), x.shape());
        return made(tensor_binary(op, x.node, few.node), int_limit(x.dtype()), x.is_exact,
                    x.is_risky);
      }
      return made(tensor_binary(op, x.node, y.node), int_limit(x.dtype()), is_exact, is_risky);
    }
    Op op = random_.pick({Op::kAdd, Op::kSub, Op::kMul, Op::kMul, Op::kDiv, Op::kMin, Op::kMax});
    double max_abs = op == Op::kMul ? x.max_abs * y.max_abs : x.max_abs + y.max_abs;
    if (op == Op::kDiv) return quotient(x, y);
    if (!is_in_range(x.dtype(), max_abs)) op = random_.pick({Op::kMin, Op::kMax});
    if (op == Op::kMin || op == Op::kMax) max_abs = std::max(x.max_abs, y.max_abs);
    return made(tensor_binary(op, x.node, y.node), max_abs, is_exact, is_risky);
  }

  // x / (|y| + 1), in integer mode rounded down.
  Value quotient(const Value& x, const Value& y) {
    if (!is_in_range(x.dtype(), y.max_abs + 1)) return x;
    const Value one = constant(x.dtype(), 1, x.shape());
    const Node below = tensor_binary(Op::kAdd, tensor_unary(Op::kAbs, y.node), one.node);
    Node result = tensor_binary(Op::kDiv, x.node, below);
    if (options_.integer_valued) result = tensor_unary(Op::kFloor, result);
    return made(result, x.max_abs + 1, x.is_exact && y.is_exact, x.is_risky || y.is_risky);
  }

  // NaN in some elements of one operand of min or max must stay; then a constant takes its place.
  Value through_nan(const Value& x) {
    const Value code = input(x.shape(), DType::kF32);
    const Node is_low = tensor_binary(Op::kLt, code.node, constant(DType::kF32, 1, x.shape()).node);
    const Node nan =
        spread(made(tensor_const(x.dtype(), double_to_float(NAN, x.dtype())), 0), x.shape()).node;
    const Value other = partner(x);
    const Node some = tensor_where(is_low, other.node, nan);
    const Op op = random_.pick({Op::kMin, Op::kMax, Op::kMax});
    const Node picked =
        random_.percent(50) ? tensor_binary(op, some, x.node) : tensor_binary(op, x.node, some);
    const Node mark = constant(x.dtype(), 5, x.shape()).node;
    return made(tensor_where(tensor_unary(Op::kIsNan, picked), mark, picked),
                std::max({x.max_abs, other.max_abs, 5.0}), x.is_exact && other.is_exact,
                x.is_risky || other.is_risky);
  }

  Value selection(const Value& x) {
    if (is_float(x.dtype()) && fits(x.shape()) && graph_.inputs.size() < 6 && random_.percent(12)) {
      return through_nan(x);
    }
    const Value y = partner(x);
    Value condition = x;
    if (is_float(x.dtype()) && random_.percent(55)) {
      condition =
          made(tensor_unary(
                   random_.pick({Op::kIsNan, Op::kIsInf, Op::kIsInf, Op::kIsFinite, Op::kIsFinite}),
                   x.node),
               1);
      condition.is_risky = x.is_risky;
    } else {
      const Value z = partner(x);
      const bool is_exact = x.is_exact && z.is_exact;
      if (!is_exact && !random_.percent(20)) return binary(x);
      condition =
          made(tensor_binary(random_.pick({Op::kLt, Op::kLe, Op::kEq, Op::kNe}), x.node, z.node), 1,
               true, !is_exact || x.is_risky || z.is_risky);
    }
    if (random_.percent(15)) return condition;
    return made(tensor_where(condition.node, x.node, y.node), std::max(x.max_abs, y.max_abs),
                x.is_exact && y.is_exact, x.is_risky || y.is_risky || condition.is_risky);
  }

  // ---- movement ----

  // Drawn again where it would do nothing.
  Value movement(const Value& x) {
    for (int attempt = 0; attempt < 12; ++attempt) {
      const int64_t total = total_;
      const auto moved = try_movement(x);
      if (moved && moves_something(moved->node)) return *moved;
      total_ = total;
    }
    Shape shape = x.shape();
    if (shape.size() < 5) {
      shape.insert(shape.begin(), 1);
    } else {
      shape = {num_elements(shape)};
    }
    return like(tensor_reshape(x.node, shape), x);
  }

  std::optional<Value> try_movement(const Value& x) {
    switch (random_.below(7)) {
      case 0: return reshape(x);
      case 1: return permute(x);
      case 2: return expand(x);
      case 3: return pad(x);
      case 4: return shrink(x);
      case 5: return flip(x);
      default: return window(x);
    }
  }

  std::optional<Value> reshape(const Value& x) {
    Shape shape = x.shape();
    const auto rank = std::ssize(shape);
    const int64_t chance = random_.below(4);
    if (chance == 0 && rank < 5) {
      shape.insert(shape.begin() + random_.between(0, rank), 1);
    } else if (chance == 1 && rank >= 2) {
      const auto axis = random_.below(rank - 1);
      shape[static_cast<size_t>(axis)] *= shape[static_cast<size_t>(axis + 1)];
      shape.erase(shape.begin() + axis + 1);
    } else if (chance == 2 && rank >= 1 && rank < 5) {
      const auto axis = random_.below(rank);
      const int64_t part = random_.pick<int64_t>({3, 7, 11, 8});
      int64_t& dim = shape[static_cast<size_t>(axis)];
      if (dim == 0 || dim % part != 0) return std::nullopt;
      dim /= part;
      shape.insert(shape.begin() + axis + 1, part);
    } else {
      shape = {num_elements(shape)};
    }
    return like(tensor_reshape(x.node, shape), x);
  }

  std::optional<Value> permute(const Value& x) {
    const auto rank = x.shape().size();
    if (rank < 2) return std::nullopt;
    std::vector<int64_t> axes(rank);
    for (size_t axis = 0; axis < rank; ++axis)
      axes[axis] = static_cast<int64_t>(axis);
    for (size_t axis = rank - 1; axis > 0; --axis)
      std::swap(axes[axis], axes[static_cast<size_t>(random_.below(std::ssize(axes)))]);
    return like(tensor_permute(x.node, axes), x);
  }

  std::optional<Value> expand(const Value& x) {
    Shape shape = x.shape();
    bool changes = false;
    for (int64_t& dim : shape) {
      if (dim != 1) continue;
      dim = random_.pick<int64_t>({3, 7, 31, 33});
      changes = true;
    }
    if (!changes || !fits(shape)) return std::nullopt;
    return like(tensor_expand(x.node, shape), x);
  }

  std::optional<Value> pad(const Value& x) {
    std::vector<int64_t> before;
    std::vector<int64_t> after;
    Shape shape = x.shape();
    for (int64_t& dim : shape) {
      before.push_back(random_.percent(50) ? random_.between(0, 3) : 0);
      after.push_back(random_.percent(50) ? random_.between(0, 3) : 0);
      dim += before.back() + after.back();
    }
    if (!fits(shape)) return std::nullopt;
    const double number = random_.percent(50) ? 0 : random_number(x.dtype());
    const Node fill = constant(x.dtype(), number, {}).node;
    return made(tensor_pad(x.node, before, after, static_cast<uint64_t>(fill.attr(0))),
                std::max(x.max_abs, std::fabs(number)), x.is_exact, x.is_risky);
  }

  std::optional<Value> shrink(const Value& x) {
    std::vector<int64_t> begin;
    std::vector<int64_t> end;
    for (int64_t dim : x.shape()) {
      begin.push_back(dim > 1 && random_.percent(60) ? random_.between(0, dim / 3) : 0);
      end.push_back(dim > 1 && random_.percent(60) ? dim - random_.between(0, dim / 3) : dim);
    }
    return like(tensor_shrink(x.node, begin, end), x);
  }

  std::optional<Value> flip(const Value& x) {
    std::vector<int64_t> flags;
    for (size_t axis = 0; axis < x.shape().size(); ++axis)
      flags.push_back(random_.below(2));
    return like(tensor_flip(x.node, flags), x);
  }

  std::optional<Value> window(const Value& x) {
    const Shape shape = x.shape();
    if (shape.empty() || shape.size() > 4) return std::nullopt;
    const auto axis = random_.below(std::ssize(shape));
    const int64_t dim = shape[static_cast<size_t>(axis)];
    const int64_t size = random_.between(1, 3);
    const int64_t dilation = random_.between(1, 2);
    if (dim < dilation * (size - 1) + 1 && !random_.percent(3)) return std::nullopt;
    Shape result = shape;
    result.push_back(size);
    if (!fits(result)) return std::nullopt;
    return like(tensor_window(x.node, axis, size, random_.between(1, 3), dilation), x);
  }

  // ---- reductions ----

  std::vector<int64_t> random_axes(ShapeView shape) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < std::ssize(shape); ++axis) {
      const bool is_one = shape[static_cast<size_t>(axis)] == 1;
      if (random_.percent(is_one ? 10 : 45)) axes.push_back(axis);
    }
    if (axes.empty() && !shape.empty()) axes.push_back(random_.below(std::ssize(shape)));
    return axes;
  }

  DType random_accumulator(DType dtype) {
    if (is_float(dtype)) {
      if (dtype == DType::kF64 || random_.percent(dtype == DType::kF32 ? 85 : 20)) return dtype;
      return dtype == DType::kF32 ? DType::kF64 : DType::kF32;
    }
    if (dtype == DType::kBool || random_.percent(70)) return dtype;
    return is_signed_int(dtype) ? DType::kI64 : DType::kU64;
  }

  std::optional<Value> reduce(const Value& x, const std::vector<int64_t>& axes, Op wanted) {
    if (x.is_risky) return std::nullopt;
    double count = 1;
    for (int64_t axis : axes)
      count *= static_cast<double>(x.node.shape()[static_cast<size_t>(axis)]);
    Op op = wanted;
    const DType accumulator = random_accumulator(x.dtype());
    double max_abs = is_int(x.dtype()) ? int_limit(x.dtype()) : x.max_abs;
    if (is_float(x.dtype())) {
      const double sum = std::max(1.0, count * x.max_abs);
      const double product = std::pow(std::max(1.0, x.max_abs), count);
      // A row of many roundings in a narrow accumulator has no radius worth comparing with.
      const bool is_narrow =
          !options_.integer_valued && count > 100 && dtype_bits(accumulator) < 32;
      if (op == Op::kMul && (!is_in_range(x.dtype(), product) || count > 8)) op = Op::kAdd;
      if (op == Op::kAdd && (!is_in_range(x.dtype(), sum) || is_narrow)) op = Op::kMax;
      if (count == 0 && (op == Op::kMax || op == Op::kMin)) return std::nullopt;  // infinities
      max_abs = op == Op::kAdd ? sum : op == Op::kMul ? product : x.max_abs;
    }
    const bool is_pick = op == Op::kMax || op == Op::kMin;
    const bool is_exact =
        x.is_exact && (!is_float(x.dtype()) || options_.integer_valued || is_pick);
    return made(tensor_reduce(op, x.node, axes, accumulator), max_abs, is_exact, x.is_risky);
  }

  Op random_combining(DType dtype) {
    if (dtype == DType::kBool) return random_.pick({Op::kAnd, Op::kOr, Op::kMin, Op::kMax});
    if (is_float(dtype)) {
      return random_.pick({Op::kAdd, Op::kAdd, Op::kMul, Op::kMin, Op::kMax});
    }
    return random_.pick({Op::kAdd, Op::kAdd, Op::kMul, Op::kMin, Op::kMax, Op::kAnd, Op::kOr});
  }

  // x combined with a reduction of itself.
  Value broadcast_back(const Value& x) {
    if (x.is_risky) {
      const Value fresh = input(random_shape(), DType::kF32);
      return broadcast_back(fresh);
    }
    const std::vector<int64_t> axes = random_axes(x.shape());
    const bool is_real = is_float(x.dtype()) && x.dtype() != DType::kF64;
    if (is_real && !options_.integer_valued && random_.percent(40)) {
      if (const auto result = softmax(x, axes)) return *result;
    }
    const auto reduced = reduce(x, axes, random_combining(x.dtype()));
    if (!reduced) return x;
    const Value row = like(tensor_expand(reduced->node, x.shape()), *reduced);
    if (!is_float(x.dtype())) {
      const Op op = x.dtype() == DType::kBool ? Op::kXor : random_.pick({Op::kSub, Op::kAdd});
      return made(tensor_binary(op, x.node, row.node), int_limit(x.dtype()));
    }
    Op op = random_.pick({Op::kSub, Op::kMul, Op::kMin});
    double max_abs = op == Op::kMul ? x.max_abs * row.max_abs : x.max_abs + row.max_abs;
    if (!is_in_range(x.dtype(), max_abs)) {
      op = Op::kMin;
      max_abs = std::max(x.max_abs, row.max_abs);
    }
    return made(tensor_binary(op, x.node, row.node), max_abs, x.is_exact && row.is_exact);
  }

  std::optional<Value> softmax(const Value& x, const std::vector<int64_t>& axes) {
    const auto max = reduce(x, axes, Op::kMax);
    if (!max) return std::nullopt;
    const Node shifted = tensor_binary(Op::kSub, x.node, tensor_expand(max->node, x.shape()));
    const Value e = made(tensor_unary(Op::kExp, shifted), 1, false);
    const auto sum = reduce(e, axes, Op::kAdd);
    if (!sum || reduce_op(sum->node) != Op::kAdd) return e;
    const Value one = constant(x.dtype(), 1, sum->shape());
    const Node inverse = tensor_binary(Op::kDiv, one.node, sum->node);
    return made(tensor_binary(Op::kMul, e.node, tensor_expand(inverse, x.shape())), 1, false);
  }

  // (M,K) x (K,N) as reshape, expand, mul and a sum over K.
  std::optional<Value> matmul(const Value& x) {
    if (x.node.shape().size() != 2 || x.dtype() == DType::kBool || x.is_risky) return std::nullopt;
    const int64_t m = x.node.shape()[0];
    const int64_t k = x.node.shape()[1];
    const int64_t n = random_.pick<int64_t>({3, 7, 31});
    const Shape box{m, n, k};
    if (!fits(box) || graph_.inputs.size() >= 6) return std::nullopt;
    const Value y = input({k, n}, x.dtype());
    const double max_abs = x.max_abs * y.max_abs;
    if (!is_in_range(x.dtype(), max_abs)) return std::nullopt;
    const Node left = tensor_expand(tensor_reshape(x.node, Shape{m, 1, k}), box);
    const Node turned = tensor_permute(y.node, std::vector<int64_t>{1, 0});
    const Node right = tensor_expand(tensor_reshape(turned, Shape{1, n, k}), box);
    const Value product = made(tensor_binary(Op::kMul, left, right), max_abs, x.is_exact);
    return reduce(product, {2}, Op::kAdd);
  }

  // ---- steps ----

  Value random_step(const Value& x) {
    const int64_t chance = random_.below(100);
    if (chance < 17) return binary(x);
    if (chance < 36) return unary(x);
    if (chance < 56) return movement(x);
    if (chance < 64)
      return reduce(x, random_axes(x.shape()), random_combining(x.dtype())).value_or(x);
    if (chance < 70) return broadcast_back(x);
    if (chance < 79) return selection(x);
    if (chance < 86) return cast(x);
    if (chance < 89) return bitcast(x);
    if (chance < 93) return matmul(x).value_or(x);
    if (chance < 96) return like(tensor_contiguous(x.node), x);
    if (chance < 98 && options_.has_copies) return like(tensor_copy(x.node, 0), x);
    return options_.has_assigns ? assign(x) : x;
  }

  // Into a buffer that is read elsewhere too where there is one: a reader sees the old value.
  Value assign(const Value& x) {
    for (const Node& buffer : graph_.inputs) {
      const bool is_fit = std::ranges::equal(buffer.shape(), x.node.shape()) &&
                          buffer.dtype() == x.dtype() && !(buffer == x.node) &&
                          std::ranges::find(assigned_, buffer) == assigned_.end();
      if (!is_fit || random_.percent(50)) continue;
      assigned_.push_back(buffer);
      return like(tensor_assign(buffer, x.node), x);
    }
    if (!fits(x.node.shape())) return x;
    assigned_.push_back(input(x.shape(), x.dtype()).node);
    return like(tensor_assign(assigned_.back(), x.node), x);
  }

  // The newest value that tells much, and up to two more values that no one reads.
  void finish() {
    const auto rich = std::find_if(pool_.rbegin(), pool_.rend(), [&](const Value& value) {
      return value.node.op() != Op::kBuffer && spread_.is_rich(value.node);
    });
    add_output(rich == pool_.rend() ? pool_.back().node : rich->node);
    std::vector<Node> used;
    for (const Node& node : topological_order(graph_.outputs))
      used.push_back(node);
    for (size_t i = pool_.size(); i-- > 0 && graph_.outputs.size() < 3;) {
      const Node& node = pool_[i].node;
      const bool is_used = std::ranges::find(used, node) != used.end();
      if (!is_used && node.op() != Op::kBuffer && random_.percent(60)) add_output(node);
    }
  }

  void add_output(const Node& node) {
    graph_.output_names.push_back(concat("y", graph_.outputs.size()));
    graph_.outputs.push_back(node);
  }

  Random random_;
  const RandomGraphOptions& options_;
  TensorGraph graph_;
  std::vector<Value> pool_;
  std::vector<Node> assigned_;
  SpreadEstimate spread_;
  int64_t total_ = 0;
  int64_t num_variables_ = 0;
};

// The number behind "_int", or 0.
int64_t range_in_name(std::string_view name) {
  const size_t at = name.rfind("_int");
  if (at == std::string_view::npos) return 0;
  return parse_int(name.substr(at + 4)).value_or(0);
}

}  // namespace

std::vector<DType> common_dtypes() {
  return {DType::kBool, DType::kI8,  DType::kI16, DType::kI32, DType::kI64,
          DType::kU8,   DType::kU16, DType::kU32, DType::kU64, DType::kF16,
          DType::kBF16, DType::kF32, DType::kF32, DType::kF64};
}

TensorGraph random_graph(uint64_t seed, const RandomGraphOptions& options) {
  return Generator(seed, options).generate(seed);
}

std::vector<std::vector<std::byte>> random_inputs(const TensorGraph& graph, uint64_t seed) {
  std::vector<std::vector<std::byte>> data;
  Random random(seed);
  for (size_t number = 0; number < graph.inputs.size(); ++number) {
    const DType dtype = graph.inputs[number].dtype();
    const auto count = static_cast<uint64_t>(num_elements(graph.inputs[number].shape()));
    const auto size_bytes = static_cast<size_t>(dtype_size_bytes(dtype));
    const int64_t range = range_in_name(graph.input_names[number]);
    const uint64_t start = random.next() >> 20;
    // Primes: neighbours differ, no short period, differences of inputs are not the same
    // everywhere.
    static constexpr uint64_t kSteps[] = {7919, 104'729, 1'000'003, 6'700'417, 15'485'863, 29'423};
    const uint64_t step = kSteps[number % std::size(kSteps)];
    std::vector<std::byte> bytes(count * size_bytes);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t code = start + i * step;
      uint64_t bits = code * 0x9e3779b97f4a7c15U;
      if (range > 0) {
        const auto low = is_unsigned_int(dtype) || dtype == DType::kBool ? 0 : -range;
        const int64_t value =
            low + static_cast<int64_t>(code % static_cast<uint64_t>(range - low + 1));
        bits = is_float(dtype) ? double_to_float(static_cast<double>(value), dtype)
                               : static_cast<uint64_t>(value);
      } else if (is_float(dtype)) {
        bits = double_to_float(std::ldexp(static_cast<double>(bits >> 12), -50) - 2, dtype);
      } else {
        bits >>= 64 - dtype_bits(dtype);
      }
      if (dtype == DType::kBool) bits = (bits ^ bits >> 3) & 1;
      for (size_t byte = 0; byte < size_bytes; ++byte)
        bytes[i * size_bytes + byte] = static_cast<std::byte>(bits >> (8 * byte));
    }
    data.push_back(std::move(bytes));
  }
  return data;
}

bool moves_something(const Node& node) {
  if (!is_movement(node.op())) return false;
  const ShapeView from = node.src(0).shape();
  const ShapeView to = node.shape();
  if (!std::ranges::equal(from, to)) return true;
  if (num_elements(to) < 2) return false;
  if (node.op() != Op::kFlip && node.op() != Op::kPermute) return false;
  const auto dim_of = [&](int64_t axis) { return to[static_cast<size_t>(axis)]; };
  int64_t last = -1;
  for (int64_t axis = 0; axis < std::ssize(to); ++axis) {
    const int64_t attr = node.attr(static_cast<size_t>(axis));
    if (node.op() == Op::kFlip && attr != 0 && dim_of(axis) > 1) return true;
    if (node.op() != Op::kPermute || dim_of(attr) == 1) continue;
    if (attr < last) return true;  // the axes longer than 1 are in another order
    last = attr;
  }
  return false;
}

int64_t random_variable(const Node& variable, uint64_t seed) {
  Random random(seed + static_cast<uint64_t>(variable.attr(0)));
  return random.between(variable.attr(1), variable.attr(2));
}

}  // namespace tenon::testing
