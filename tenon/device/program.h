// Program: a ProgramObject loaded on a device, ready to launch. The one place where launch values
// are checked against the signature and packed; backends see a finished argument block.
// SPDX-License-Identifier: MIT

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tenon/device/device.h"
#include "tenon/types/program_object.h"
#include "tenon/types/signature.h"

namespace tenon {

/// Move-only; the device must outlive it. Launches are safe from several threads.
class Program {
 public:
  /// Loads; never compiles. Throws what DeviceDriver::load does.
  Program(DeviceDriver& device, const ProgramObject& object);
  Program(Program&&) noexcept = default;
  Program& operator=(Program&&) noexcept = default;

  const std::string& name() const { return name_; }
  const Signature& signature() const { return signature_; }

  /// Throws kInvalidArgument, before anything runs, if the values do not fit the signature or if
  /// bytes of an argument that is written belong to another argument as well; else what the device
  /// throws. May return before the work is done.
  void launch(const std::vector<ArgumentValue>& values) const;

 private:
  DeviceDriver* device_;
  std::string name_;
  Signature signature_;
  ArgumentLayout layout_;
  std::unique_ptr<LoadedProgram> loaded_;
};

}  // namespace tenon
