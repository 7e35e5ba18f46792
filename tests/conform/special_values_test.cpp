// Every elementwise op, cast, bitcast and reduction of the tensor level x every dtype on special
// values, on the default device against the oracle: operands in buffers, one of them a constant,
// and all of them constants. SPDX-License-Identifier: MIT

#include "tests/support/special_values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <span>

#include "tenon/base/text.h"
#include "tenon/conform/oracle.h"
#include "tenon/engine/engine.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/rules/fold.h"
#include "tests/conform/graph_batch.h"
#include "tests/support/expect_error.h"
#include "tests/support/sanitized.h"

namespace tenon::testing {
namespace {

bool is_tested_elementwise(Op op) {
  return is_elementwise(op) && has_level(op, kTensorLevel) && op != Op::kCast && op != Op::kBitcast;
}

/// What docs/ir.md and ir/tensor_ops.h say an op takes.
bool takes(Op op, DType dtype) {
  switch (op_info(op).rule) {
    case DTypeRule::kSameFloat:
    case DTypeRule::kTest: return is_float(dtype);
    case DTypeRule::kSameInt: return is_int(dtype);
    case DTypeRule::kSameIntOrBool: return !is_float(dtype);
    case DTypeRule::kSame: return dtype != DType::kBool || op == Op::kMin || op == Op::kMax;
    case DTypeRule::kNone:
    case DTypeRule::kAttr: return false;
    case DTypeRule::kCompare:
    case DTypeRule::kWhere: return true;
  }
  return false;
}

/// Bounded ops on f64 are refused (see Float64BoundedOpsAreRefused).
bool is_refused(Op op, DType dtype) {
  return is_bounded_class(op) && dtype == DType::kF64;
}

std::vector<Op> ops_of(DType dtype) {
  std::vector<Op> ops;
  for (const OpInfo& info : all_ops()) {
    if (is_tested_elementwise(info.op) && takes(info.op, dtype) && !is_refused(info.op, dtype)) {
      ops.push_back(info.op);
    }
  }
  return ops;
}

/// About `count` of the values, from all over the list.
std::vector<uint64_t> some_of(const std::vector<uint64_t>& values, size_t count) {
  std::vector<uint64_t> some;
  const size_t step = std::max<size_t>(1, values.size() / std::max<size_t>(1, count));
  for (size_t i = 0; i < values.size(); i += step)
    some.push_back(values[i]);
  return some;
}

/// Values that become constants: all, but an eighth in a sanitizer's build, where the code of each
/// takes long to make.
std::vector<uint64_t> constant_values(DType dtype) {
  const std::vector<uint64_t> values = special_values(dtype);
  return kIsSanitized ? some_of(values, values.size() / 8) : values;
}

std::string name_of(Op op, DType dtype) {
  return concat(op_name(op), " ", dtype_name(dtype));
}

Node constant(DType dtype, uint64_t bits, ShapeView shape) {
  const std::vector<int64_t> ones(shape.size(), 1);
  return tensor_expand(tensor_reshape(tensor_const(dtype, bits), ones), shape);
}

/// All pairs of special values as two columns, and a bool column that goes both ways.
struct Pairs {
  explicit Pairs(DType dtype) : Pairs(special_values(dtype)) {}
  explicit Pairs(const std::vector<uint64_t>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = 0; j < values.size(); ++j) {
        a.push_back(values[i]);
        b.push_back(values[j]);
        mask.push_back((i * 5 + j + j / 3) % 2);
      }
    }
  }
  std::vector<uint64_t> a, b, mask;
};

TEST(SpecialValues, EveryOpOnValuesInBuffers) {
  GraphBatch batch;
  for (const DType dtype : storage_dtypes()) {
    const Pairs pairs(dtype);
    const Node single = batch.buffer(dtype, special_values(dtype));
    const Node a = batch.buffer(dtype, pairs.a);
    const Node b = batch.buffer(dtype, pairs.b);
    const Node mask = batch.buffer(DType::kBool, pairs.mask);
    for (const Op op : ops_of(dtype)) {
      const int arity = op_info(op).arity;
      batch.add(name_of(op, dtype), arity == 1   ? tensor_unary(op, single)
                                    : arity == 2 ? tensor_binary(op, a, b)
                                                 : tensor_where(mask, a, b));
    }
  }
  batch.check("values in buffers");
}

/// values[number of the element along `axis`] of `shape`: a chain of selections by position.
Node chosen(const std::vector<Node>& values, ShapeView shape, int64_t axis) {
  const Node position = tensor_index(DType::kI32, shape, axis);
  Node result = values.back();
  for (size_t i = values.size() - 1; i-- > 0;) {
    const Node is_here = tensor_binary(Op::kEq, position, constant(DType::kI32, i, shape));
    result = tensor_where(is_here, values[i], result);
  }
  return result;
}

/// A constant for each place, realised many at a time, against one graph over buffers for all.
class ConstantCheck {
 public:
  /// `make` gives the graph over one element of each of `operands`, dtypes `dtypes`.
  void add(const std::string& name, const std::vector<DType>& dtypes,
           const std::vector<std::vector<uint64_t>>& operands,
           const std::function<Node(std::span<const Node>)>& make) {
    const int64_t shape[] = {static_cast<int64_t>(operands[0].size())};
    std::vector<Node> leaves;
    std::vector<std::vector<std::byte>> data;
    for (size_t k = 0; k < operands.size(); ++k) {
      leaves.push_back(tensor_buffer(dtypes[k], shape));
      data.push_back(bytes_of(dtypes[k], operands[k]));
    }
    std::vector<Node> nodes;
    for (size_t i = 0; i < operands[0].size(); ++i) {
      std::vector<Node> args;
      for (size_t k = 0; k < operands.size(); ++k)
        args.push_back(tensor_const(dtypes[k], operands[k][i]));
      nodes.push_back(make(args));
    }
    RealizeStats stats;
    realize(nodes, nullptr, &stats);
    kernels += stats.kernels;
    std::vector<std::byte> got;
    for (const Node& node : nodes) {
      const std::vector<std::byte> bytes = read_bytes(node);
      got.insert(got.end(), bytes.begin(), bytes.end());
    }
    const Node outputs[] = {make(leaves)};
    const OracleValue expected = evaluate_oracle(outputs, bind_inputs(leaves, data)).front();
    const Comparison result = compare(expected, got);
    EXPECT_EQ(result.failed, 0) << name << ": " << result.text;
    compared += result.compared;
  }
  int64_t compared = 0;
  int64_t kernels = 0;
};

// Whole graphs of constants through realize(), all pairs: what folds at once needs no kernel.
TEST(SpecialValues, EveryExactOpOnConstants) {
  ConstantCheck check;
  for (const DType dtype : storage_dtypes()) {
    const Pairs pairs(constant_values(dtype));
    const std::vector<std::vector<uint64_t>> singles = {constant_values(dtype)};
    for (const Op op : ops_of(dtype)) {
      if (is_bounded_class(op)) continue;
      const std::string name = name_of(op, dtype);
      const auto make = [op](std::span<const Node> args) { return tensor_elementwise(op, args); };
      switch (op_info(op).arity) {
        case 1: check.add(name, {dtype}, singles, make); break;
        case 2: check.add(name, {dtype, dtype}, {pairs.a, pairs.b}, make); break;
        default:
          check.add(name, {DType::kBool, dtype, dtype}, {pairs.mask, pairs.a, pairs.b}, make);
      }
    }
    for (const DType to : storage_dtypes()) {
      const auto cast = [to](std::span<const Node> args) { return tensor_cast(args[0], to); };
      check.add(concat("cast ", dtype_name(dtype), " to ", dtype_name(to)), {dtype}, singles, cast);
    }
  }
  std::printf("constants realised: %lld compared, %lld kernels\n",
              static_cast<long long>(check.compared), static_cast<long long>(check.kernels));
  EXPECT_GE(check.compared, kIsSanitized ? 30000 : 2000000);
  EXPECT_EQ(check.kernels, 0);
}

// What folds only after its decomposition, compiled and run.
TEST(SpecialValues, EveryBoundedOpOnConstants) {
  GraphBatch batch;
  for (const DType dtype : storage_dtypes()) {
    const std::vector<uint64_t> singles = constant_values(dtype);
    const int64_t shape[] = {static_cast<int64_t>(singles.size())};
    for (const Op op : ops_of(dtype)) {
      if (!is_bounded_class(op)) continue;
      std::vector<Node> values;
      for (const uint64_t single : singles)
        values.push_back(tensor_unary(op, constant(dtype, single, shape)));
      batch.add(name_of(op, dtype), chosen(values, shape, 0));
    }
  }
  batch.check("bounded ops on constants");
}

/// The bits that folding gives; failing if something is left.
uint64_t folded_bits(const Node& expr, const std::string& name) {
  const Node folded = fold_expr(expr);
  EXPECT_TRUE(is_const(folded)) << name << ": did not fold";
  return is_const(folded) ? const_bits(folded) : 0;
}

/// Folds an op on constants, all pairs of special values, and adds what the oracle says.
class FoldCheck {
 public:
  void add(const std::string& name, const std::vector<uint64_t>& got, const Node& graph,
           const std::vector<Node>& buffers, const std::vector<std::vector<std::byte>>& data) {
    const Node outputs[] = {graph};
    const OracleValue expected = evaluate_oracle(outputs, bind_inputs(buffers, data)).front();
    const Comparison result = compare(expected, bytes_of(graph.dtype(), got));
    EXPECT_EQ(result.failed, 0) << name << ": " << result.text;
    compared += result.compared;
  }
  int64_t compared = 0;
};

Node leaf(DType dtype, const std::vector<uint64_t>& bits) {
  const int64_t shape[] = {static_cast<int64_t>(bits.size())};
  return tensor_buffer(dtype, shape);
}

TEST(SpecialValues, ConstantsFoldToTheOracle) {
  FoldCheck check;
  for (const DType dtype : storage_dtypes()) {
    const std::vector<uint64_t> values = special_values(dtype);
    const Pairs pairs(dtype);
    for (const Op op : ops_of(dtype)) {
      const int arity = op_info(op).arity;
      if (is_bounded_class(op) || arity == 3)
        continue;  // folded after their decomposition; trivial
      const std::string name = name_of(op, dtype);
      const std::vector<uint64_t>& left = arity == 1 ? values : pairs.a;
      std::vector<uint64_t> got;
      for (size_t i = 0; i < left.size(); ++i) {
        const Node a = bits_const(dtype, left[i]);
        const Node expr =
            arity == 1 ? make_expr(op, a) : make_expr(op, a, bits_const(dtype, pairs.b[i]));
        got.push_back(folded_bits(expr, name));
      }
      const Node a = leaf(dtype, left);
      const Node b = leaf(dtype, pairs.b);
      check.add(name, got, arity == 1 ? tensor_unary(op, a) : tensor_binary(op, a, b), {a, b},
                {bytes_of(dtype, left), bytes_of(dtype, pairs.b)});
    }
    const Node x = leaf(dtype, values);
    for (const DType to : storage_dtypes()) {
      const std::string name = concat(dtype_name(dtype), " to ", dtype_name(to));
      const bool has_bitcast =
          dtype_bits(dtype) == dtype_bits(to) && dtype != DType::kBool && to != DType::kBool;
      std::vector<uint64_t> casts;
      std::vector<uint64_t> bitcasts;
      for (const uint64_t value : values) {
        const Node number = bits_const(dtype, value);
        casts.push_back(folded_bits(make_cast(number, to), name));
        if (has_bitcast) bitcasts.push_back(folded_bits(make_bitcast(number, to), name));
      }
      check.add("cast " + name, casts, tensor_cast(x, to), {x}, {bytes_of(dtype, values)});
      if (!has_bitcast) continue;
      check.add("bitcast " + name, bitcasts, tensor_bitcast(x, to), {x}, {bytes_of(dtype, values)});
    }
  }
  std::printf("folded constants: %lld compared\n", static_cast<long long>(check.compared));
  EXPECT_GE(check.compared, 1000000);
}

// What the compiler may simplify: x * 0, x + 0, x / 1, x << 40, max(x, NaN)...
TEST(SpecialValues, EveryBinaryOpWithOneConstant) {
  GraphBatch batch;
  for (const DType dtype : storage_dtypes()) {
    const std::vector<uint64_t> values = special_values(dtype);
    const std::vector<uint64_t> edges = some_of(edge_values(dtype), 8);
    const int64_t shape[] = {static_cast<int64_t>(edges.size()),
                             static_cast<int64_t>(values.size())};
    const int64_t row[] = {1, shape[1]};
    const Node x = tensor_expand(batch.buffer(dtype, values, row), shape);
    for (const Op op : ops_of(dtype)) {
      if (op_info(op).arity != 2) continue;
      std::vector<Node> left;
      std::vector<Node> right;
      for (const uint64_t edge : edges) {
        left.push_back(tensor_binary(op, constant(dtype, edge, shape), x));
        right.push_back(tensor_binary(op, x, constant(dtype, edge, shape)));
      }
      batch.add("constant " + name_of(op, dtype), chosen(left, shape, 0));
      batch.add(name_of(op, dtype) + " constant", chosen(right, shape, 0));
    }
  }
  batch.check("one constant");
}

// x op x, which the compiler may simplify where it changes no bit.
TEST(SpecialValues, EveryBinaryOpOfAValueWithItself) {
  GraphBatch batch;
  for (const DType dtype : storage_dtypes()) {
    const Node x = batch.buffer(dtype, special_values(dtype));
    for (const Op op : ops_of(dtype)) {
      if (op_info(op).arity == 2) batch.add(name_of(op, dtype), tensor_binary(op, x, x));
    }
  }
  batch.check("x op x");
}

TEST(SpecialValues, EveryCast) {
  GraphBatch batch;
  for (const DType from : storage_dtypes()) {
    const std::vector<uint64_t> values = special_values(from);
    const Node x = batch.buffer(from, values);
    const std::vector<uint64_t> some = some_of(values, 24);
    const int64_t shape[] = {static_cast<int64_t>(some.size())};
    for (const DType to : storage_dtypes()) {
      const std::string name = concat(dtype_name(from), " to ", dtype_name(to));
      batch.add(name, tensor_cast(x, to));
      std::vector<Node> constants;
      for (const uint64_t value : some)
        constants.push_back(tensor_cast(constant(from, value, shape), to));
      batch.add("constant " + name, chosen(constants, shape, 0));
    }
  }
  batch.check("casts");
}

TEST(SpecialValues, EveryBitcast) {
  GraphBatch batch;
  for (const DType from : storage_dtypes()) {
    std::vector<uint64_t> values = special_values(from);
    const int64_t shape[] = {static_cast<int64_t>(values.size())};
    const Node x = batch.buffer(from, values);
    for (const DType to : storage_dtypes()) {
      if (dtype_bits(from) != dtype_bits(to)) continue;
      if (from == DType::kBool || to == DType::kBool) {
        EXPECT_ERROR(tensor_bitcast(x, to), ErrorCode::kInvalidArgument, "bool");
        continue;
      }
      const std::string name = concat(dtype_name(from), " as ", dtype_name(to));
      batch.add(name, tensor_bitcast(x, to));
      std::vector<Node> constants;
      for (const uint64_t value : values)
        constants.push_back(tensor_bitcast(constant(from, value, shape), to));
      batch.add("constant " + name, chosen(constants, shape, 0));
    }
  }
  batch.check("bitcasts");
}

bool reduces(Op op, DType dtype) {
  const bool is_arithmetic = op == Op::kAdd || op == Op::kMul;
  const bool is_bitwise = op == Op::kAnd || op == Op::kOr;
  return !(is_arithmetic && dtype == DType::kBool) && !(is_bitwise && is_float(dtype));
}

std::vector<DType> accumulators(DType dtype) {
  if (is_float(dtype) && dtype_bits(dtype) < 32) return {dtype, DType::kF32};
  if (is_int(dtype) && dtype_bits(dtype) < 64) {
    return {dtype, is_signed_int(dtype) ? DType::kI64 : DType::kU64};
  }
  return {dtype};
}

/// What a reduction of rows of two is: the accumulator starts, takes one, takes the other.
Node fold_pair(Op op, const Node& pairs, DType accumulator) {
  const int64_t count = pairs.shape()[0];
  const int64_t shape[] = {count, 1};
  const auto column = [&](int64_t number) {
    const int64_t begin[] = {0, number};
    const int64_t end[] = {count, number + 1};
    return tensor_cast(tensor_shrink(pairs, begin, end), accumulator);
  };
  const uint64_t one = eval_cast(1, DType::kI32, accumulator);
  const Node start = constant(accumulator, op == Op::kMul ? one : 0, shape);
  const Node first = tensor_binary(op, start, column(0));
  return tensor_cast(tensor_binary(op, first, column(1)), pairs.dtype());
}

// Rows of two (all pairs: the value does not depend on an order), of all values, and of none.
TEST(SpecialValues, EveryReduction) {
  GraphBatch batch;
  for (const DType dtype : storage_dtypes()) {
    const std::vector<uint64_t> values = special_values(dtype);
    std::vector<uint64_t> pairs;
    for (const uint64_t a : values) {
      for (const uint64_t b : values)
        pairs.insert(pairs.end(), {a, b});
    }
    const int64_t pair_shape[] = {static_cast<int64_t>(pairs.size() / 2), 2};
    const int64_t row_shape[] = {3, static_cast<int64_t>(values.size())};
    const int64_t empty_shape[] = {3, 0};
    std::vector<uint64_t> rows;  // as it is, from the far end, without NaN
    rows.insert(rows.end(), values.begin(), values.end());
    rows.insert(rows.end(), values.rbegin(), values.rend());
    for (size_t i = 0; i < values.size(); ++i)
      rows.push_back(values[i % std::min<size_t>(values.size(), 8)]);
    const Node by_pair = batch.buffer(dtype, pairs, pair_shape);
    const Node by_row = batch.buffer(dtype, rows, row_shape);
    const Node empty = batch.buffer(dtype, {}, empty_shape);
    const int64_t axes[] = {1};
    for (const OpInfo& info : all_ops()) {
      if (!is_combining(info.op)) continue;
      if (!reduces(info.op, dtype)) {
        EXPECT_ERROR(tensor_reduce(info.op, by_pair, axes, dtype), ErrorCode::kInvalidArgument,
                     "reduce");
        continue;
      }
      for (const DType accumulator : accumulators(dtype)) {
        const std::string name =
            concat("reduce ", name_of(info.op, dtype), " in ", dtype_name(accumulator));
        const Node reduced = tensor_reduce(info.op, by_pair, axes, accumulator);
        const bool is_sum = info.op == Op::kAdd || info.op == Op::kMul;
        batch.add(name + ", pairs", reduced,
                  is_sum ? fold_pair(info.op, by_pair, accumulator) : reduced);
        batch.add(name + ", none", tensor_reduce(info.op, empty, axes, accumulator));
        const bool is_ordered = is_float(dtype) && (info.op == Op::kAdd || info.op == Op::kMul);
        if (!is_ordered)
          batch.add(name + ", rows", tensor_reduce(info.op, by_row, axes, accumulator));
      }
    }
  }
  batch.check("reductions");
}

TEST(SpecialValues, OpsRefuseOtherDtypes) {
  int num_refused = 0;
  for (const DType dtype : storage_dtypes()) {
    const Node x = tensor_const(dtype, 0);
    for (const OpInfo& info : all_ops()) {
      if (!is_tested_elementwise(info.op) || takes(info.op, dtype) || info.arity > 2) continue;
      const std::vector<Node> srcs(static_cast<size_t>(info.arity), x);
      EXPECT_ERROR(tensor_elementwise(info.op, srcs), ErrorCode::kInvalidArgument, info.name);
      ++num_refused;
    }
  }
  EXPECT_GE(num_refused, 100);
}

TEST(SpecialValues, Float64BoundedOpsAreRefused) {
  GraphBatch batch;
  const Node x = batch.buffer(DType::kF64, special_values(DType::kF64));
  int num_ops = 0;
  for (const OpInfo& info : all_ops()) {
    if (!is_bounded_class(info.op)) continue;
    const Node nodes[] = {tensor_unary(info.op, x)};
    EXPECT_ERROR(realize(nodes), ErrorCode::kUnsupported, info.name, "float64", "Cast to float32");
    ++num_ops;
  }
  EXPECT_EQ(num_ops, 9);
}

}  // namespace
}  // namespace tenon::testing
