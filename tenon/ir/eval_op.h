// The value of every elementwise op on scalars: one table that constant folding, eval_kernel
// and the checked interpreter share (the oracle shares nothing with it).
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <span>

#include "tenon/types/dtype.h"
#include "tenon/types/op.h"

namespace tenon {

/// A scalar as 64 bits in canonical form: signed integers sign-extended, unsigned integers, bool
/// and float bit patterns zero-extended, kIdx as int64.
using ScalarBits = uint64_t;

/// Brings the low bits of `bits` to canonical form.
ScalarBits canonical_bits(DType dtype, uint64_t bits);

/// `op` applied to `args`, all of dtype `dtype` (where: condition first, then two of `dtype`;
/// compare and test ops give bool). Total: never traps, whatever the bits. Exact class as design
/// says (correctly rounded per dtype, NaN results are the canonical quiet NaN); the bounded class
/// is computed in f64 and rounded once, so it is within the bound but not bit-equal to the
/// decomposition. kCast and kBitcast: use eval_cast. mulacc rounds twice (unfused).
ScalarBits eval_op(Op op, DType dtype, std::span<const ScalarBits> args);
/// mulacc with one rounding, for Targets that fuse it.
ScalarBits eval_fused_mulacc(DType dtype, ScalarBits a, ScalarBits b, ScalarBits c);
ScalarBits eval_cast(ScalarBits bits, DType from, DType to);
ScalarBits eval_bitcast(ScalarBits bits, DType from, DType to);

/// Float values: exact widening of any float dtype to f64, and one correct rounding (nearest, ties
/// to even; e4m3fn saturates nothing: overflow gives NaN) from f64 to any float dtype.
double float_to_double(ScalarBits bits, DType dtype);
ScalarBits double_to_float(double value, DType dtype);

}  // namespace tenon
