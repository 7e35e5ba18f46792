// SPDX-License-Identifier: MIT

#include "tenon/interp/row_functions.h"

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
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(word));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(word);
  } else {
    return static_cast<T>(word);
  }
}

/// NaN becomes the one that eval_op gives.
template <typename T>
uint64_t put(T value) {
  if constexpr (std::is_same_v<T, float>) {
    return value != value ? 0x7fc00000U : std::bit_cast<uint32_t>(value);
  } else if constexpr (std::is_same_v<T, double>) {
    return value != value ? 0x7ff8000000000000U : std::bit_cast<uint64_t>(value);
  } else if constexpr (std::signed_integral<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    return static_cast<uint64_t>(value);
  }
}

// --- ops -----------------------------------------------------------------------------------------

template <typename T>
struct Float {
  static T add(T a, T b, T) { return a + b; }
  static T sub(T a, T b, T) { return a - b; }
  static T mul(T a, T b, T) { return a * b; }
  static T div(T a, T b, T) { return a / b; }
  static T mulacc(T a, T b, T c) { return a * b + c; }
  static T fma(T a, T b, T c) { return std::fma(a, b, c); }
  static T sqrt(T a, T, T) { return std::sqrt(a); }
  static T trunc(T a, T, T) { return std::trunc(a); }
  // NaN wins; of two zeros the sign decides.
  static T min(T a, T b, T) {
    if (a != a || b != b) return a + b;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
  static T max(T a, T b, T) {
    if (a != a || b != b) return a + b;
    if (a == b) return std::signbit(a) ? b : a;
    return a < b ? b : a;
  }
};

/// On words, so that nothing is promoted or overflows.
template <typename T>
struct Integer {
  static T add(T a, T b, T) { return static_cast<T>(uint64_t(a) + uint64_t(b)); }
  static T sub(T a, T b, T) { return static_cast<T>(uint64_t(a) - uint64_t(b)); }
  static T mul(T a, T b, T) { return static_cast<T>(uint64_t(a) * uint64_t(b)); }
  static T div(T a, T b, T) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return static_cast<T>(0 - uint64_t(a));
    }
    return static_cast<T>(a / b);
  }
  static T mod(T a, T b, T) {
    if (b == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      if (b == -1) return 0;
    }
    return static_cast<T>(a % b);
  }
  static T min(T a, T b, T) { return b < a ? b : a; }
  static T max(T a, T b, T) { return a < b ? b : a; }
  static T bit_and(T a, T b, T) { return static_cast<T>(a & b); }
  static T bit_or(T a, T b, T) { return static_cast<T>(a | b); }
  static T bit_xor(T a, T b, T) { return static_cast<T>(a ^ b); }
  static T bit_not(T a, T, T) { return static_cast<T>(~a); }
  // A negative count is a huge one as a word.
  static constexpr uint64_t kWidth = 8 * sizeof(T);
  static T shl(T a, T b, T) {
    return uint64_t(b) >= kWidth ? T{0} : static_cast<T>(uint64_t(a) << uint64_t(b));
  }
  static T shr(T a, T b, T) {
    if (uint64_t(b) < kWidth) return static_cast<T>(a >> static_cast<int>(b));
    return static_cast<T>(a < 0 ? -1 : 0);
  }
};

template <typename T>
struct Compare {
  static bool lt(T a, T b, T) { return a < b; }
  static bool le(T a, T b, T) { return a <= b; }
  static bool eq(T a, T b, T) { return a == b; }
};

template <typename T, auto kFunction, int kArgs>
void row(const RowOp&, uint64_t* dst, const uint64_t* const* src, size_t count) {
  const uint64_t* const a = src[0];
  const uint64_t* const b = kArgs > 1 ? src[1] : a;
  const uint64_t* const c = kArgs > 2 ? src[2] : a;
  for (size_t i = 0; i < count; ++i)
    dst[i] = put(kFunction(get<T>(a[i]), get<T>(b[i]), get<T>(c[i])));
}

void select_row(const RowOp&, uint64_t* dst, const uint64_t* const* src, size_t count) {
  for (size_t i = 0; i < count; ++i)
    dst[i] = src[0][i] != 0 ? src[1][i] : src[2][i];
}

struct Row {
  Op op;
  RowFunction function;
};

template <typename T>
constexpr auto compare_rows() {
  return std::to_array<Row>({{Op::kLt, row<T, Compare<T>::lt, 2>},
                             {Op::kLe, row<T, Compare<T>::le, 2>},
                             {Op::kEq, row<T, Compare<T>::eq, 2>}});
}

template <typename T>
RowFunction find_in(Op op, const auto& rows) {
  for (const Row& each : rows) {
    if (each.op == op) return each.function;
  }
  for (const Row& each : compare_rows<T>()) {
    if (each.op == op) return each.function;
  }
  return nullptr;
}

template <typename T>
RowFunction float_row(const RowOp& op) {
  if (op.op == Op::kMulAcc && op.fuses_mulacc) return row<T, Float<T>::fma, 3>;
  return find_in<T>(op.op, std::to_array<Row>({{Op::kAdd, row<T, Float<T>::add, 2>},
                                               {Op::kSub, row<T, Float<T>::sub, 2>},
                                               {Op::kMul, row<T, Float<T>::mul, 2>},
                                               {Op::kDiv, row<T, Float<T>::div, 2>},
                                               {Op::kMulAcc, row<T, Float<T>::mulacc, 3>},
                                               {Op::kFma, row<T, Float<T>::fma, 3>},
                                               {Op::kMin, row<T, Float<T>::min, 2>},
                                               {Op::kMax, row<T, Float<T>::max, 2>},
                                               {Op::kSqrt, row<T, Float<T>::sqrt, 1>},
                                               {Op::kTrunc, row<T, Float<T>::trunc, 1>}}));
}

template <typename T>
RowFunction integer_row(const RowOp& op) {
  return find_in<T>(op.op, std::to_array<Row>({{Op::kAdd, row<T, Integer<T>::add, 2>},
                                               {Op::kSub, row<T, Integer<T>::sub, 2>},
                                               {Op::kMul, row<T, Integer<T>::mul, 2>},
                                               {Op::kDiv, row<T, Integer<T>::div, 2>},
                                               {Op::kMod, row<T, Integer<T>::mod, 2>},
                                               {Op::kMin, row<T, Integer<T>::min, 2>},
                                               {Op::kMax, row<T, Integer<T>::max, 2>},
                                               {Op::kAnd, row<T, Integer<T>::bit_and, 2>},
                                               {Op::kOr, row<T, Integer<T>::bit_or, 2>},
                                               {Op::kXor, row<T, Integer<T>::bit_xor, 2>},
                                               {Op::kNot, row<T, Integer<T>::bit_not, 1>},
                                               {Op::kShl, row<T, Integer<T>::shl, 2>},
                                               {Op::kShr, row<T, Integer<T>::shr, 2>}}));
}

struct Bool {
  static bool bit_and(bool a, bool b, bool) { return a && b; }
  static bool bit_or(bool a, bool b, bool) { return a || b; }
  static bool bit_xor(bool a, bool b, bool) { return a != b; }
  static bool bit_not(bool a, bool, bool) { return !a; }
};

RowFunction bool_row(const RowOp& op) {
  return find_in<bool>(op.op, std::to_array<Row>({{Op::kAnd, row<bool, Bool::bit_and, 2>},
                                                  {Op::kOr, row<bool, Bool::bit_or, 2>},
                                                  {Op::kXor, row<bool, Bool::bit_xor, 2>},
                                                  {Op::kNot, row<bool, Bool::bit_not, 1>}}));
}

// --- casts ---------------------------------------------------------------------------------------

/// Truncates and saturates; NaN gives 0.
template <std::integral To>
To to_integer(double value) {
  constexpr int kDigits = std::numeric_limits<To>::digits;
  constexpr double kAbove = 2.0 * static_cast<double>(uint64_t{1} << (kDigits - 1));
  if (value != value) return 0;
  if (value >= kAbove) return std::numeric_limits<To>::max();
  if constexpr (std::is_signed_v<To>) {
    if (value < -kAbove) return std::numeric_limits<To>::min();
  } else {
    if (value <= -1) return 0;
  }
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

/// Calls visit(T{}) with the host's type of the dtype; false if it has none.
template <typename Visit>
bool with_host_type(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kBool: visit(bool{}); return true;
    case DType::kI8: visit(int8_t{}); return true;
    case DType::kI16: visit(int16_t{}); return true;
    case DType::kI32: visit(int32_t{}); return true;
    case DType::kI64: visit(int64_t{}); return true;
    case DType::kU8: visit(uint8_t{}); return true;
    case DType::kU16: visit(uint16_t{}); return true;
    case DType::kU32: visit(uint32_t{}); return true;
    case DType::kU64: visit(uint64_t{}); return true;
    case DType::kF32: visit(float{}); return true;
    case DType::kF64: visit(double{}); return true;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kF16:
    case DType::kBF16:
    case DType::kIdx: return false;
  }
  return false;
}

/// Integers come from words of 64 bits: only their sign matters.
RowFunction find_cast(const RowOp& op) {
  RowFunction found = nullptr;
  with_host_type(op.result, [&]<typename To>(To) {
    if (op.dtype == DType::kF32) {
      found = cast_row<float, To>;
    } else if (op.dtype == DType::kF64) {
      found = cast_row<double, To>;
    } else if (!is_float(op.dtype)) {
      found = is_signed_int(op.dtype) ? cast_row<int64_t, To> : cast_row<uint64_t, To>;
    }
  });
  // A NaN of the same dtype keeps its bits; a canonical one does too.
  return op.dtype == op.result ? nullptr : found;
}

// --- memory --------------------------------------------------------------------------------------

template <typename T>
void load_elements(uint64_t* dst, const std::byte* src, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T value;  // little-endian hosts only
    std::memcpy(&value, src + i * sizeof(T), sizeof(T));
    dst[i] = static_cast<uint64_t>(static_cast<int64_t>(value));  // the sign, if T has one
  }
}

void load_bools(uint64_t* dst, const std::byte* src, size_t count) {
  for (size_t i = 0; i < count; ++i)
    dst[i] = src[i] != std::byte{0} ? 1 : 0;
}

template <typename T>
void store_elements(std::byte* dst, const uint64_t* src, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const T value = static_cast<T>(src[i]);
    std::memcpy(dst + i * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

void eval_row(const RowOp& op, uint64_t* dst, const uint64_t* const* src, size_t count) {
  std::array<ScalarBits, 3> args{};
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
  RowFunction found = nullptr;
  if (op.op == Op::kWhere) return select_row;
  if (op.op == Op::kCast) {
    found = find_cast(op);
  } else if (op.op != Op::kBitcast) {
    with_host_type(op.dtype, [&]<typename T>(T) {
      if constexpr (std::is_same_v<T, bool>) {
        found = bool_row(op);
      } else if constexpr (std::floating_point<T>) {
        found = float_row<T>(op);
      } else {
        found = integer_row<T>(op);
      }
    });
  }
  return found != nullptr ? found : eval_row;
}

ElementMoves find_element_moves(DType dtype) {
  if (dtype == DType::kBool) return {load_bools, store_elements<uint8_t>};
  const bool is_signed = is_signed_int(dtype);
  switch (dtype_size_bytes(dtype)) {
    case 1:
      return {is_signed ? load_elements<int8_t> : load_elements<uint8_t>, store_elements<uint8_t>};
    case 2:
      return {is_signed ? load_elements<int16_t> : load_elements<uint16_t>,
              store_elements<uint16_t>};
    case 4:
      return {is_signed ? load_elements<int32_t> : load_elements<uint32_t>,
              store_elements<uint32_t>};
    default: return {load_elements<uint64_t>, store_elements<uint64_t>};
  }
}

}  // namespace tenon
