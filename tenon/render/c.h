// CLANG: linear programs as C11 with Clang's ext_vector_type, for CPUs and for reading. Compiled by
// backend/cpu (clang-22 as a process); freestanding: no header, no libm, no call leaves the unit.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>

#include "tenon/render/renderer.h"

namespace tenon {

/// A kernel on a CPU, as every CPU renderer makes it:
///   arguments  the block of layout_arguments(signature) (types/signature.h): a buffer is its
///   address
///              in 8 bytes, a scalar has its own width, each read at its offset
///   groups     the flat numbers [group_begin, group_end), dimension 0 of the grid fastest
///   scratch    group memory of the calling worker: scratch_bytes long, aligned to kBaseAlignBytes,
///              reused by each group; not read if scratch_bytes is 0
/// A group has one lane; programs with more are refused, and a barrier is nothing.
using CpuKernelFunction = void (*)(const void* arguments, int64_t group_begin, int64_t group_end,
                                   void* scratch);

/// The renderer "CLANG". Its text relies on the flags -std=c11 -ffp-contract=off -fno-math-errno
/// -fexcess-precision=16, and on -m for each instruction set that the Target's native ops and casts
/// stand for (trunc: sse4.1; fma; f16: f16c or avx512fp16). Texts for different Targets do not
/// join: f16 may be a float in one and bits in the other.
const Renderer& c_renderer();

}  // namespace tenon
