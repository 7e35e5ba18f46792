// One row per elementwise op: the kinds of dtype it takes and the function that computes it.
// SPDX-License-Identifier: MIT

#include "tenon/ir/eval_op.h"

#include <array>
#include <bit>
#include <cmath>

#include "tenon/base/error.h"
#include "tenon/ir/soft_float.h"

namespace tenon {
namespace {

using detail::RoundTo;

constexpr unsigned kind_bit(DTypeKind kind) {
  return 1U << static_cast<unsigned>(kind);
}
constexpr unsigned kFloats = kind_bit(DTypeKind::kFloat);
constexpr unsigned kInts = kind_bit(DTypeKind::kSigned) | kind_bit(DTypeKind::kUnsigned);
constexpr unsigned kIndices = kind_bit(DTypeKind::kIndex);
constexpr unsigned kBools = kind_bit(DTypeKind::kBool);
constexpr unsigned kNumbers = kFloats | kInts | kIndices;
constexpr unsigned kAll = kNumbers | kBools;

// Arguments come in canonical form; the functions for integers serve idx too, as i64.
using Args = const ScalarBits*;
using Fn = ScalarBits (*)(DType dtype, Args args);

bool compares_as_signed(DType dtype) {
  return is_signed_int(dtype) || dtype_kind(dtype) == DTypeKind::kIndex;
}

int64_t as_signed(ScalarBits bits) {
  return static_cast<int64_t>(bits);
}

ScalarBits nan_of(DType dtype) {
  return detail::quiet_nan_bits(float_format(dtype));
}

bool is_nan(DType dtype, ScalarBits bits) {
  return is_float(dtype) && detail::is_nan_bits(bits, float_format(dtype));
}

// --- arithmetic ----------------------------------------------------------------------------------

ScalarBits add(DType dtype, Args x) {
  if (is_float(dtype)) return detail::soft_add(x[0], x[1], float_format(dtype));
  if (dtype == DType::kBool) return x[0] | x[1];
  return canonical_bits(dtype, x[0] + x[1]);
}

ScalarBits sub(DType dtype, Args x) {
  if (!is_float(dtype)) return canonical_bits(dtype, x[0] - x[1]);
  const FloatFormat format = float_format(dtype);
  return detail::soft_add(x[0], x[1] ^ detail::sign_bit(format), format);
}

ScalarBits mul(DType dtype, Args x) {
  if (is_float(dtype)) return detail::soft_mul(x[0], x[1], float_format(dtype));
  if (dtype == DType::kBool) return x[0] & x[1];
  return canonical_bits(dtype, x[0] * x[1]);
}

// Quotients and remainders of canonical integers; by zero both are 0. MIN / -1 wraps to MIN.
ScalarBits truncating_div(DType dtype, ScalarBits a, ScalarBits b) {
  if (b == 0) return 0;
  if (!compares_as_signed(dtype)) return a / b;
  if (as_signed(b) == -1) return canonical_bits(dtype, 0 - a);
  return static_cast<ScalarBits>(as_signed(a) / as_signed(b));
}

ScalarBits truncating_mod(DType dtype, ScalarBits a, ScalarBits b) {
  if (b == 0) return 0;
  if (!compares_as_signed(dtype)) return a % b;
  if (as_signed(b) == -1) return 0;
  return static_cast<ScalarBits>(as_signed(a) % as_signed(b));
}

// A remainder that floor division would not leave: not zero, and of the other sign than b.
bool is_remainder_below(DType dtype, ScalarBits remainder, ScalarBits b) {
  return compares_as_signed(dtype) && remainder != 0 &&
         (as_signed(remainder) < 0) != (as_signed(b) < 0);
}

ScalarBits div(DType dtype, Args x) {
  if (is_float(dtype)) return detail::soft_div(x[0], x[1], float_format(dtype));
  return truncating_div(dtype, x[0], x[1]);
}

ScalarBits mod(DType dtype, Args x) {
  return truncating_mod(dtype, x[0], x[1]);
}

ScalarBits floor_div(DType dtype, Args x) {
  const ScalarBits quotient = truncating_div(dtype, x[0], x[1]);
  const ScalarBits remainder = truncating_mod(dtype, x[0], x[1]);
  return is_remainder_below(dtype, remainder, x[1]) ? quotient - 1 : quotient;
}

ScalarBits floor_mod(DType dtype, Args x) {
  const ScalarBits remainder = truncating_mod(dtype, x[0], x[1]);
  return is_remainder_below(dtype, remainder, x[1]) ? remainder + x[1] : remainder;
}

ScalarBits mul_acc(DType dtype, Args x) {
  const FloatFormat format = float_format(dtype);
  return detail::soft_add(detail::soft_mul(x[0], x[1], format), x[2], format);
}

ScalarBits fma(DType dtype, Args x) {
  return detail::soft_fma(x[0], x[1], x[2], float_format(dtype));
}

// Of two values that are not NaN; -0 and +0 are equal here.
bool is_less(DType dtype, ScalarBits a, ScalarBits b) {
  if (is_float(dtype)) {
    const FloatFormat format = float_format(dtype);
    return detail::order_key(a, format) < detail::order_key(b, format);
  }
  return compares_as_signed(dtype) ? as_signed(a) < as_signed(b) : a < b;
}

bool are_equal(DType dtype, ScalarBits a, ScalarBits b) {
  return !is_less(dtype, a, b) && !is_less(dtype, b, a);
}

bool has_nan(DType dtype, Args x) {
  return is_nan(dtype, x[0]) || is_nan(dtype, x[1]);
}

// Equal values have equal bits, except zeros: `or` keeps a minus, `and` drops it.
ScalarBits min(DType dtype, Args x) {
  if (has_nan(dtype, x)) return nan_of(dtype);
  if (are_equal(dtype, x[0], x[1])) return x[0] | x[1];
  return is_less(dtype, x[0], x[1]) ? x[0] : x[1];
}

ScalarBits max(DType dtype, Args x) {
  if (has_nan(dtype, x)) return nan_of(dtype);
  if (are_equal(dtype, x[0], x[1])) return x[0] & x[1];
  return is_less(dtype, x[0], x[1]) ? x[1] : x[0];
}

// Of floats, neg and abs change the sign bit and nothing else, NaN included.
ScalarBits neg(DType dtype, Args x) {
  if (is_float(dtype)) return x[0] ^ detail::sign_bit(float_format(dtype));
  return canonical_bits(dtype, 0 - x[0]);
}

ScalarBits abs(DType dtype, Args x) {
  if (is_float(dtype)) return x[0] & ~detail::sign_bit(float_format(dtype));
  if (compares_as_signed(dtype) && as_signed(x[0]) < 0) return canonical_bits(dtype, 0 - x[0]);
  return x[0];
}

ScalarBits sqrt(DType dtype, Args x) {
  return detail::soft_sqrt(x[0], float_format(dtype));
}

template <RoundTo direction>
ScalarBits round_to(DType dtype, Args x) {
  return detail::soft_round(x[0], direction, float_format(dtype));
}

// --- bits, shifts, comparison, selection ---------------------------------------------------------

ScalarBits bit_and(DType, Args x) {
  return x[0] & x[1];
}

ScalarBits bit_or(DType, Args x) {
  return x[0] | x[1];
}

ScalarBits bit_xor(DType, Args x) {
  return x[0] ^ x[1];
}

ScalarBits bit_not(DType dtype, Args x) {
  if (dtype == DType::kBool) return x[0] ^ 1;
  return canonical_bits(dtype, ~x[0]);
}

// A negative count is a huge one when read as unsigned, so it is out of range too.
ScalarBits shl(DType dtype, Args x) {
  if (x[1] >= static_cast<uint64_t>(dtype_bits(dtype))) return 0;
  return canonical_bits(dtype, x[0] << x[1]);
}

ScalarBits shr(DType dtype, Args x) {
  const bool is_out = x[1] >= static_cast<uint64_t>(dtype_bits(dtype));
  if (is_signed_int(dtype)) return static_cast<ScalarBits>(as_signed(x[0]) >> (is_out ? 63 : x[1]));
  return is_out ? 0 : x[0] >> x[1];
}

ScalarBits lt(DType dtype, Args x) {
  return !has_nan(dtype, x) && is_less(dtype, x[0], x[1]) ? 1 : 0;
}

ScalarBits le(DType dtype, Args x) {
  return !has_nan(dtype, x) && !is_less(dtype, x[1], x[0]) ? 1 : 0;
}

ScalarBits eq(DType dtype, Args x) {
  return !has_nan(dtype, x) && are_equal(dtype, x[0], x[1]) ? 1 : 0;
}

ScalarBits ne(DType dtype, Args x) {
  return eq(dtype, x) ^ 1;
}

ScalarBits test_nan(DType dtype, Args x) {
  return is_nan(dtype, x[0]) ? 1 : 0;
}

ScalarBits test_inf(DType dtype, Args x) {
  return detail::is_inf_bits(x[0], float_format(dtype)) ? 1 : 0;
}

ScalarBits test_finite(DType dtype, Args x) {
  return (test_nan(dtype, x) | test_inf(dtype, x)) ^ 1;
}

ScalarBits where(DType, Args x) {
  return x[0] != 0 ? x[1] : x[2];
}

// --- bounded class -------------------------------------------------------------------------------

double sigmoid(double x) {
  // exp of a negative number on both sides: no overflow, and small results keep their bits.
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

template <double (*function)(double)>
ScalarBits through_double(DType dtype, Args x) {
  return double_to_float(function(float_to_double(x[0], dtype)), dtype);
}

double exp2_of(double x) {
  return std::exp2(x);
}
double log2_of(double x) {
  return std::log2(x);
}
double sin_of(double x) {
  return std::sin(x);
}
double exp_of(double x) {
  return std::exp(x);
}
double log_of(double x) {
  return std::log(x);
}
double cos_of(double x) {
  return std::cos(x);
}
double tan_of(double x) {
  return std::tan(x);
}
double tanh_of(double x) {
  return std::tanh(x);
}

// --- the table -----------------------------------------------------------------------------------

struct Row {
  Op op;
  int arity;
  unsigned kinds;
  Fn function;
};

// clang-format off
constexpr Row kRows[] = {
    {Op::kAdd, 2, kAll, add},
    {Op::kSub, 2, kNumbers, sub},
    {Op::kMul, 2, kAll, mul},
    {Op::kDiv, 2, kNumbers, div},
    {Op::kMod, 2, kInts | kIndices, mod},
    {Op::kFloorDiv, 2, kInts | kIndices, floor_div},
    {Op::kFloorMod, 2, kInts | kIndices, floor_mod},
    {Op::kMulAcc, 3, kFloats, mul_acc},
    {Op::kFma, 3, kFloats, fma},
    {Op::kMin, 2, kAll, min},
    {Op::kMax, 2, kAll, max},
    {Op::kNeg, 1, kNumbers, neg},
    {Op::kAbs, 1, kAll, abs},
    {Op::kSqrt, 1, kFloats, sqrt},
    {Op::kTrunc, 1, kFloats, round_to<RoundTo::kZero>},
    {Op::kFloor, 1, kFloats, round_to<RoundTo::kDown>},
    {Op::kCeil, 1, kFloats, round_to<RoundTo::kUp>},
    {Op::kRound, 1, kFloats, round_to<RoundTo::kNearestEven>},
    {Op::kAnd, 2, kInts | kBools, bit_and},
    {Op::kOr, 2, kInts | kBools, bit_or},
    {Op::kXor, 2, kInts | kBools, bit_xor},
    {Op::kNot, 1, kInts | kBools, bit_not},
    {Op::kShl, 2, kInts, shl},
    {Op::kShr, 2, kInts, shr},
    {Op::kLt, 2, kAll, lt},
    {Op::kLe, 2, kAll, le},
    {Op::kEq, 2, kAll, eq},
    {Op::kNe, 2, kAll, ne},
    {Op::kIsNan, 1, kFloats, test_nan},
    {Op::kIsInf, 1, kFloats, test_inf},
    {Op::kIsFinite, 1, kFloats, test_finite},
    {Op::kWhere, 3, kAll, where},
    {Op::kExp2, 1, kFloats, through_double<exp2_of>},
    {Op::kLog2, 1, kFloats, through_double<log2_of>},
    {Op::kSin, 1, kFloats, through_double<sin_of>},
    {Op::kExp, 1, kFloats, through_double<exp_of>},
    {Op::kLog, 1, kFloats, through_double<log_of>},
    {Op::kCos, 1, kFloats, through_double<cos_of>},
    {Op::kTan, 1, kFloats, through_double<tan_of>},
    {Op::kTanh, 1, kFloats, through_double<tanh_of>},
    {Op::kSigmoid, 1, kFloats, through_double<sigmoid>},
};
// clang-format on

constexpr auto make_table() {
  std::array<Row, 256> table{};
  for (const Row& row : kRows)
    table[static_cast<size_t>(row.op)] = row;
  return table;
}
constexpr auto kTable = make_table();

// Every elementwise op of op.def has a row with its arity; casts have functions of their own.
constexpr bool is_table_complete() {
  bool is_complete = true;
  size_t num_rows = 0;
  const auto check = [&](Op op, int arity, OpClass op_class) {
    const bool is_scalar_function = op_class == OpClass::kUnary || op_class == OpClass::kBinary ||
                                    op_class == OpClass::kTernary;
    if (!is_scalar_function || op == Op::kCast || op == Op::kBitcast) return;
    ++num_rows;
    const Row& row = kTable[static_cast<size_t>(op)];
    is_complete = is_complete && row.function != nullptr && row.arity == arity;
  };
#define TENON_OP(name, number, text, arity, op_class, rule, levels) \
  check(Op::name, arity, OpClass::op_class);
#include "tenon/types/op.def"
#undef TENON_OP
  return is_complete && num_rows == std::size(kRows);
}
static_assert(is_table_complete(), "eval_op: an elementwise op has no row, or a wrong arity");

}  // namespace

ScalarBits canonical_bits(DType dtype, uint64_t bits) {
  const int width = dtype_bits(dtype);
  if (width == 64 || width == 0) return bits;
  if (dtype == DType::kBool) return (bits & 0xff) != 0 ? 1 : 0;
  const int unused = 64 - width;
  if (is_signed_int(dtype)) {
    return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
  }
  return bits << unused >> unused;
}

ScalarBits eval_op(Op op, DType dtype, std::span<const ScalarBits> args) {
  const Row& row = kTable[static_cast<size_t>(op)];
  TENON_ASSERT(row.function != nullptr, "eval_op: ", op_name(op), " is no function of scalars");
  TENON_ASSERT(args.size() == static_cast<size_t>(row.arity), "eval_op: ", op_name(op), " takes ",
               row.arity, " arguments, got ", args.size());
  TENON_ASSERT((row.kinds & kind_bit(dtype_kind(dtype))) != 0, "eval_op: ", op_name(op),
               " is not defined for ", dtype_name(dtype));
  std::array<ScalarBits, 3> canonical{};
  for (size_t i = 0; i < args.size(); ++i) {
    const bool is_condition = op == Op::kWhere && i == 0;
    canonical[i] = canonical_bits(is_condition ? DType::kBool : dtype, args[i]);
  }
  return row.function(dtype, canonical.data());
}

ScalarBits eval_fused_mulacc(DType dtype, ScalarBits a, ScalarBits b, ScalarBits c) {
  return eval_op(Op::kFma, dtype, std::array{a, b, c});
}

ScalarBits eval_cast(ScalarBits bits, DType from, DType to) {
  const ScalarBits value = canonical_bits(from, bits);
  if (from == to) return value;
  if (is_float(from)) {
    const FloatFormat format = float_format(from);
    if (is_float(to)) return detail::convert_float(value, format, float_format(to));
    if (to == DType::kBool) return (value & ~detail::sign_bit(format)) != 0 ? 1 : 0;
    const int width = to == DType::kIdx ? 64 : dtype_bits(to);
    return detail::float_to_int(value, format, width, compares_as_signed(to));
  }
  if (to == DType::kBool) return value != 0 ? 1 : 0;
  if (!is_float(to)) return canonical_bits(to, value);
  if (value == 0) return 0;
  const bool is_negative = compares_as_signed(from) && as_signed(value) < 0;
  return detail::round_to_float(is_negative, is_negative ? 0 - value : value, 0, false,
                                float_format(to));
}

ScalarBits eval_bitcast(ScalarBits bits, DType from, DType to) {
  TENON_ASSERT(dtype_bits(from) == dtype_bits(to) && dtype_bits(to) > 0, "bitcast from ",
               dtype_name(from), " to ", dtype_name(to), ": widths differ");
  return canonical_bits(to, bits);
}

double float_to_double(ScalarBits bits, DType dtype) {
  const ScalarBits value = canonical_bits(dtype, bits);
  if (dtype == DType::kF64) return std::bit_cast<double>(value);
  return std::bit_cast<double>(
      detail::convert_float(value, float_format(dtype), float_format(DType::kF64)));
}

ScalarBits double_to_float(double value, DType dtype) {
  return detail::convert_float(std::bit_cast<uint64_t>(value), float_format(DType::kF64),
                               float_format(dtype));
}

}  // namespace tenon
