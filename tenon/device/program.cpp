// Checking and packing of launch values. SPDX-License-Identifier: MIT

#include "tenon/device/program.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

/// Little-endian hosts only, as ProgramObject files are: the low bytes are the value.
void pack(const Argument& argument, const ArgumentValue& value, std::byte* place) {
  if (argument.is_buffer) {
    static_assert(sizeof value.address == 8);
    std::memcpy(place, &value.address, sizeof value.address);
    return;
  }
  std::memcpy(place, &value.bits, static_cast<size_t>(dtype_size_bytes(argument.dtype)));
}

/// Why a program may not run on these values though each one fits: it relies on nobody else reading
/// or writing the bytes that it writes through an argument.
std::optional<std::string> why_buffers_overlap(const Signature& signature,
                                               const std::vector<ArgumentValue>& values) {
  struct Range {
    size_t number;
    uintptr_t begin;
    uintptr_t end;
    bool is_written;
  };
  std::vector<Range> ranges;
  for (size_t i = 0; i < values.size(); ++i) {
    const Argument& argument = signature.arguments[i];
    const int64_t bytes = argument.num_elements * dtype_size_bytes(argument.dtype);
    if (!argument.is_buffer || bytes == 0) continue;
    const auto begin = reinterpret_cast<uintptr_t>(values[i].address);
    ranges.push_back({i, begin, begin + static_cast<uintptr_t>(bytes),
                      argument.access != ArgumentAccess::kRead});
  }
  for (const Range& written : ranges) {
    if (!written.is_written) continue;
    for (const Range& other : ranges) {
      const bool is_apart = written.end <= other.begin || other.end <= written.begin;
      if (is_apart || written.number == other.number) continue;
      return concat("argument ", written.number, " '", signature.arguments[written.number].name,
                    "', which the kernel writes, and argument ", other.number, " '",
                    signature.arguments[other.number].name,
                    "' share bytes. Give it a buffer of its "
                    "own");
    }
  }
  return std::nullopt;
}

}  // namespace

Program::Program(DeviceDriver& device, const ProgramObject& object)
    : device_(&device),
      name_(object.entry),
      signature_(object.signature),
      layout_(layout_arguments(object.signature)),
      loaded_(with_context([&] { return device.load(object); }, "loading program '", object.entry,
                           "' on '", device.name(), "'")) {}

void Program::launch(const std::vector<ArgumentValue>& values) const {
  TENON_ASSERT(loaded_ != nullptr, "launch of a program that was moved from");
  auto reason = why_arguments_differ(signature_, values);
  if (!reason) reason = why_buffers_overlap(signature_, values);
  if (reason) {
    fail(ErrorCode::kInvalidArgument, "launch of kernel '", name_, "' on '", device_->name(),
         "' failed: ", *reason);
  }
  constexpr size_t kSmallBlock = 512;
  alignas(8) std::array<std::byte, kSmallBlock> small;
  std::vector<uint64_t> large;
  std::byte* block = small.data();
  if (layout_.size_bytes > kSmallBlock) {
    large.resize(layout_.size_bytes / sizeof(uint64_t));
    block = reinterpret_cast<std::byte*>(large.data());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    pack(signature_.arguments[i], values[i], block + layout_.offsets[i]);
  }
  loaded_->launch({block, layout_.size_bytes});
}

}  // namespace tenon
