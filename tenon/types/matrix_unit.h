// MatrixUnit: what a device's instruction for small matrix products computes, as plain data: c += a
// * b on m x k and k x n elements. A field of Target; read by the codegen that uses a unit, by the
// linear level that names it by number (op mma) and by the evaluators, which compute by its rule.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tenon/types/dtype.h"

namespace tenon {

/// Where operands and accumulator live.
enum class UnitPlace : uint8_t {
  kVectors,  ///< in values of the linear level, all elements of a matrix in one
  kTiles,    ///< in tiles, which tile_load and tile_store move
};

/// In which order, and with which roundings, the k products are added to the accumulator. All
/// products and sums of floats round to nearest even.
enum class UnitSum : uint8_t {
  kExact,     ///< integers, sums wrap: no order shows
  kOddFirst,  ///< for each pair p: c = fma(a[2p+1], b[2p+1], c), then c = fma(a[2p], b[2p], c)
  kTwoSums,   ///< chains of fma from 0 over even and over odd elements, added up, then added to c
  kFree,      ///< not said; inside of the bound of any order
};

struct MatrixUnit {
  DType a = DType::kF32;
  DType b = DType::kF32;
  DType acc = DType::kF32;
  int m = 1;
  int n = 1;
  int k = 1;
  /// Layouts, outer to inner: a [m][k], b [k / group][n][group], accumulator [m][n]. The group
  /// divides k.
  int group = 1;
  UnitPlace place = UnitPlace::kVectors;
  UnitSum sum = UnitSum::kFree;
  /// Denormal operands, accumulators and results (after each step) count as zeros of their sign.
  bool flushes_denormals = false;
  bool needs_setup = false;  ///< unit_setup stands before the first use
  friend bool operator==(const MatrixUnit&, const MatrixUnit&) = default;
};

/// Whether one of the units adds up products of `x` and `y`, in this or the other order,
/// in `acc`; also where one that takes x unsigned does, for that takes signed numbers after an
/// offset.
bool has_product_unit(std::span<const MatrixUnit> units, DType x, DType y, DType acc);

/// "bf16*bf16>f32:1x16x2/2:vectors:odd_first:flush:ready", every field in this order.
std::string to_text(const MatrixUnit& unit);
/// The inverse: takes exactly what to_text writes. Throws kInvalidArgument.
MatrixUnit parse_matrix_unit(std::string_view text);

}  // namespace tenon
