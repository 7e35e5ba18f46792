// Compiler: kernel sources to binary, the part of the device contract between a renderer's text and
// a ProgramObject's payload. Implemented by backends, called by engine/.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// One kernel as its renderer wrote it. `name` is the entry point in `text`.
struct KernelSource {
  std::string name;
  std::string text;
};

/// One object that holds all kernels of a call.
struct CompiledObject {
  std::vector<std::byte> bytes;
  std::vector<std::string> symbols;  ///< of each source, in order
};

/// Safe from any thread.
class Compiler {
 public:
  Compiler() = default;
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;
  virtual ~Compiler() = default;

  /// ProgramObject::payload_format of what it makes.
  virtual std::string_view payload_format() const = 0;
  /// Everything besides the source that changes the bytes: tool, version, flags. Part of cache
  /// keys.
  virtual std::string fingerprint() const = 0;
  /// Compiles sources with different names in one go. Throws kCompileFailed with the tool's words.
  virtual CompiledObject compile(std::span<const KernelSource> sources) const = 0;
  /// Machine code of one symbol as text, for reading. Throws kUnsupported if it has no way.
  virtual std::string disassemble(std::span<const std::byte> object,
                                  std::string_view symbol) const = 0;
};

}  // namespace tenon
