// LLVM: linear programs as the text of LLVM 22's IR, with explicit vectors and masks and nothing
// left to a vectoriser. Compiled by backend/cpu (libLLVM in the process) and good for reading.
// Freestanding: no call leaves the module. SPDX-License-Identifier: MIT

#pragma once

#include "tenon/render/renderer.h"

namespace tenon {

/// The renderer "LLVM". Its functions are CpuKernelFunctions (render/c.h). The text names no CPU:
/// whoever compiles it gives the features that the Target's native ops and casts stand for (trunc:
/// sse4.1; fma; f16: f16c or avx512fp16). Nothing in it is undefined for any input: no nsw or nuw,
/// no fast-math flag, and every division, shift and float-to-integer conversion is guarded.
const Renderer& llvm_renderer();

}  // namespace tenon
