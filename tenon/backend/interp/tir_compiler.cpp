// SPDX-License-Identifier: MIT

#include "tenon/backend/interp/tir_compiler.h"

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"

namespace tenon::interp {
namespace {

class TirRenderer final : public Renderer {
 public:
  std::string_view name() const override { return "TIR"; }
  RenderedSource render(const LinearProgram& program, const Target&) const override {
    return {.text = to_text(program), .entry = program.name};
  }
  std::string join(std::span<const RenderedSource> sources) const override {
    std::vector<const RenderedSource*> joined;
    std::string text;
    for (const RenderedSource& source : sources) {
      const auto known = std::ranges::find(joined, source.entry, &RenderedSource::entry);
      TENON_CHECK(known == joined.end() || (*known)->text == source.text,
                  ErrorCode::kInvalidArgument, "joining programs: two different ones are called '",
                  source.entry, "'");
      if (known != joined.end()) continue;
      joined.push_back(&source);
      text += source.text;
    }
    return text;
  }
};

/// The texts of programs one after the other: each begins with a line that is not indented.
std::vector<std::string_view> split_programs(std::string_view text) {
  constexpr std::string_view kStart = "\ntir ";
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const size_t next = text.find(kStart);
    const size_t size = next == std::string_view::npos ? text.size() : next + 1;
    parts.push_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return parts;
}

class TirCompiler final : public Compiler {
 public:
  explicit TirCompiler(const Target& target) : target_(target) {}

  std::string_view payload_format() const override { return kTirFormat; }
  std::string fingerprint() const override { return concat("tir ", kLinearVersion); }
  CompiledObject compile(std::span<const KernelSource> sources) const override {
    CompiledObject object;
    for (const KernelSource& source : sources) {
      try {
        check_linear(parse_linear(source.text, source.name), &target_);
      } catch (const Error& error) {
        fail(ErrorCode::kCompileFailed, error.what());
      }
      const auto bytes = std::as_bytes(std::span(source.text));
      object.bytes.insert(object.bytes.end(), bytes.begin(), bytes.end());
      object.symbols.push_back(source.name);
    }
    return object;
  }
  std::string disassemble(std::span<const std::byte> object,
                          std::string_view symbol) const override {
    return to_text(
        find_program({reinterpret_cast<const char*>(object.data()), object.size()}, symbol));
  }

 private:
  const Target target_;
};

}  // namespace

const Renderer& tir_renderer() {
  static const TirRenderer renderer;
  return renderer;
}

std::unique_ptr<Compiler> make_tir_compiler(const Target& target) {
  return std::make_unique<TirCompiler>(target);
}

LinearProgram find_program(std::string_view payload, std::string_view name) {
  for (const std::string_view text : split_programs(payload)) {
    if (text.substr(0, text.find('\n')).find(name) == std::string_view::npos) continue;
    LinearProgram program = parse_linear(text, name);
    if (program.name == name) return program;
  }
  fail(ErrorCode::kInvalidArgument, "the payload has no program called '", name, "'");
}

}  // namespace tenon::interp
