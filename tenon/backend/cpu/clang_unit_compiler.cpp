// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/clang_unit_compiler.h"

#include <semaphore>
#include <utility>
#include <vector>

#include "tenon/backend/cpu/clang_compiler.h"
#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/disassemble.h"
#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/engine/program_store.h"
#include "tenon/render/c.h"

namespace tenon::cpu {
namespace {

/// As many compilers at once as there are cores, however many threads ask.
std::counting_semaphore<>& compiler_slots() {
  // Leaked on purpose: threads may compile while the process ends.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const slots = new std::counting_semaphore<>(num_available_cores());
  return *slots;
}

class CompilerSlot {
 public:
  CompilerSlot() { compiler_slots().acquire(); }
  ~CompilerSlot() { compiler_slots().release(); }
  CompilerSlot(const CompilerSlot&) = delete;
  CompilerSlot& operator=(const CompilerSlot&) = delete;
};

class ClangUnitCompiler final : public Compiler {
 public:
  ClangUnitCompiler(ClangTool clang, const CpuFeatureSet& features)
      : clang_(std::move(clang)), features_(features) {}

  std::string_view payload_format() const override { return kElfFormat; }

  std::string fingerprint() const override { return clang_fingerprint(clang_, features_, {}); }

  CompiledObject compile(std::span<const KernelSource> sources) const override {
    std::vector<RenderedSource> rendered;
    CompiledObject object;
    for (const KernelSource& source : sources) {
      rendered.push_back({.text = source.text, .entry = source.name});
      object.symbols.push_back(source.name);
    }
    ClangOptions options;
    options.name = sources.size() == 1 ? concat("'", sources[0].name, "'")
                                       : concat(sources.size(), " kernels");
    const CompilerSlot slot;
    object.bytes = compile_c(clang_, c_renderer().join(rendered), features_, options);
    return object;
  }

  std::string disassemble(std::span<const std::byte> object,
                          std::string_view symbol) const override {
    return disassemble_object(object, symbol, clang_.major_version);
  }

 private:
  ClangTool clang_;
  CpuFeatureSet features_;
};

}  // namespace

std::optional<std::string> why_no_clang() {
  try {
    find_clang(&shared_compile_cache());
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<Compiler> make_clang_compiler(const Target& target) {
  return std::make_unique<ClangUnitCompiler>(find_clang(&shared_compile_cache()),
                                             features_of(target));
}

}  // namespace tenon::cpu
