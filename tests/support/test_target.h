// A plain Target for tests of passes: scalars, all integers, f32 and f64, square root.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/types/target.h"

namespace tenon::test {

inline Target scalar_target() {
  Target target;
  target.arch = "test";
  for (DType dtype : {DType::kBool, DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kU8,
                      DType::kU16, DType::kU32, DType::kU64, DType::kF32, DType::kF64}) {
    target.arithmetic.add(dtype);
  }
  target.native_ops = {Op::kSqrt};
  target.max_local_bytes = 1 << 20;
  target.max_arguments = 64;
  target.threads = 2;
  target.vector_registers = 32;
  target.mulacc_rate = 3600;
  target.caches = {{32 << 10, 8, 1, 210}, {1 << 20, 8, 1, 115}, {32 << 20, 16, 2, 80}};
  target.memory_speed = 20;
  return target;
}

/// The same with vectors of 64 bytes.
inline Target vector_target() {
  Target target = scalar_target();
  target.max_vector_bytes = 64;
  return target;
}

/// The same with matrix units of two widths: pairs of bf16, and of u8 times i8 in fours.
inline Target unit_target() {
  Target target = vector_target();
  for (const std::string_view unit : {"bf16*bf16>f32:1x16x2/2:vectors:odd_first:flush:ready",
                                      "bf16*bf16>f32:1x4x2/2:vectors:odd_first:flush:ready",
                                      "u8*i8>i32:1x16x4/4:vectors:exact:keep:ready",
                                      "u8*i8>i32:1x4x4/4:vectors:exact:keep:ready"}) {
    target.units.push_back(parse_matrix_unit(unit));
  }
  return target;
}

/// Vectors of 64 bytes, and matrix units on tiles: bf16, and bytes with a sign or without.
inline Target tile_target() {
  Target target = vector_target();
  for (const std::string_view unit : {"bf16*bf16>f32:16x16x32/2:tiles:two_sums:flush:setup",
                                      "i8*i8>i32:16x16x64/4:tiles:exact:keep:setup",
                                      "i8*u8>i32:16x16x64/4:tiles:exact:keep:setup",
                                      "u8*i8>i32:16x16x64/4:tiles:exact:keep:setup",
                                      "u8*u8>i32:16x16x64/4:tiles:exact:keep:setup"}) {
    target.units.push_back(parse_matrix_unit(unit));
  }
  target.tiles = {.registers = 8, .rate = 210, .chains = 4};
  return target;
}

/// Groups of many lanes that share little memory; no vectors.
inline Target lane_target() {
  Target target = scalar_target();
  target.fuses_mulacc = true;
  target.max_lanes = 256;
  target.max_local_bytes = 32 << 10;
  target.threads = 16;
  target.vector_registers = 128;
  target.mulacc_rate = 150000;
  target.mulacc_chains = 512;
  target.line_bytes = 32;
  target.fork_ns = 5000;
  target.caches = {{64 << 10, 4, 1, 200}, {32 << 20, 16, 16, 60}};
  return target;
}

/// Fewer lanes, each with short vectors.
inline Target lane_vector_target() {
  Target target = lane_target();
  target.max_lanes = 64;
  target.max_vector_bytes = 16;
  return target;
}

/// Lanes that share nothing.
inline Target lone_lane_target() {
  Target target = lane_target();
  target.max_lanes = 128;
  target.max_local_bytes = 0;
  return target;
}

}  // namespace tenon::test
