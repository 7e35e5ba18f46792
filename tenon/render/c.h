// CLANG: linear programs as C11 with Clang's ext_vector_type, for CPUs and for reading. Compiled by
// backend/cpu (clang-22 as a process); freestanding: no header, no libm, no call leaves the unit.
//
// ABI of a kernel, shared by all CPU renderers:
//   void NAME(const void *args, int64_t group_begin, int64_t group_end, void *scratch)
//   args     the block of layout_arguments(signature) (types/signature.h): a buffer is its address
//            in 8 bytes, a scalar has its own width, each read at its offset
//   groups   the flat numbers [group_begin, group_end), dimension 0 of the grid fastest
//   scratch  group memory of the calling worker, scratch_bytes long, aligned to kBaseAlignBytes,
//            reused by each group; not read if scratch_bytes is 0
// A group has one lane; programs with more are refused, so a barrier is nothing.
// SPDX-License-Identifier: MIT

#pragma once

#include "tenon/render/renderer.h"

namespace tenon {

/// Flags that the text relies on: -std=c11 -ffp-contract=off -fno-math-errno
/// -fexcess-precision=16, and -m for each instruction set that the Target's native ops and casts
/// take for granted (fma, f16c, sse4.1 for trunc).
const Renderer& c_renderer();

}  // namespace tenon
