// The Targets that tests of rules lower for: plain data, no device.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/types/target.h"

namespace tenon {

/// x86 without anything: no trunc, no fma, floats of 32 and 64 bits.
inline Target baseline_target() {
  Target target;
  target.arch = "x86_64";
  for (DType dtype : {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8,
                      DType::kU16, DType::kU32, DType::kU64, DType::kF32, DType::kF64}) {
    target.arithmetic.add(dtype);
  }
  target.native_ops = {Op::kSqrt};
  return target;
}

/// x86 with AVX-512 and F16C: fused mulacc, trunc, casts between f16 and f32.
inline Target avx512_target() {
  Target target = baseline_target();
  target.features = {"avx512f", "f16c", "fma"};
  target.native_ops = {Op::kSqrt, Op::kTrunc, Op::kFma};
  target.extra_casts = {{DType::kF16, DType::kF32}, {DType::kF32, DType::kF16}};
  target.fuses_mulacc = true;
  return target;
}

}  // namespace tenon
