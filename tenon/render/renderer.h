// Renderer: turns a linear program into source text for one language. Implemented once per language
// (c.h); called by engine/ and by the tools that show generated code. Pure: the same program and
// Target give the same bytes, no device is touched. SPDX-License-Identifier: MIT

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tenon/ir/linear.h"
#include "tenon/types/target.h"

namespace tenon {

/// One kernel as a complete translation unit.
struct RenderedSource {
  std::string text;
  std::string entry;  ///< name of the kernel's function in the text
};

class Renderer {
 public:
  virtual ~Renderer() = default;

  /// The name in DEV strings, "CLANG".
  virtual std::string_view name() const = 0;

  /// `program` must be verified. Throws kUnsupported, with the reason, for what this language or
  /// this Target cannot do; nothing is emulated silently.
  virtual RenderedSource render(const LinearProgram& program, const Target& target) const = 0;

  /// Several kernels as one translation unit, in order: what they share stands in it once.
  /// Throws kInvalidArgument if two different kernels have one name.
  virtual std::string join(std::span<const RenderedSource> sources) const = 0;
};

}  // namespace tenon
