// EngineDevice: an opened device with the renderer, Target and compiler it is used with, its buffer
// pool and its programs. Internal to engine/ and to tools that show what it makes; others use the
// functions of engine.h. Never closed: programs and buffers refer to it.
// SPDX-License-Identifier: MIT

#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tenon/base/hash.h"
#include "tenon/device/buffer_pool.h"
#include "tenon/device/program.h"
#include "tenon/engine/backend.h"
#include "tenon/engine/engine.h"

namespace tenon {

class EngineDevice final : public Device {
 public:
  /// `name` is the canonical one, `number` its place in the table of opened devices.
  EngineDevice(std::string name, int64_t number, const RendererDescriptor& renderer, Target target,
               std::unique_ptr<Compiler> compiler, std::unique_ptr<DeviceDriver> driver);

  const RendererDescriptor& renderer() const { return renderer_; }
  const Compiler& compiler() const { return *compiler_; }
  DeviceDriver& driver() { return *driver_; }
  BufferPool& pool() { return pool_; }

  /// Hash of all that decides a program besides its kernel: Tenon's version and sources, Target,
  /// renderer, the compiler's fingerprint.
  const Hash128& base_key() const { return base_key_; }

  /// A buffer with the guards of memory_checks().
  Buffer allocate(int64_t size_bytes);

  /// The loaded program of that key, or null. Programs stay for the life of the process.
  const Program* find_program(const Hash128& key) const;
  /// Keeps the program, or the one that another thread has put there meanwhile.
  const Program& keep_program(const Hash128& key, Program program);

 private:
  const RendererDescriptor& renderer_;
  const std::unique_ptr<Compiler> compiler_;
  const std::unique_ptr<DeviceDriver> driver_;
  BufferPool pool_;
  const Hash128 base_key_;
  mutable std::mutex mutex_;
  std::unordered_map<Hash128, std::unique_ptr<const Program>> programs_;
};

/// Every Device is an EngineDevice; this is the engine's view of it.
inline EngineDevice& engine_device(Device& device) {
  return static_cast<EngineDevice&>(device);
}
inline const EngineDevice& engine_device(const Device& device) {
  return static_cast<const EngineDevice&>(device);
}

/// Throws kDeviceFailed in a process that was forked after a device had been opened: neither
/// threads nor a driver's state survive that.
void check_not_forked();

}  // namespace tenon
