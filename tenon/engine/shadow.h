// Shadow launches (setting TENON_CHECK): before a small launch on any device the checked
// interpreter runs the same linear program on copies of the arguments, and afterwards the device's
// results are compared. Used by realize.cpp. SPDX-License-Identifier: MIT

#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tenon/device/buffer_pool.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/given_plans.h"
#include "tenon/interp/checked_program.h"

namespace tenon {

/// Larger launches are not shadowed: bytes of the arguments, and what the interpreter does in about
/// a second.
inline constexpr int64_t kMaxShadowBytes = int64_t{16} << 20;
inline constexpr uint64_t kMaxShadowOperations = uint64_t{100} << 20;

/// The program that a kernel becomes on a device, for the interpreter.
class Shadow {
 public:
  Shadow(const EngineDevice& device, const Kernel& kernel, const GivenPlans* plans);
  Shadow(const EngineDevice& device, LinearProgram program);

  const CheckedProgram& program() const { return program_; }
  const std::string& device() const { return device_; }
  /// Results have the same bits everywhere (NaN stays NaN): nothing in it is bounded or left free.
  bool is_exact() const { return is_exact_; }

 private:
  CheckedProgram program_;
  std::string device_;
  bool is_exact_;
};

/// One launch. The constructor runs the interpreter and throws kInternal for what it finds: the
/// program is wrong, whichever device runs it.
class ShadowLaunch {
 public:
  /// `arguments` in the order of the signature; all of them buffers.
  ShadowLaunch(const Shadow& shadow, std::span<const Buffer> arguments);

  /// After the device has run the program: throws kDeviceFailed, naming the first element, where it
  /// has written something else.
  void compare(std::span<const Buffer> arguments) const;

 private:
  const Shadow& shadow_;
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<std::vector<uint8_t>> written_;
  bool is_complete_ = false;  ///< the interpreter ran, to the end
};

}  // namespace tenon
