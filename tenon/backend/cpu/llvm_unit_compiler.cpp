// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/llvm_unit_compiler.h"

#include <utility>
#include <vector>

#include "tenon/backend/cpu/clang_unit_compiler.h"
#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/disassemble.h"
#include "tenon/backend/cpu/llvm_compiler.h"
#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/render/llvm.h"

namespace tenon::cpu {
namespace {

class LlvmUnitCompiler final : public Compiler {
 public:
  LlvmUnitCompiler(LlvmTool llvm, const CpuFeatureSet& features)
      : llvm_(std::move(llvm)), features_(features) {}

  std::string_view payload_format() const override { return kElfFormat; }

  std::string fingerprint() const override { return llvm_fingerprint(llvm_, features_); }

  CompiledObject compile(std::span<const KernelSource> sources) const override {
    std::vector<RenderedSource> rendered;
    CompiledObject object;
    for (const KernelSource& source : sources) {
      rendered.push_back({.text = source.text, .entry = source.name});
      object.symbols.push_back(source.name);
    }
    const std::string name = sources.size() == 1 ? concat("'", sources[0].name, "'")
                                                 : concat(sources.size(), " kernels");
    object.bytes = compile_llvm(llvm_, llvm_renderer().join(rendered), features_, name);
    return object;
  }

  std::string disassemble(std::span<const std::byte> object,
                          std::string_view symbol) const override {
    return disassemble_object(object, symbol, kLlvmVersion);
  }

 private:
  LlvmTool llvm_;
  CpuFeatureSet features_;
};

}  // namespace

std::optional<std::string> why_no_llvm() {
  try {
    find_llvm();
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

std::unique_ptr<Compiler> make_llvm_compiler(const Target& target) {
  return std::make_unique<LlvmUnitCompiler>(find_llvm(), features_of(target));
}

}  // namespace tenon::cpu
