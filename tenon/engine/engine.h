// Realisation: from tensor graphs to values in device memory. The face of the engine towards
// tensor/: devices by name, storage for given values, realize, read. Any thread may call.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ir/node.h"
#include "tenon/types/target.h"

namespace tenon {

/// An opened device together with its renderer and compiler; lives to the end of the process.
class EngineDevice;

/// Parses `[IFACE+]DEVICE[:INDEX][:RENDERER[:ARCH]]`, opens the device on first use and returns it.
/// Throws kInvalidArgument (misspelt, with the nearest right name) or kNotFound (what to install).
EngineDevice& open_device(std::string_view name);
/// The first target of setting DEV, or the built-in default; a scoped override per thread wins.
EngineDevice& default_device();
/// While alive, `device` is the calling thread's default.
class ScopedDefaultDevice {
 public:
  explicit ScopedDefaultDevice(EngineDevice& device);
  ~ScopedDefaultDevice();
  ScopedDefaultDevice(const ScopedDefaultDevice&) = delete;
  ScopedDefaultDevice& operator=(const ScopedDefaultDevice&) = delete;

 private:
  EngineDevice* previous_;
};

/// Full canonical name: "CPU:0:CLANG:x86_64,...": what errors and reports print.
std::string device_name(const EngineDevice& device);
std::string renderer_name(const EngineDevice& device);
const Target& device_target(const EngineDevice& device);
/// Small process-wide number (for tensor_copy nodes), and back.
int64_t device_number(const EngineDevice& device);
EngineDevice& device_by_number(int64_t number);

/// A buffer node holding `bytes` (row-major, dtype_size_bytes each) on `device`; the bytes are
/// copied.
Node buffer_from_bytes(EngineDevice& device, DType dtype, ShapeView shape,
                       std::span<const std::byte> bytes);

/// The device on which the value of `node` is or will be computed: its buffers' device, a copy's
/// target, else (constants only) null. Throws kInvalidArgument if its buffers live on two devices.
EngineDevice* device_of(const Node& node);

/// Counts and times of one or more realisations, nanoseconds; they add up to the wall time of
/// realize() on one queue.
struct RealizeStats {
  int64_t kernels = 0;   ///< launches
  int64_t compiled = 0;  ///< programs compiled (not found in a cache)
  int64_t schedule_ns = 0;
  int64_t lower_ns = 0;
  int64_t compile_ns = 0;
  int64_t load_ns = 0;
  int64_t copy_in_ns = 0;
  int64_t launch_ns = 0;  ///< overhead around kernels
  int64_t kernel_ns = 0;
  int64_t copy_out_ns = 0;
};

/// Computes the values of `nodes` (in one schedule) and keeps each as the node's value(): from then
/// on graphs over them start there. Nodes that are buffers or have a value cost nothing.
/// `default_target` is where graphs without buffers are computed; null: default_device().
void realize(std::span<const Node> nodes, EngineDevice* default_target = nullptr,
             RealizeStats* stats = nullptr);

/// The buffer node that stands for a realised node (a fresh leaf sharing its storage), so that the
/// graph behind it can be dropped.
Node realized_leaf(const Node& node);

/// Bytes of a realised node, row-major; waits for the device.
std::vector<std::byte> read_bytes(const Node& node, RealizeStats* stats = nullptr);

/// Sum over all realisations of the process since the start (for `tenon run`).
RealizeStats total_stats();

}  // namespace tenon
