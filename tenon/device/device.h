// DeviceDriver: what a backend opens. With Allocator, LoadedProgram, Compiler and Queue it is the
// device contract; bytes and addresses only. Called by engine/, Program and Queue.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "tenon/device/allocator.h"
#include "tenon/device/buffer_pool.h"
#include "tenon/device/queue.h"
#include "tenon/types/program_object.h"
#include "tenon/types/target.h"

namespace tenon {

/// A ProgramObject that a device has loaded. Only Program calls it, with checked arguments: what is
/// written through one does not overlap another. The destructor waits for launches under way.
class LoadedProgram {
 public:
  LoadedProgram() = default;
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;
  virtual ~LoadedProgram() = default;

  /// Runs all groups. `arguments` is the block of layout_arguments, valid during the call. Safe
  /// from any thread; may return before the work is done (synchronize waits for it).
  virtual void launch(std::span<const std::byte> arguments) = 0;
};

/// Safe from any thread. Outlives its buffers and programs.
class DeviceDriver {
 public:
  DeviceDriver() = default;
  DeviceDriver(const DeviceDriver&) = delete;
  DeviceDriver& operator=(const DeviceDriver&) = delete;
  virtual ~DeviceDriver() = default;

  /// "NAME:INDEX", for error texts.
  virtual const std::string& name() const = 0;
  /// What it was opened for; programs of this Target run.
  virtual const Target& target() const = 0;
  virtual Allocator& allocator() = 0;
  virtual BufferPoolOptions pool_options() const { return {}; }

  /// Never compiles. Throws kUnsupported, with the reason, for a payload format or a Target that
  /// this device does not run, kInvalidArgument for a damaged payload.
  virtual std::unique_ptr<LoadedProgram> load(const ProgramObject& object) = 0;
  /// Waits for all launches and copies; throws the first failure among them since the last call.
  /// Afterwards the device is usable again, or each call throws kDeviceFailed. A HostQueue calls it
  /// after each job, so that a failure is that of its job.
  virtual void synchronize() = 0;

  /// The device's queue, made once by whoever opens the driver and gone before it. A backend writes
  /// none to begin with. This one runs a job, launch and synchronize(), on the thread that submits
  /// it, one at a time; Mode::kThread lets the host go on meanwhile. A device with streams of its
  /// own that wants the next launch before the last one is done derives its own Queue and Timeline:
  /// launches into a stream, waits for events of its own kind there and for others on a thread,
  /// reached() from the stream's marks, run_job() for what has to be kept when a job fails.
  virtual std::unique_ptr<Queue> make_queue() {
    return std::make_unique<HostQueue>(*this, HostQueue::Mode::kCaller);
  }
};

}  // namespace tenon
