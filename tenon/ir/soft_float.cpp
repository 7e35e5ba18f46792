// The method: take apart, compute exactly (or exactly up to a sticky bit) in 128-bit integers,
// round once. A sticky bit ("inexact") says that the true value lies strictly between the
// significand and its successor; that decides every tie as long as more bits than the target's lie
// above it. The steps are the usual ones, see J. Hauser's Berkeley SoftFloat 3 for the same on
// fixed formats. SPDX-License-Identifier: MIT

#include "tenon/ir/soft_float.h"

#include <algorithm>
#include <bit>

#include "tenon/base/error.h"

namespace tenon::detail {
namespace {

int num_bits(uint128_t value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  if (high != 0) return 128 - std::countl_zero(high);
  return 64 - std::countl_zero(static_cast<uint64_t>(value));
}

// value >> shift, and whether a one was shifted out; any shift >= 0.
struct Shifted {
  uint128_t value;
  bool lost;
};

Shifted shift_right(uint128_t value, int shift) {
  if (shift == 0) return {value, false};
  if (shift >= 128) return {0, value != 0};
  return {value >> shift, (value << (128 - shift)) != 0};
}

int64_t max_exponent_field(const FloatFormat& format) {
  return (int64_t{1} << format.exponent_bits) - 1;
}

uint64_t mantissa_mask(const FloatFormat& format) {
  return (uint64_t{1} << format.mantissa_bits) - 1;
}

// A term of a sum: significand * 2^exponent, with bit 125 the top bit set: two terms can be added
// without overflow, and a normalised 64-bit significand has 62 zeros below it.
struct Term {
  bool is_negative;
  uint128_t significand;
  int exponent;
};
constexpr int kTermBits = 126;

Term term_of(const Unpacked& value) {
  constexpr int kShift = kTermBits - 64;
  return {value.is_negative, uint128_t{value.significand} << kShift, value.exponent - kShift};
}

// The exact product, which has at most 2 * 53 significant bits, so that nothing is lost below.
Term product_of(const Unpacked& a, const Unpacked& b) {
  const uint128_t product = uint128_t{a.significand} * b.significand;
  const int shift = num_bits(product) - kTermBits;  // 1 or 2
  // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): bit 63 is set in both
  return {a.is_negative != b.is_negative, product >> shift, a.exponent + b.exponent + shift};
}

// The sum of two finite terms that are not zero. A bit is only lost in alignment if the exponents
// are at least 20 apart (product terms end in 20 zeros, others in 62), so that there is no
// cancellation then, and the significand of the result keeps more than 120 bits.
uint64_t round_sum(Term a, Term b, const FloatFormat& format) {
  if (a.exponent < b.exponent || (a.exponent == b.exponent && a.significand < b.significand)) {
    std::swap(a, b);
  }
  const Shifted small = shift_right(b.significand, a.exponent - b.exponent);
  if (a.is_negative == b.is_negative) {
    return round_to_float(a.is_negative, a.significand + small.value, a.exponent, small.lost,
                          format);
  }
  // a - (small + lost part) = (a - small - 1) + (1 - lost part).
  const uint128_t difference = a.significand - small.value - (small.lost ? 1 : 0);
  if (difference == 0) return 0;
  return round_to_float(a.is_negative, difference, a.exponent, small.lost, format);
}

// Largest root with root * root <= value, bit by bit.
uint64_t integer_sqrt(uint128_t value) {
  uint128_t root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const uint128_t candidate = root | (uint128_t{1} << bit);
    if (candidate * candidate <= value) root = candidate;
  }
  return static_cast<uint64_t>(root);
}

}  // namespace

uint64_t sign_bit(const FloatFormat& format) {
  return uint64_t{1} << (format.exponent_bits + format.mantissa_bits);
}

uint64_t quiet_nan_bits(const FloatFormat& format) {
  if (format.finite_only) return sign_bit(format) - 1;
  const uint64_t exponent = static_cast<uint64_t>(max_exponent_field(format))
                            << format.mantissa_bits;
  return exponent | uint64_t{1} << (format.mantissa_bits - 1);
}

bool is_nan_bits(uint64_t bits, const FloatFormat& format) {
  const uint64_t magnitude = bits & (sign_bit(format) - 1);
  if (format.finite_only) return magnitude == sign_bit(format) - 1;
  return magnitude > static_cast<uint64_t>(max_exponent_field(format)) << format.mantissa_bits;
}

bool is_inf_bits(uint64_t bits, const FloatFormat& format) {
  const uint64_t magnitude = bits & (sign_bit(format) - 1);
  return !format.finite_only && magnitude == static_cast<uint64_t>(max_exponent_field(format))
                                                 << format.mantissa_bits;
}

int64_t order_key(uint64_t bits, const FloatFormat& format) {
  const auto magnitude = static_cast<int64_t>(bits & (sign_bit(format) - 1));
  return (bits & sign_bit(format)) != 0 ? -magnitude : magnitude;
}

Unpacked unpack_float(uint64_t bits, const FloatFormat& format) {
  Unpacked out;
  out.is_negative = (bits & sign_bit(format)) != 0;
  if (is_nan_bits(bits, format)) {
    out.kind = FloatClass::kNan;
    return out;
  }
  if (is_inf_bits(bits, format)) {
    out.kind = FloatClass::kInf;
    return out;
  }
  const uint64_t magnitude = bits & (sign_bit(format) - 1);
  if (magnitude == 0) return out;
  const auto field = static_cast<int>(magnitude >> format.mantissa_bits);
  uint64_t significand = magnitude & mantissa_mask(format);
  if (field != 0) significand |= uint64_t{1} << format.mantissa_bits;
  const int shift = std::countl_zero(significand);
  out.kind = FloatClass::kFinite;
  out.significand = significand << shift;
  out.exponent = std::max(field, 1) - format.bias - format.mantissa_bits - shift;
  return out;
}

uint64_t pack_special(FloatClass kind, bool is_negative, const FloatFormat& format) {
  const uint64_t sign = is_negative ? sign_bit(format) : 0;
  if (kind == FloatClass::kNan) return quiet_nan_bits(format);
  if (kind == FloatClass::kZero) return sign;
  TENON_ASSERT(kind == FloatClass::kInf, "a finite float is packed by round_to_float");
  if (format.finite_only) return sign | quiet_nan_bits(format);
  return sign | static_cast<uint64_t>(max_exponent_field(format)) << format.mantissa_bits;
}

uint64_t round_to_float(bool is_negative, uint128_t significand, int exponent, bool is_inexact,
                        const FloatFormat& format) {
  const int top = exponent + num_bits(significand) - 1;  // 2^top <= value < 2^(top+1)
  if (top > format.bias + 1) return pack_special(FloatClass::kInf, is_negative, format);
  // 2^quantum is the distance of neighbours at the value; below 2^(1-bias) it stays constant.
  const int least_quantum = 1 - format.bias - format.mantissa_bits;
  const int quantum = std::max(top - format.mantissa_bits, least_quantum);
  const int drop = quantum - exponent;
  uint64_t kept = 0;
  if (drop <= 0) {
    TENON_ASSERT(!is_inexact, "too few bits to round an inexact significand");
    kept = static_cast<uint64_t>(significand << -drop);
  } else {
    // In halves of the quantum: the last bit of `halves` is the half, what is lost breaks the tie.
    const Shifted halves = shift_right(significand, drop - 1);
    kept = static_cast<uint64_t>(halves.value >> 1);
    const bool is_half = (halves.value & 1) != 0;
    const bool is_more = halves.lost || is_inexact;
    if (is_half && (is_more || (kept & 1) != 0)) ++kept;
  }
  // The hidden bit of `kept` adds one to the exponent field; a carry out of it adds another.
  const uint64_t code =
      (static_cast<uint64_t>(quantum - least_quantum) << format.mantissa_bits) + kept;
  const uint64_t first_special = format.finite_only
                                     ? quiet_nan_bits(format)
                                     : static_cast<uint64_t>(max_exponent_field(format))
                                           << format.mantissa_bits;
  if (code >= first_special) return pack_special(FloatClass::kInf, is_negative, format);
  return code | (is_negative ? sign_bit(format) : 0);
}

uint64_t soft_add(uint64_t a_bits, uint64_t b_bits, const FloatFormat& format) {
  const Unpacked a = unpack_float(a_bits, format);
  const Unpacked b = unpack_float(b_bits, format);
  if (a.kind == FloatClass::kFinite && b.kind == FloatClass::kFinite) {
    return round_sum(term_of(a), term_of(b), format);
  }
  if (a.kind == FloatClass::kNan || b.kind == FloatClass::kNan) return quiet_nan_bits(format);
  if (a.kind == FloatClass::kInf && b.kind == FloatClass::kInf) {
    return a.is_negative == b.is_negative ? a_bits : quiet_nan_bits(format);
  }
  if (a.kind == FloatClass::kInf || b.kind == FloatClass::kInf) {
    return a.kind == FloatClass::kInf ? a_bits : b_bits;
  }
  if (a.kind == FloatClass::kZero && b.kind == FloatClass::kZero) return a_bits & b_bits;
  return a.kind == FloatClass::kZero ? b_bits : a_bits;
}

uint64_t soft_mul(uint64_t a_bits, uint64_t b_bits, const FloatFormat& format) {
  const Unpacked a = unpack_float(a_bits, format);
  const Unpacked b = unpack_float(b_bits, format);
  const bool is_negative = a.is_negative != b.is_negative;
  if (a.kind == FloatClass::kFinite && b.kind == FloatClass::kFinite) {
    return round_to_float(is_negative, uint128_t{a.significand} * b.significand,
                          a.exponent + b.exponent, false, format);
  }
  if (a.kind == FloatClass::kNan || b.kind == FloatClass::kNan) return quiet_nan_bits(format);
  const bool has_zero = a.kind == FloatClass::kZero || b.kind == FloatClass::kZero;
  const bool has_inf = a.kind == FloatClass::kInf || b.kind == FloatClass::kInf;
  if (has_zero && has_inf) return quiet_nan_bits(format);
  return pack_special(has_zero ? FloatClass::kZero : FloatClass::kInf, is_negative, format);
}

uint64_t soft_div(uint64_t a_bits, uint64_t b_bits, const FloatFormat& format) {
  const Unpacked a = unpack_float(a_bits, format);
  const Unpacked b = unpack_float(b_bits, format);
  const bool is_negative = a.is_negative != b.is_negative;
  if (a.kind == FloatClass::kFinite && b.kind == FloatClass::kFinite) {
    // Both have 64 bits, so the quotient has 63 or 64.
    const uint128_t dividend = uint128_t{a.significand} << 63;
    const uint128_t quotient = dividend / b.significand;
    const bool is_inexact = quotient * b.significand != dividend;
    return round_to_float(is_negative, quotient, a.exponent - 63 - b.exponent, is_inexact, format);
  }
  if (a.kind == FloatClass::kNan || b.kind == FloatClass::kNan) return quiet_nan_bits(format);
  if (a.kind == b.kind) return quiet_nan_bits(format);  // 0/0 and inf/inf
  const bool is_zero = a.kind == FloatClass::kZero || b.kind == FloatClass::kInf;
  return pack_special(is_zero ? FloatClass::kZero : FloatClass::kInf, is_negative, format);
}

uint64_t soft_fma(uint64_t a_bits, uint64_t b_bits, uint64_t c_bits, const FloatFormat& format) {
  const Unpacked a = unpack_float(a_bits, format);
  const Unpacked b = unpack_float(b_bits, format);
  const Unpacked c = unpack_float(c_bits, format);
  if (a.kind != FloatClass::kFinite || b.kind != FloatClass::kFinite) {
    // The product is NaN, an infinity or a zero, and rounding it changes nothing.
    return soft_add(soft_mul(a_bits, b_bits, format), c_bits, format);
  }
  const Term product = product_of(a, b);
  if (c.kind == FloatClass::kFinite) return round_sum(product, term_of(c), format);
  if (c.kind == FloatClass::kNan) return quiet_nan_bits(format);
  if (c.kind == FloatClass::kInf) return c_bits;
  return round_to_float(product.is_negative, product.significand, product.exponent, false, format);
}

uint64_t soft_sqrt(uint64_t a_bits, const FloatFormat& format) {
  const Unpacked a = unpack_float(a_bits, format);
  if (a.kind == FloatClass::kZero) return a_bits;
  if (a.kind == FloatClass::kNan || a.is_negative) return quiet_nan_bits(format);
  if (a.kind == FloatClass::kInf) return a_bits;
  // An even exponent: sqrt(s * 2^(2e)) = sqrt(s) * 2^e. The root has 63 or 64 bits.
  const int shift = (a.exponent & 1) == 0 ? 62 : 63;
  const uint128_t square = uint128_t{a.significand} << shift;
  const uint64_t root = integer_sqrt(square);
  const bool is_inexact = uint128_t{root} * root != square;
  return round_to_float(false, root, (a.exponent - shift) / 2, is_inexact, format);
}

uint64_t soft_round(uint64_t a_bits, RoundTo direction, const FloatFormat& format) {
  const Unpacked a = unpack_float(a_bits, format);
  if (a.kind == FloatClass::kNan) return quiet_nan_bits(format);
  if (a.kind != FloatClass::kFinite || a.exponent >= 0) return a_bits;
  // In halves, as in round_to_float.
  const Shifted halves = shift_right(a.significand, -a.exponent - 1);
  auto whole = static_cast<uint64_t>(halves.value >> 1);
  const bool is_half = (halves.value & 1) != 0;
  const bool is_fraction = is_half || halves.lost;
  const bool is_up =
      (direction == RoundTo::kUp && !a.is_negative && is_fraction) ||
      (direction == RoundTo::kDown && a.is_negative && is_fraction) ||
      (direction == RoundTo::kNearestEven && is_half && (halves.lost || (whole & 1) != 0));
  if (is_up) ++whole;
  if (whole == 0) return pack_special(FloatClass::kZero, a.is_negative, format);
  return round_to_float(a.is_negative, whole, 0, false, format);
}

uint64_t float_to_int(uint64_t bits, const FloatFormat& format, int width, bool is_signed) {
  const Unpacked a = unpack_float(bits, format);
  if (a.kind == FloatClass::kNan || a.kind == FloatClass::kZero) return 0;
  if (a.is_negative && !is_signed) return 0;
  // Largest magnitude: 2^(width-1) below zero, one less above, 2^width - 1 if unsigned.
  const uint64_t top = uint64_t{1} << (width - 1);
  const uint64_t limit = is_signed ? top - (a.is_negative ? 0 : 1) : top - 1 + top;
  uint64_t magnitude = limit;
  if (a.kind == FloatClass::kFinite && a.exponent <= 0) {
    const Shifted whole = shift_right(a.significand, -a.exponent);
    magnitude = std::min(limit, static_cast<uint64_t>(whole.value));
  }
  return a.is_negative ? 0 - magnitude : magnitude;
}

uint64_t convert_float(uint64_t bits, const FloatFormat& from, const FloatFormat& to) {
  const Unpacked a = unpack_float(bits, from);
  if (a.kind != FloatClass::kFinite) return pack_special(a.kind, a.is_negative, to);
  return round_to_float(a.is_negative, a.significand, a.exponent, false, to);
}

}  // namespace tenon::detail
