// Compiles LLVM IR text in the process, with libLLVM. Called by the CPU backend's LLVM renderer
// pair. libLLVM is opened by the first compile; nothing else here touches it, so that a process
// whose kernels are all in the cache never does. Nothing but the arguments decides the bytes.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/backend/cpu/cpu_features.h"

namespace tenon::cpu {

/// The LLVM whose text the renderer writes and whose C interface llvm_api.h declares.
inline constexpr int kLlvmVersion = 22;

struct LlvmTool {
  std::string path;      ///< of libLLVM
  std::string identity;  ///< names the file at `path` as it was found: size and time
};

/// The libLLVM to use: setting TENON_LLVM, else libLLVM.so.22.1 where systems install it. Looks at
/// names only. Throws kNotFound, saying what to install.
LlvmTool find_llvm();

/// Everything that changes the bytes besides the source: library, target, passes.
std::string llvm_fingerprint(const LlvmTool& llvm, const CpuFeatureSet& features);

/// Compiles one module to an ELF object for `load_object`. `name` is for error texts. Safe from any
/// thread: each call has a context of its own. Throws kCompileFailed with LLVM's words and the
/// kernel that they are about; kNotFound and kUnsupported if `llvm` cannot be used.
std::vector<std::byte> compile_llvm(const LlvmTool& llvm, std::string_view text,
                                    const CpuFeatureSet& features, std::string_view name);

}  // namespace tenon::cpu
