// INTERP: a device whose programs run in the checked interpreter and whose memory lies in the
// arena. What a check finds is thrown by the launch. Its queue has a thread, so that whoever
// forgets to wait reads what nobody has written. SPDX-License-Identifier: MIT

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tenon/backend/interp/arena.h"
#include "tenon/backend/interp/mulacc4_rule.h"
#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/engine/backend.h"
#include "tenon/engine/device_spec.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"

namespace tenon::interp {
namespace {

// --- programs as text ----------------------------------------------------------------------------

constexpr std::string_view kTirFormat = "tir";

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

/// The program called `name` in a payload, which may hold several. Throws kInvalidArgument.
LinearProgram find_program(std::string_view payload, std::string_view name) {
  for (const std::string_view text : split_programs(payload)) {
    if (text.substr(0, text.find('\n')).find(name) == std::string_view::npos) continue;
    LinearProgram program = parse_linear(text, name);
    if (program.name == name) return program;
  }
  fail(ErrorCode::kInvalidArgument, "the payload has no program called '", name, "'");
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

// --- the device ----------------------------------------------------------------------------------

/// Each byte is kept twice: as it is, and whether it was written.
int64_t max_buffer_bytes() {
  const int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return bytes > 0 ? bytes / 2 : int64_t{1} << 34;
}

class InterpProgram final : public LoadedProgram {
 public:
  InterpProgram(CheckedProgram program, std::string device, const Arena& arena)
      : program_(std::move(program)),
        layout_(layout_arguments(program_.program().signature)),
        device_(std::move(device)),
        arena_(arena) {}

  void launch(std::span<const std::byte> block) override {
    const std::vector<Argument>& arguments = program_.program().signature.arguments;
    std::vector<std::shared_ptr<void>> keep(arguments.size());
    std::vector<CheckedArgument> values(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Argument& argument = arguments[i];
      const int64_t element_bytes = dtype_size_bytes(argument.dtype);
      uint64_t bits = 0;
      std::memcpy(&bits, block.data() + layout_.offsets[i],
                  argument.is_buffer ? sizeof bits : static_cast<size_t>(element_bytes));
      const int64_t size_bytes = argument.num_elements * element_bytes;
      if (!argument.is_buffer) {
        values[i].bits = bits;
      } else if (size_bytes > 0) {
        values[i] = arena_.find(bits, size_bytes, keep[i]);
      }
    }
    const CheckedRun run = program_.run(values);
    if (run.fault) fail(ErrorCode::kDeviceFailed, "launch on '", device_, "': ", run.fault->text);
  }

 private:
  const CheckedProgram program_;
  const ArgumentLayout layout_;
  const std::string device_;
  const Arena& arena_;
};

class InterpDevice final : public DeviceDriver {
 public:
  InterpDevice(int index, Target target)
      : name_(concat("INTERP:", index)),
        target_(std::move(target)),
        arena_(name_, max_buffer_bytes()) {}

  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { return arena_; }
  void synchronize() override {}
  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<HostQueue>(*this, HostQueue::Mode::kThread);
  }

  std::unique_ptr<LoadedProgram> load(const ProgramObject& object) override {
    TENON_CHECK(object.payload_format == kTirFormat, ErrorCode::kUnsupported,
                "the payload's format is '", object.payload_format, "'; INTERP runs '", kTirFormat,
                "'");
    const Target target = parse_target(object.target);
    LinearProgram program =
        find_program({reinterpret_cast<const char*>(object.payload.data()), object.payload.size()},
                     object.entry);
    check_linear(program, &target, ErrorCode::kInvalidArgument);
    TENON_CHECK(program.signature == object.signature, ErrorCode::kInvalidArgument,
                "its signature is not that of the program in its payload");
    const InterpOptions options{.fuses_mulacc = target.fuses_mulacc, .units = target.units};
    return std::make_unique<InterpProgram>(CheckedProgram(std::move(program), options), name_,
                                           arena_);
  }

 private:
  const std::string name_;
  const Target target_;
  Arena arena_;
};

// --- the descriptor ------------------------------------------------------------------------------

/// A small machine with short vectors, the same everywhere: nothing here is measured.
Target own_target() {
  Target target;
  target.arch = "interp";
  for (const DType dtype : storage_dtypes()) {
    if (!is_float(dtype) || dtype_bits(dtype) >= 32) target.arithmetic.add(dtype);
  }
  target.native_ops = {Op::kSqrt, Op::kTrunc, Op::kFma};
  target.max_vector_bytes = 16;
  target.max_local_bytes = 64 << 10;
  target.max_lanes = 256;
  target.max_arguments = 4096;
  target.threads = 4;
  target.caches = {{64 << 10, 8, 1, 50}, {1 << 20, 8, 4, 20}};
  return target;
}

/// ARCH of a larger one: groups of many lanes, and four products added at once.
constexpr std::string_view kWide = "WIDE";

Target wide_target() {
  Target target = own_target();
  target.native_ops.push_back(Op::kMulAcc4);
  target.max_lanes = 1024;
  return target;
}

/// The named renderer, or the one that the device takes by default.
const RendererDescriptor& renderer_of(const BackendDescriptor& backend, const std::string& wanted) {
  std::vector<std::string> names;
  for (const RendererDescriptor& renderer : backend.renderers) {
    names.push_back(renderer.name);
    if (wanted.empty() ? !renderer.why_absent() : equal_ignoring_case(renderer.name, wanted)) {
      return renderer;
    }
  }
  TENON_CHECK(wanted.empty(), ErrorCode::kInvalidArgument, "device '", backend.name,
              "': it has no renderer called '", wanted, "'", suggest_name(wanted, names, "It has"));
  return backend.renderers.front();  // what it lacks here is not needed for a Target
}

/// The renderer and ARCH of a device's name as in DEV ("CPU", "CPU:LLVM:x86_64,avx2"). Throws
/// kInvalidArgument for unknown names.
std::pair<const RendererDescriptor*, std::string> borrowed(std::string_view device) {
  DeviceNames names;
  for (const BackendDescriptor* backend : all_backends()) {
    const bool has_own = !backend->renderers.empty() && !backend->renderers.front().arch_is_device;
    if (has_own) names.devices.push_back(backend->name);
  }
  const DeviceSpec spec = parse_device_spec(device, names);
  return {&renderer_of(*find_backend(spec.device), spec.renderer), spec.arch};
}

/// What the ARCH field names: nothing or WIDE, INTERP's own; else a device.
Target target_of(std::string_view arch) {
  if (arch.empty()) return own_target();
  if (equal_ignoring_case(arch, kWide)) return wide_target();
  const auto [renderer, own_arch] = borrowed(arch);
  return renderer->make_target(own_arch);
}

std::span<const LoweringRule> rules_of(std::string_view arch) {
  if (arch.empty()) return {};
  if (equal_ignoring_case(arch, kWide)) return {&kMulAcc4Rule, 1};
  const auto [renderer, own_arch] = borrowed(arch);
  return renderer->make_rules ? renderer->make_rules(own_arch) : std::span<const LoweringRule>();
}

}  // namespace
}  // namespace tenon::interp

namespace tenon {

void register_interp_backend();  // declared by the generated file too

void register_interp_backend() {
  static const interp::TirRenderer renderer;
  const auto is_present = [] { return std::optional<std::string>(); };
  BackendDescriptor backend;
  backend.name = "INTERP";
  backend.renderers.push_back(
      {.name = "TIR",
       .renderer = &renderer,
       .why_absent = is_present,
       .make_target = interp::target_of,
       .make_compiler = [](const Target& target) -> std::unique_ptr<Compiler> {
         return std::make_unique<interp::TirCompiler>(target);
       },
       .make_rules = interp::rules_of,
       .arch_is_device = true});
  backend.why_absent = is_present;
  backend.num_devices = [] { return 1; };
  backend.open = [](int index, const Target& target) -> std::unique_ptr<DeviceDriver> {
    return std::make_unique<interp::InterpDevice>(index, target);
  };
  register_backend(std::move(backend));
}

}  // namespace tenon
