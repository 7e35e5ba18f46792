// EngineDevice: an opened device with the renderer, Target and compiler it is used with, its buffer
// pool and its programs. Internal to engine/ and to tools that show what it makes; others use the
// functions of engine.h. Never closed: programs and buffers refer to it.
// SPDX-License-Identifier: MIT

#pragma once

#include <memory>
#include <string>

#include "tenon/base/hash.h"
#include "tenon/device/buffer_pool.h"
#include "tenon/engine/backend.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/prepared.h"
#include "tenon/engine/program_table.h"

namespace tenon {

class EngineDevice final : public Device {
 public:
  /// `name` is the canonical one, `number` its place in the table of opened devices.
  EngineDevice(std::string name, int64_t number, const RendererDescriptor& renderer,
               std::span<const LoweringRule> rules, Target target,
               std::unique_ptr<Compiler> compiler, std::unique_ptr<DeviceDriver> driver,
               size_t max_programs = kMaxLoadedPrograms);

  /// One that only holds bytes.
  EngineDevice(std::string name, int64_t number, std::unique_ptr<DeviceDriver> driver);

  bool runs_programs() const { return compiler_ != nullptr; }
  /// These throw kUnsupported if it runs no programs.
  void check_runs_programs() const;
  const RendererDescriptor& renderer() const;
  const Compiler& compiler() const;
  std::span<const LoweringRule> lowering_rules() const { return rules_; }
  DeviceDriver& driver() { return *driver_; }
  BufferPool& pool() { return pool_; }
  Queue& queue() { return *queue_; }
  ProgramTable& programs() { return programs_; }
  /// Of realisations whose default device this is.
  PreparedTable& prepared() { return prepared_; }

  /// Hash of all that decides a program besides its kernel: Tenon's version and sources, Target,
  /// renderer, the compiler's fingerprint.
  const Hash128& base_key() const { return base_key_; }

  /// A buffer with the guards of memory_checks(). Where there is no memory it waits for the jobs
  /// under way, which hold some.
  Buffer allocate(int64_t size_bytes);

 private:
  const RendererDescriptor* const renderer_;  ///< null, as the compiler: it runs no programs
  const std::span<const LoweringRule> rules_;
  const std::unique_ptr<Compiler> compiler_;
  const std::unique_ptr<DeviceDriver> driver_;
  BufferPool pool_;
  const Hash128 base_key_{};
  ProgramTable programs_;
  PreparedTable prepared_{kMaxPrepared};
  const std::unique_ptr<Queue> queue_;  ///< last: its jobs hold buffers and programs
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
