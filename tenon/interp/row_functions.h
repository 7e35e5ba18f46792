// Elementwise ops over rows of values in canonical form: what the checked interpreter spends its
// time in. One function per op and dtype where the host computes the same bits as eval_op, else a
// loop over eval_op. SPDX-License-Identifier: MIT

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tenon/types/dtype.h"
#include "tenon/types/op.h"

namespace tenon {

/// An elementwise op as an instruction has it.
struct RowOp {
  Op op = Op::kAdd;
  DType dtype = DType::kF32;   ///< of the operands
  DType result = DType::kF32;  ///< of cast and bitcast
  uint8_t num_args = 2;
  bool fuses_mulacc = false;  ///< mulacc rounds once
};

/// dst[i] = op(src[0][i], src[1][i], ...) for i < count. dst may be one of the sources. Results are
/// right only in the default floating-point environment.
using RowFunction = void (*)(const RowOp& op, uint64_t* dst, const uint64_t* const* src,
                             size_t count);

RowFunction find_row_function(const RowOp& op);
/// The same by eval_op, eval_cast and their kin: what every row function is measured against.
void eval_row(const RowOp& op, uint64_t* dst, const uint64_t* const* src, size_t count);

/// fma of f32 by the host, with the bits of eval_fused_mulacc.
uint64_t fused_f32(uint64_t a, uint64_t b, uint64_t c);

/// Elements of a dtype between memory and words in canonical form.
struct ElementMoves {
  void (*load)(uint64_t* dst, const std::byte* src, size_t count);
  void (*store)(std::byte* dst, const uint64_t* src, size_t count);
};
ElementMoves find_element_moves(DType dtype);

}  // namespace tenon
