// Checking and packing of launch values. SPDX-License-Identifier: MIT

#include "tenon/device/program.h"

#include <array>
#include <cstring>

#include "tenon/base/error.h"

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
  if (const auto reason = why_arguments_differ(signature_, values)) {
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
