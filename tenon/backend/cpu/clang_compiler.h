// Compiles C kernels with clang as a child process. Called by the CPU backend's CLANG renderer
// pair. Nothing but the arguments decides the bytes: no environment, no configuration file, no
// -march=native.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/backend/cpu/cpu_features.h"
#include "tenon/device/compile_cache.h"

namespace tenon::cpu {

struct ClangTool {
  std::string path;
  std::string version;  ///< first line of `clang --version`
  int major_version = 0;
};

struct ClangOptions {
  std::string name = "kernel";           ///< for error texts only
  std::vector<std::string> extra_flags;  ///< after the standard ones
};

/// Oldest clang that compiles what the renderer writes (_Float16, __bf16, ext_vector_type).
inline constexpr int kMinClangVersion = 22;

/// The clang to use: setting TENON_CLANG, else clang-22, clang-23 ... clang-30 on PATH, else
/// `clang` if it is new enough. Its version is asked once per file (path, time, size) and kept in
/// `cache`, so that a warm process starts no compiler.
/// Throws kNotFound, saying what to install, and kUnsupported if TENON_CLANG is too old.
ClangTool find_clang(CompileCache* cache = nullptr);

/// The arguments that a compile gets, without input and output.
std::vector<std::string> clang_flags(const CpuFeatureSet& features, const ClangOptions& options);

/// Everything that changes the bytes besides the source: path, version, flags.
std::string clang_fingerprint(const ClangTool& clang, const CpuFeatureSet& features,
                              const ClangOptions& options);

/// Compiles one C11 translation unit to an ELF object for `load_object`. Throws kCompileFailed
/// with exit code and the first five lines of the compiler's words.
std::vector<std::byte> compile_c(const ClangTool& clang, std::string_view source,
                                 const CpuFeatureSet& features, const ClangOptions& options = {});

}  // namespace tenon::cpu
