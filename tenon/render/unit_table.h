// How renderers for x86-64 spell the op of each matrix unit: one row for each shape that the CPU's
// Targets declare. Read by the C and LLVM writers; a unit without a row is refused.
// SPDX-License-Identifier: MIT

#pragma once

#include <string_view>

#include "tenon/types/matrix_unit.h"

namespace tenon::detail {

/// A unit on vectors whose operand `a` is one group, which all lanes read. Both spellings take the
/// accumulator, the group in all lanes, and b; the last two as vectors of these elements.
struct UnitText {
  DType a;
  DType b;
  int n;
  int k;
  std::string_view builtin;  ///< of C
  std::string_view builtin_element;
  std::string_view intrinsic;  ///< of LLVM IR
  std::string_view intrinsic_element;
};

inline constexpr UnitText kUnitTable[] = {
    {DType::kBF16, DType::kBF16, 16, 2, "__builtin_ia32_dpbf16ps_512", "__bf16",
     "llvm.x86.avx512bf16.dpbf16ps.512", "bfloat"},
    {DType::kBF16, DType::kBF16, 8, 2, "__builtin_ia32_dpbf16ps_256", "__bf16",
     "llvm.x86.avx512bf16.dpbf16ps.256", "bfloat"},
    {DType::kBF16, DType::kBF16, 4, 2, "__builtin_ia32_dpbf16ps_128", "__bf16",
     "llvm.x86.avx512bf16.dpbf16ps.128", "bfloat"},
    {DType::kU8, DType::kI8, 16, 4, "__builtin_ia32_vpdpbusd512", "char",
     "llvm.x86.avx512.vpdpbusd.512", "i8"},
    {DType::kU8, DType::kI8, 8, 4, "__builtin_ia32_vpdpbusd256", "char",
     "llvm.x86.avx512.vpdpbusd.256", "i8"},
    {DType::kU8, DType::kI8, 4, 4, "__builtin_ia32_vpdpbusd128", "char",
     "llvm.x86.avx512.vpdpbusd.128", "i8"},
};

/// The row of a unit, or null.
inline const UnitText* find_unit_text(const MatrixUnit& unit) {
  if (unit.place != UnitPlace::kVectors || unit.m != 1 || unit.k != unit.group) return nullptr;
  for (const UnitText& row : kUnitTable) {
    if (row.a == unit.a && row.b == unit.b && row.n == unit.n && row.k == unit.k) return &row;
  }
  return nullptr;
}

/// A unit on tiles; both spellings take rows, bytes of a row of the accumulator, bytes of a row of
/// a, accumulator, a, b. The compilers deal out tile registers and configure them.
struct TileUnitText {
  DType a;
  DType b;
  std::string_view builtin;
  std::string_view intrinsic;
};

inline constexpr TileUnitText kTileUnitTable[] = {
    {DType::kBF16, DType::kBF16, "__builtin_ia32_tdpbf16ps_internal",
     "llvm.x86.tdpbf16ps.internal"},
    {DType::kI8, DType::kI8, "__builtin_ia32_tdpbssd_internal", "llvm.x86.tdpbssd.internal"},
    {DType::kI8, DType::kU8, "__builtin_ia32_tdpbsud_internal", "llvm.x86.tdpbsud.internal"},
    {DType::kU8, DType::kI8, "__builtin_ia32_tdpbusd_internal", "llvm.x86.tdpbusd.internal"},
    {DType::kU8, DType::kU8, "__builtin_ia32_tdpbuud_internal", "llvm.x86.tdpbuud.internal"},
};

/// The row of a unit whose tiles have at most 16 rows of 64 bytes, as registers do, or null.
inline const TileUnitText* find_tile_unit_text(const MatrixUnit& unit) {
  const bool fits = unit.place == UnitPlace::kTiles && unit.m <= 16 && 4 * unit.n <= 64 &&
                    unit.k / unit.group <= 16 && unit.group * dtype_size_bytes(unit.a) == 4;
  if (!fits) return nullptr;
  for (const TileUnitText& row : kTileUnitTable) {
    if (row.a == unit.a && row.b == unit.b) return &row;
  }
  return nullptr;
}

}  // namespace tenon::detail
