// Correctly rounded arithmetic on the bit patterns of any float format, in integers alone: no host
// rounding mode, flush mode or libm can change a result. Used by eval_op. Every function rounds
// once, to nearest, ties to even; NaN results are the positive quiet NaN of the format.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>

#include "tenon/types/dtype.h"

namespace tenon::detail {

// NOLINTNEXTLINE(readability-identifier-naming): as in <cstdint>
using uint128_t = unsigned __int128;

enum class FloatClass : uint8_t { kZero, kFinite, kInf, kNan };

/// A float taken apart. If kFinite: value = significand * 2^exponent, with the top bit of the
/// significand set (denormals are normalised too).
struct Unpacked {
  FloatClass kind = FloatClass::kZero;
  bool is_negative = false;
  int exponent = 0;
  uint64_t significand = 0;
};

Unpacked unpack_float(uint64_t bits, const FloatFormat& format);

/// Rounds (significand + s) * 2^exponent with 0 < s < 1 if `is_inexact`, else s = 0. The
/// significand is not 0; if `is_inexact`, it has at least 60 significant bits. Overflow gives
/// infinity, or in formats without one NaN, with the sign kept.
uint64_t round_to_float(bool is_negative, uint128_t significand, int exponent, bool is_inexact,
                        const FloatFormat& format);
/// The other classes; the sign of NaN is dropped, infinity in formats without one is NaN with sign.
uint64_t pack_special(FloatClass kind, bool is_negative, const FloatFormat& format);

uint64_t quiet_nan_bits(const FloatFormat& format);
uint64_t sign_bit(const FloatFormat& format);
bool is_nan_bits(uint64_t bits, const FloatFormat& format);
bool is_inf_bits(uint64_t bits, const FloatFormat& format);
/// Orders all values but NaN as integers; -0 and +0 are equal.
int64_t order_key(uint64_t bits, const FloatFormat& format);

uint64_t soft_add(uint64_t a, uint64_t b, const FloatFormat& format);
uint64_t soft_mul(uint64_t a, uint64_t b, const FloatFormat& format);
uint64_t soft_div(uint64_t a, uint64_t b, const FloatFormat& format);
uint64_t soft_fma(uint64_t a, uint64_t b, uint64_t c, const FloatFormat& format);
uint64_t soft_sqrt(uint64_t a, const FloatFormat& format);

enum class RoundTo : uint8_t { kZero, kDown, kUp, kNearestEven };
/// To an integral value of the same format; results that are zero keep the sign of `a`.
uint64_t soft_round(uint64_t a, RoundTo direction, const FloatFormat& format);

/// Truncates, saturates to [min, max] of an integer of `width` bits, NaN gives 0; sign-extended if
/// `is_signed`.
uint64_t float_to_int(uint64_t bits, const FloatFormat& format, int width, bool is_signed);

/// From one format to another, rounded once.
uint64_t convert_float(uint64_t bits, const FloatFormat& from, const FloatFormat& to);

}  // namespace tenon::detail
