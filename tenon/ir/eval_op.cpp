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

// What the functions below ask about a dtype, looked up once per call of eval_op.
struct Facts {
  DType dtype{};
  DTypeKind kind{};
  bool is_float = false;
  bool is_bool = false;
  bool is_signed = false;  // compares as int64: signed integers and idx
  int width = 64;          // bits; 64 for idx
  FloatFormat format{};    // of floats

  ScalarBits canonical(uint64_t bits) const {
    if (is_bool) return (bits & 0xff) != 0 ? 1 : 0;
    const int unused = 64 - width;
    if (is_signed) return static_cast<uint64_t>(static_cast<int64_t>(bits << unused) >> unused);
    return bits << unused >> unused;
  }
};

Facts make_facts(DType dtype) {
  Facts facts;
  facts.dtype = dtype;
  facts.kind = dtype_kind(dtype);
  facts.is_float = is_float(dtype);
  facts.is_bool = dtype == DType::kBool;
  facts.is_signed = is_signed_int(dtype) || facts.kind == DTypeKind::kIndex;
  if (dtype_bits(dtype) > 0) facts.width = dtype_bits(dtype);
  if (facts.is_float) facts.format = float_format(dtype);
  return facts;
}

constexpr size_t kNumDTypes = static_cast<size_t>(DType::kIdx) + 1;

const Facts& facts_of(DType dtype) {
  static const std::array<Facts, kNumDTypes> table = [] {
    std::array<Facts, kNumDTypes> facts;
    for (const DType each : storage_dtypes())
      facts[static_cast<size_t>(each)] = make_facts(each);
    facts[static_cast<size_t>(DType::kIdx)] = make_facts(DType::kIdx);
    return facts;
  }();
  const auto number = static_cast<size_t>(dtype);
  TENON_ASSERT(number > 0 && number < kNumDTypes, "no dtype has number ", number);
  return table[number];
}

// Arguments come in canonical form; the functions for integers serve idx too, as i64.
using Args = const ScalarBits*;
using Fn = ScalarBits (*)(const Facts& t, Args args);

int64_t as_signed(ScalarBits bits) {
  return static_cast<int64_t>(bits);
}

ScalarBits nan_of(const Facts& t) {
  return detail::quiet_nan_bits(t.format);
}

bool is_nan(const Facts& t, ScalarBits bits) {
  return t.is_float && detail::is_nan_bits(bits, t.format);
}

// --- arithmetic ----------------------------------------------------------------------------------

ScalarBits add(const Facts& t, Args x) {
  if (t.is_float) return detail::soft_add(x[0], x[1], t.format);
  if (t.is_bool) return x[0] | x[1];
  return t.canonical(x[0] + x[1]);
}

ScalarBits sub(const Facts& t, Args x) {
  if (!t.is_float) return t.canonical(x[0] - x[1]);
  const FloatFormat& format = t.format;
  return detail::soft_add(x[0], x[1] ^ detail::sign_bit(format), format);
}

ScalarBits mul(const Facts& t, Args x) {
  if (t.is_float) return detail::soft_mul(x[0], x[1], t.format);
  if (t.is_bool) return x[0] & x[1];
  return t.canonical(x[0] * x[1]);
}

// Quotients and remainders of canonical integers; by zero both are 0. MIN / -1 wraps to MIN.
ScalarBits truncating_div(const Facts& t, ScalarBits a, ScalarBits b) {
  if (b == 0) return 0;
  if (!t.is_signed) return a / b;
  if (as_signed(b) == -1) return t.canonical(0 - a);
  return static_cast<ScalarBits>(as_signed(a) / as_signed(b));
}

ScalarBits truncating_mod(const Facts& t, ScalarBits a, ScalarBits b) {
  if (b == 0) return 0;
  if (!t.is_signed) return a % b;
  if (as_signed(b) == -1) return 0;
  return static_cast<ScalarBits>(as_signed(a) % as_signed(b));
}

// A remainder that floor division would not leave: not zero, and of the other sign than b.
bool is_remainder_below(const Facts& t, ScalarBits remainder, ScalarBits b) {
  return t.is_signed && remainder != 0 && (as_signed(remainder) < 0) != (as_signed(b) < 0);
}

ScalarBits div(const Facts& t, Args x) {
  if (t.is_float) return detail::soft_div(x[0], x[1], t.format);
  return truncating_div(t, x[0], x[1]);
}

ScalarBits mod(const Facts& t, Args x) {
  return truncating_mod(t, x[0], x[1]);
}

ScalarBits floor_div(const Facts& t, Args x) {
  const ScalarBits quotient = truncating_div(t, x[0], x[1]);
  const ScalarBits remainder = truncating_mod(t, x[0], x[1]);
  return is_remainder_below(t, remainder, x[1]) ? quotient - 1 : quotient;
}

ScalarBits floor_mod(const Facts& t, Args x) {
  const ScalarBits remainder = truncating_mod(t, x[0], x[1]);
  return is_remainder_below(t, remainder, x[1]) ? remainder + x[1] : remainder;
}

ScalarBits mul_acc(const Facts& t, Args x) {
  const FloatFormat& format = t.format;
  return detail::soft_add(detail::soft_mul(x[0], x[1], format), x[2], format);
}

ScalarBits fma(const Facts& t, Args x) {
  return detail::soft_fma(x[0], x[1], x[2], t.format);
}

// One rounding to f64 for each product that is added, one to the dtype at the end.
ScalarBits mul_acc4(const Facts& t, Args x) {
  double sum = float_to_double(x[8], t.dtype);
  for (size_t i = 0; i < 8; i += 2)
    sum = std::fma(float_to_double(x[i], t.dtype), float_to_double(x[i + 1], t.dtype), sum);
  return double_to_float(sum, t.dtype);
}

// Of two values that are not NaN; -0 and +0 are equal here.
bool is_less(const Facts& t, ScalarBits a, ScalarBits b) {
  if (t.is_float) {
    const FloatFormat& format = t.format;
    return detail::order_key(a, format) < detail::order_key(b, format);
  }
  return t.is_signed ? as_signed(a) < as_signed(b) : a < b;
}

bool are_equal(const Facts& t, ScalarBits a, ScalarBits b) {
  return !is_less(t, a, b) && !is_less(t, b, a);
}

bool has_nan(const Facts& t, Args x) {
  return is_nan(t, x[0]) || is_nan(t, x[1]);
}

// Equal values have equal bits, except zeros: `or` keeps a minus, `and` drops it.
ScalarBits min(const Facts& t, Args x) {
  if (has_nan(t, x)) return nan_of(t);
  if (are_equal(t, x[0], x[1])) return x[0] | x[1];
  return is_less(t, x[0], x[1]) ? x[0] : x[1];
}

ScalarBits max(const Facts& t, Args x) {
  if (has_nan(t, x)) return nan_of(t);
  if (are_equal(t, x[0], x[1])) return x[0] & x[1];
  return is_less(t, x[0], x[1]) ? x[1] : x[0];
}

// Of floats, neg and abs change the sign bit and nothing else, NaN included.
ScalarBits neg(const Facts& t, Args x) {
  if (t.is_float) return x[0] ^ detail::sign_bit(t.format);
  return t.canonical(0 - x[0]);
}

ScalarBits abs(const Facts& t, Args x) {
  if (t.is_float) return x[0] & ~detail::sign_bit(t.format);
  if (t.is_signed && as_signed(x[0]) < 0) return t.canonical(0 - x[0]);
  return x[0];
}

ScalarBits sqrt(const Facts& t, Args x) {
  return detail::soft_sqrt(x[0], t.format);
}

template <RoundTo kDirection>
ScalarBits round_to(const Facts& t, Args x) {
  return detail::soft_round(x[0], kDirection, t.format);
}

// --- bits, shifts, comparison, selection ---------------------------------------------------------

ScalarBits bit_and(const Facts&, Args x) {
  return x[0] & x[1];
}

ScalarBits bit_or(const Facts&, Args x) {
  return x[0] | x[1];
}

ScalarBits bit_xor(const Facts&, Args x) {
  return x[0] ^ x[1];
}

ScalarBits bit_not(const Facts& t, Args x) {
  if (t.is_bool) return x[0] ^ 1;
  return t.canonical(~x[0]);
}

// A negative count is a huge one when read as unsigned, so it is out of range too.
ScalarBits shl(const Facts& t, Args x) {
  if (x[1] >= static_cast<uint64_t>(t.width)) return 0;
  return t.canonical(x[0] << x[1]);
}

ScalarBits shr(const Facts& t, Args x) {
  const bool is_out = x[1] >= static_cast<uint64_t>(t.width);
  if (t.is_signed) return static_cast<ScalarBits>(as_signed(x[0]) >> (is_out ? 63 : x[1]));
  return is_out ? 0 : x[0] >> x[1];
}

ScalarBits lt(const Facts& t, Args x) {
  return !has_nan(t, x) && is_less(t, x[0], x[1]) ? 1 : 0;
}

ScalarBits le(const Facts& t, Args x) {
  return !has_nan(t, x) && !is_less(t, x[1], x[0]) ? 1 : 0;
}

ScalarBits eq(const Facts& t, Args x) {
  return !has_nan(t, x) && are_equal(t, x[0], x[1]) ? 1 : 0;
}

ScalarBits ne(const Facts& t, Args x) {
  return eq(t, x) ^ 1;
}

ScalarBits test_nan(const Facts& t, Args x) {
  return is_nan(t, x[0]) ? 1 : 0;
}

ScalarBits test_inf(const Facts& t, Args x) {
  return detail::is_inf_bits(x[0], t.format) ? 1 : 0;
}

ScalarBits test_finite(const Facts& t, Args x) {
  return (test_nan(t, x) | test_inf(t, x)) ^ 1;
}

ScalarBits where(const Facts&, Args x) {
  return x[0] != 0 ? x[1] : x[2];
}

// --- bounded class -------------------------------------------------------------------------------

double sigmoid(double x) {
  // exp of a negative number on both sides: no overflow, and small results keep their bits.
  const double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}

template <double (*kFunction)(double)>
ScalarBits through_double(const Facts& t, Args x) {
  return double_to_float(kFunction(float_to_double(x[0], t.dtype)), t.dtype);
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
    {Op::kMulAcc4, 9, kFloats, mul_acc4},
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
                                    op_class == OpClass::kTernary || op_class == OpClass::kNary;
    if (!is_scalar_function || op == Op::kCast || op == Op::kBitcast) return;
    ++num_rows;
    const Row& row = kTable[static_cast<size_t>(op)];
    // Not row.function: under -fsanitize=undefined g++ 12 takes no address for a constant.
    is_complete = is_complete && row.kinds != 0 && row.arity == arity;
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
  return facts_of(dtype).canonical(bits);
}

ScalarBits eval_op(Op op, DType dtype, std::span<const ScalarBits> args) {
  const Row& row = kTable[static_cast<size_t>(op)];
  TENON_ASSERT(row.function != nullptr, "eval_op: ", op_name(op), " is no function of scalars");
  TENON_ASSERT(args.size() == static_cast<size_t>(row.arity), "eval_op: ", op_name(op), " takes ",
               row.arity, " arguments, got ", args.size());
  const Facts& facts = facts_of(dtype);
  TENON_ASSERT((row.kinds & kind_bit(facts.kind)) != 0, "eval_op: ", op_name(op),
               " is not defined for ", dtype_name(dtype));
  std::array<ScalarBits, kMaxScalarOperands> canonical{};
  for (size_t i = 0; i < args.size(); ++i)
    canonical[i] = facts.canonical(args[i]);
  if (op == Op::kWhere) canonical[0] = canonical_bits(DType::kBool, args[0]);
  return row.function(facts, canonical.data());
}

ScalarBits eval_fused_mulacc(DType dtype, ScalarBits a, ScalarBits b, ScalarBits c) {
  return eval_op(Op::kFma, dtype, std::array{a, b, c});
}

ScalarBits eval_cast(ScalarBits bits, DType from_dtype, DType to_dtype) {
  const Facts& from = facts_of(from_dtype);
  const Facts& to = facts_of(to_dtype);
  const ScalarBits value = from.canonical(bits);
  if (from_dtype == to_dtype) return value;
  if (from.is_float) {
    if (to.is_float) return detail::convert_float(value, from.format, to.format);
    if (to.is_bool) return (value & ~detail::sign_bit(from.format)) != 0 ? 1 : 0;
    return detail::float_to_int(value, from.format, to.width, to.is_signed);
  }
  if (to.is_bool) return value != 0 ? 1 : 0;
  if (!to.is_float) return to.canonical(value);
  if (value == 0) return 0;
  const bool is_negative = from.is_signed && as_signed(value) < 0;
  return detail::round_to_float(is_negative, is_negative ? 0 - value : value, 0, false, to.format);
}

ScalarBits eval_bitcast(ScalarBits bits, DType from, DType to) {
  TENON_ASSERT(dtype_bits(from) == dtype_bits(to) && dtype_bits(to) > 0, "bitcast from ",
               dtype_name(from), " to ", dtype_name(to), ": widths differ");
  return canonical_bits(to, bits);
}

double float_to_double(ScalarBits bits, DType dtype) {
  if (dtype == DType::kF64) return std::bit_cast<double>(bits);
  const Facts& from = facts_of(dtype);
  TENON_ASSERT(from.is_float, dtype_name(dtype), " is not a float dtype");
  const FloatFormat& f64 = facts_of(DType::kF64).format;
  return std::bit_cast<double>(detail::convert_float(from.canonical(bits), from.format, f64));
}

ScalarBits double_to_float(double value, DType dtype) {
  const Facts& to = facts_of(dtype);
  TENON_ASSERT(to.is_float, dtype_name(dtype), " is not a float dtype");
  const FloatFormat& f64 = facts_of(DType::kF64).format;
  return detail::convert_float(std::bit_cast<uint64_t>(value), f64, to.format);
}

}  // namespace tenon
