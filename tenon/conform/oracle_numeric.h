// The oracle's own numbers: decoding, correct rounding and conversion of every dtype. Written apart
// from eval_op on purpose, so that an error in one of them shows as a difference.
// Bits are canonical as ir/eval_op.h defines it. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>

#include "tenon/types/dtype.h"

namespace tenon::detail {

/// Low bits of `bits` sign- or zero-extended to the canonical form; bool: 1 if any bit is set.
uint64_t oracle_canonical(DType dtype, uint64_t bits);
/// One stored element at `bytes`, and back.
uint64_t oracle_read(DType dtype, const std::byte* bytes);
void oracle_write(DType dtype, uint64_t bits, std::byte* bytes);

/// Exact value of the bits of a float dtype.
double oracle_value(DType dtype, uint64_t bits);
/// Bits of a value that the float dtype holds exactly; any NaN gives the quiet NaN.
uint64_t oracle_bits(DType dtype, double value);
/// Nearest value of the float dtype, ties to even, one rounding; beyond the range: infinity, or NaN
/// where the dtype has none.
double oracle_round(DType dtype, long double value);
double oracle_round(DType dtype, double value);

/// Any dtype to any other by the rules of docs/ir.md (wrap, saturate, NaN to 0, != 0).
uint64_t oracle_convert(DType from, DType to, uint64_t bits);
/// The same for a number that no dtype need hold (the end of an interval).
uint64_t oracle_convert_value(DType to, double value);

/// Spacing of the float dtype's values at |value| (beyond its range as if it went on).
double oracle_ulp(DType dtype, double value);
double oracle_max_finite(DType dtype);
/// Half an ulp of 1: what one rounding can change, relatively.
double oracle_unit_roundoff(DType dtype);
/// The smallest positive value.
double oracle_denorm_min(DType dtype);

/// Exponent of the lowest set bit of a finite non-zero value.
int oracle_lowest_bit(double value);

}  // namespace tenon::detail
