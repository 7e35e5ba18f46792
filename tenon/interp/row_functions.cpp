// SPDX-License-Identifier: MIT

#include "tenon/interp/row_functions.h"

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

// --- words and host values -----------------------------------------------------------------------

template <typename T>
T get(uint64_t word) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<T>(static_cast<uint32_t>(word));
  if constexpr (std::is_same_v<T, double>) return std::bit_cast<T>(word);
  return static_cast<T>(word);
}

/// NaN becomes the one that eval_op gives.
template <typename T>
uint64_t put(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return value != value ? 0x7fc00000U : std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return value != value ? 0x7ff8000000000000U : std::bit_cast<uint64_t>(value);
  } else {
    return static_cast<uint64_t>(static_cast<int64_t>(value));  // the sign, if T has one
  }
}

/// visit(T{}) with the host's type of the dtype; of narrow floats, that of their bits.
template <typename Visit>
auto with_host_type(DType dtype, Visit&& visit) {
  const int bits = dtype_bits(dtype);
  if (dtype == DType::kBool) return visit(bool{});
  if (dtype == DType::kF32) return visit(float{});
  if (dtype == DType::kF64) return visit(double{});
  if (is_signed_int(dtype)) {
    if (bits == 8) return visit(int8_t{});
    if (bits == 16) return visit(int16_t{});
    return bits == 32 ? visit(int32_t{}) : visit(int64_t{});
  }
  if (bits == 8) return visit(uint8_t{});
  if (bits == 16) return visit(uint16_t{});
  return bits == 32 ? visit(uint32_t{}) : visit(uint64_t{});
}

bool has_host_type(DType dtype) {
  return !is_float(dtype) || dtype_bits(dtype) >= 32;
}

// --- ops -----------------------------------------------------------------------------------------

/// The ops of floats, or false. Of two zeros the sign decides, NaN wins.
template <std::floating_point T>
bool arithmetic_row(const RowOp& op, auto each) {
  const bool is_fused = op.op == Op::kFma || op.fuses_mulacc;
  if (op.op == Op::kAdd) return each([](T a, T b, T) { return a + b; });
  if (op.op == Op::kSub) return each([](T a, T b, T) { return a - b; });
  if (op.op == Op::kMul) return each([](T a, T b, T) { return a * b; });
  if (op.op == Op::kDiv) return each([](T a, T b, T) { return a / b; });
  if (op.op == Op::kSqrt) return each([](T a, T, T) { return std::sqrt(a); });
  if (op.op == Op::kTrunc) return each([](T a, T, T) { return std::trunc(a); });
  if (op.op == Op::kMulAcc && !is_fused) return each([](T a, T b, T c) { return a * b + c; });
  if (op.op == Op::kMulAcc || op.op == Op::kFma) {
    return each([](T a, T b, T c) { return std::fma(a, b, c); });
  }
  if (op.op == Op::kMin) {
    return each([](T a, T b, T) {
      if (a != a || b != b) return a + b;
      return a < b || (a == b && std::signbit(a)) ? a : b;
    });
  }
  if (op.op == Op::kMax) {
    return each([](T a, T b, T) {
      if (a != a || b != b) return a + b;
      return a < b || (a == b && std::signbit(a)) ? b : a;
    });
  }
  return false;
}

/// The ops of integers, or false; on words, so that nothing is promoted or overflows.
template <std::integral T>
bool arithmetic_row(const RowOp& op, auto each) {
  using Word = uint64_t;
  constexpr bool kIsBool = std::is_same_v<T, bool>;
  const auto wrapped = [&](auto f) {
    return each([f](T a, T b, T) { return static_cast<T>(f(Word(a), Word(b))); });
  };
  if (op.op == Op::kAnd) return wrapped([](Word a, Word b) { return a & b; });
  if (op.op == Op::kOr) return wrapped([](Word a, Word b) { return a | b; });
  if (op.op == Op::kXor) return wrapped([](Word a, Word b) { return a ^ b; });
  if (op.op == Op::kNot) return wrapped([](Word a, Word) { return kIsBool ? a ^ 1 : ~a; });
  if constexpr (kIsBool) return false;
  if (op.op == Op::kAdd) return wrapped([](Word a, Word b) { return a + b; });
  if (op.op == Op::kSub) return wrapped([](Word a, Word b) { return a - b; });
  if (op.op == Op::kMul) return wrapped([](Word a, Word b) { return a * b; });
  if (op.op == Op::kMin) return each([](T a, T b, T) { return b < a ? b : a; });
  if (op.op == Op::kMax) return each([](T a, T b, T) { return a < b ? b : a; });
  // A negative count is a huge one as a word.
  constexpr Word kWidth = 8 * sizeof(T);
  if (op.op == Op::kShl) return wrapped([](Word a, Word b) { return b < kWidth ? a << b : 0; });
  if (op.op == Op::kShr) {
    return each([](T a, T b, T) {
      return static_cast<T>(Word(b) < kWidth ? a >> Word(b) : T(a < T{0} ? ~Word{0} : 0));
    });
  }
  return false;
}

template <typename T>
void row(const RowOp& op, uint64_t* dst, const uint64_t* const* src, size_t count) {
  const std::array<const uint64_t*, 3> from{src[0], src[op.num_args > 1 ? 1 : 0],
                                            src[op.num_args > 2 ? 2 : 0]};
  const auto each = [&](auto f) {
    for (size_t i = 0; i < count; ++i)
      dst[i] = put(f(get<T>(from[0][i]), get<T>(from[1][i]), get<T>(from[2][i])));
    return true;
  };
  if (arithmetic_row<T>(op, each)) return;
  if (op.op == Op::kLt) return void(each([](T a, T b, T) { return a < b; }));
  if (op.op == Op::kLe) return void(each([](T a, T b, T) { return a <= b; }));
  if (op.op == Op::kEq) return void(each([](T a, T b, T) { return a == b; }));
  eval_row(op, dst, src, count);
}

void mulacc4_row(const RowOp&, uint64_t* dst, const uint64_t* const* src, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    double sum = get<float>(src[8][i]);
    for (size_t k = 0; k < 8; k += 2)
      sum = std::fma(double{get<float>(src[k][i])}, double{get<float>(src[k + 1][i])}, sum);
    dst[i] = put(static_cast<float>(sum));
  }
}

void select_row(const RowOp&, uint64_t* dst, const uint64_t* const* src, size_t count) {
  for (size_t i = 0; i < count; ++i)
    dst[i] = src[0][i] != 0 ? src[1][i] : src[2][i];
}

// --- casts ---------------------------------------------------------------------------------------

/// Truncates and saturates; NaN gives 0.
template <std::integral To>
To to_integer(double value) {
  constexpr double kAbove =
      2.0 * static_cast<double>(uint64_t{1} << (std::numeric_limits<To>::digits - 1));
  if (value != value) return 0;
  if (value >= kAbove) return std::numeric_limits<To>::max();
  if (value <= (std::is_signed_v<To> ? -kAbove : -1)) return std::numeric_limits<To>::min();
  return static_cast<To>(value);
}

template <typename From, typename To>
void cast_row(const RowOp&, uint64_t* dst, const uint64_t* const* src, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const From value = get<From>(src[0][i]);
    if constexpr (std::is_same_v<To, bool>) {
      dst[i] = value != 0 ? 1 : 0;  // NaN too
    } else if constexpr (std::floating_point<From> && std::integral<To>) {
      dst[i] = put(to_integer<To>(value));
    } else {
      dst[i] = put(static_cast<To>(value));
    }
  }
}

/// Integers come from words of 64 bits: only their sign matters.
RowFunction find_cast(const RowOp& op) {
  return with_host_type(op.result, [&]<typename To>(To) -> RowFunction {
    if (op.dtype == DType::kF32) return cast_row<float, To>;
    if (op.dtype == DType::kF64) return cast_row<double, To>;
    return is_signed_int(op.dtype) ? cast_row<int64_t, To> : cast_row<uint64_t, To>;
  });
}

}  // namespace

void eval_row(const RowOp& op, uint64_t* dst, const uint64_t* const* src, size_t count) {
  std::array<ScalarBits, kMaxScalarOperands> args{};
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < op.num_args; ++k)
      args[k] = src[k][i];
    if (op.op == Op::kCast) {
      dst[i] = eval_cast(args[0], op.dtype, op.result);
    } else if (op.op == Op::kBitcast) {
      dst[i] = eval_bitcast(args[0], op.dtype, op.result);
    } else if (op.op == Op::kMulAcc && op.fuses_mulacc) {
      dst[i] = eval_fused_mulacc(op.dtype, args[0], args[1], args[2]);
    } else {
      dst[i] = eval_op(op.op, op.dtype, {args.data(), op.num_args});
    }
  }
}

RowFunction find_row_function(const RowOp& op) {
  if (op.op == Op::kWhere) return select_row;
  if (op.op == Op::kMulAcc4) return op.dtype == DType::kF32 ? mulacc4_row : eval_row;
  const bool has_host_types = has_host_type(op.dtype) && has_host_type(op.result);
  if (!has_host_types || op.op == Op::kBitcast) return eval_row;
  // NaN keeps its bits in a cast to the same dtype.
  if (op.op == Op::kCast) return op.dtype == op.result ? eval_row : find_cast(op);
  return with_host_type(op.dtype, []<typename T>(T) -> RowFunction { return row<T>; });
}

uint64_t fused_f32(uint64_t a, uint64_t b, uint64_t c) {
  return put(std::fma(get<float>(a), get<float>(b), get<float>(c)));
}

ElementMoves find_element_moves(DType dtype) {
  return with_host_type(dtype, []<typename T>(T) -> ElementMoves {
    using Stored = std::conditional_t<
        std::is_same_v<T, bool>, uint8_t,
        std::conditional_t<std::is_same_v<T, float>, uint32_t,
                           std::conditional_t<std::is_same_v<T, double>, uint64_t, T>>>;
    return {[](uint64_t* dst, const std::byte* src, size_t count) {
              for (size_t i = 0; i < count; ++i) {
                Stored value;  // little-endian hosts only
                std::memcpy(&value, src + i * sizeof value, sizeof value);
                dst[i] = std::is_same_v<T, bool> ? put(value != 0) : put(value);
              }
            },
            [](std::byte* dst, const uint64_t* src, size_t count) {
              for (size_t i = 0; i < count; ++i) {
                const auto value = static_cast<Stored>(src[i]);
                std::memcpy(dst + i * sizeof value, &value, sizeof value);
              }
            }};
  });
}

}  // namespace tenon
