// Launches are synchronous: what a check finds is thrown by the launch.
// SPDX-License-Identifier: MIT

#include "tenon/backend/interp/interp_device.h"

#include <unistd.h>

#include <cstring>
#include <utility>

#include "tenon/backend/interp/arena.h"
#include "tenon/backend/interp/tir_compiler.h"
#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/ir/linear_verify.h"

namespace tenon::interp {
namespace {

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

}  // namespace

std::unique_ptr<DeviceDriver> open_interp_device(int index, const Target& target) {
  return std::make_unique<InterpDevice>(index, target);
}

}  // namespace tenon::interp
