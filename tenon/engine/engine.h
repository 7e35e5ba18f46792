// Realisation: from tensor graphs to values in device memory. The face of the engine towards
// tensor/: devices by name, storage for given values, realize, read. Any thread may call.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ir/node.h"
#include "tenon/types/support.h"
#include "tenon/types/target.h"

namespace tenon {

class GivenPlans;

/// An opened device together with its renderer and compiler. Lives to the end of the process.
class Device {
 public:
  /// Parses `[IFACE+]DEVICE[:INDEX][:RENDERER[:ARCH]]`, opens the device on first use and returns
  /// it. Throws kInvalidArgument (misspelt, with the nearest right name) or kNotFound (what to
  /// install).
  static Device& get(std::string_view name);
  /// The first target of setting DEV, or the built-in default; a scoped override per thread wins.
  static Device& get_default();
  /// The device whose memory is the file at `path`, which need not be there; null if no backend
  /// that is built has files for memory.
  static Device* find_for_file(const std::string& path);
  /// The device of that number(). Throws kInvalidArgument if there is none.
  static Device& by_number(int64_t number);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  /// Full canonical name: "CPU:0:CLANG:x86_64,...": what errors and reports print.
  const std::string& name() const { return name_; }
  const std::string& renderer_name() const { return renderer_name_; }
  const Target& target() const { return target_; }
  /// Counted from 0 in the order of opening; stands for the device in tensor_copy nodes.
  int64_t number() const { return number_; }

 protected:
  Device(std::string name, std::string renderer_name, Target target, int64_t number);
  ~Device() = default;

 private:
  const std::string name_;
  const std::string renderer_name_;
  const Target target_;
  const int64_t number_;
};

/// While alive, `device` is the calling thread's default.
class ScopedDefaultDevice {
 public:
  explicit ScopedDefaultDevice(Device& device);
  ~ScopedDefaultDevice();
  ScopedDefaultDevice(const ScopedDefaultDevice&) = delete;
  ScopedDefaultDevice& operator=(const ScopedDefaultDevice&) = delete;

 private:
  Device* previous_;
};

/// A buffer node holding `bytes` (row-major, dtype_size_bytes each) on `device`; the bytes are
/// copied.
Node buffer_from_bytes(Device& device, DType dtype, ShapeView shape,
                       std::span<const std::byte> bytes);

/// Bytes of the host that `owner` keeps and that nobody changes meanwhile.
struct HostBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// As buffer_from_bytes, but a device that can read memory of the host reads it there if it begins
/// at a multiple of 64 bytes: `owner` is then kept as long as the buffer. Else the bytes are
/// copied.
Node buffer_from_host(Device& device, DType dtype, ShapeView shape, const HostBytes& host);

/// A buffer node of uint8 holding what is on the device already: the bytes of its file, as they are
/// when they are read. Later changes of the file are kIo. Throws kUnsupported if the device has no
/// such content, kNotFound, kIo.
Node buffer_of_content(Device& device);

/// A buffer node that shares a part of the bytes of `base`, a buffer node. Throws kInvalidArgument
/// if the bytes are not all there, kUnsupported if the device has no such views.
Node buffer_view(const Node& base, DType dtype, ShapeView shape, int64_t offset_bytes);

/// The device on which the value of `node` is or will be computed: its buffers' device, a copy's
/// target, else (constants only) null. Throws kInvalidArgument if its buffers live on two devices.
Device* device_of(const Node& node);

/// Counts and times of one or more realisations, nanoseconds; they add up to the wall time of
/// realize() on one queue. What a device does while the host goes on is in none of them.
struct RealizeStats {
  int64_t kernels = 0;   ///< launches
  int64_t compiled = 0;  ///< programs compiled (not found in a cache)
  int64_t schedule_ns = 0;
  int64_t lower_ns = 0;
  int64_t compile_ns = 0;
  int64_t load_ns = 0;
  int64_t copy_in_ns = 0;  ///< and copies from device to device
  int64_t launch_ns = 0;   ///< overhead around kernels
  int64_t kernel_ns = 0;
  int64_t copy_out_ns = 0;
};

/// Computes the values of `nodes` (in one schedule) and keeps each as the node's value(): from then
/// on graphs over them start there. Nodes that are buffers or have a value cost nothing.
/// Devices with a queue of their own may still be at work when it returns; with `stats`, whose
/// times would be short, it waits. What fails before it returns is thrown and leaves no value; what
/// fails later poisons the values that depend on it: whoever reads one gets the error, with the
/// kernel's name, each time, and synchronize() gets it once if nobody has read it before.
/// `default_target` is where graphs without buffers are computed; null: Device::get_default().
/// `plans`: for some of the kernels (given_plans.h), each of which there must be.
void realize(std::span<const Node> nodes, Device* default_target = nullptr,
             RealizeStats* stats = nullptr, const GivenPlans* plans = nullptr);

/// Asked before realize(): the Reasons for which it would refuse to compute the nodes on `device`,
/// each once, at most one for each kernel; empty: it can. Lowers the kernels, compiles none.
std::vector<Reason> why_unsupported(std::span<const Node> nodes, const Device& device);

/// The value of a node that has one will be read by many realisations and not be assigned to:
/// kernels may keep a copy of it for each layout in which they read it faster, each as large as the
/// value, until the value goes; where there is no memory for one, kernels do without. The order in
/// which sums are rounded may differ with the layout. Throws kInvalidArgument without a value.
void set_constant(const Node& node);

/// The buffer node that stands for a realised node (a fresh leaf sharing its storage), so that the
/// graph behind it can be dropped.
Node realized_leaf(const Node& node);

/// Waits for all that was submitted to the device; throws the first failure that nobody has got.
void synchronize(Device& device);

/// Bytes of a realised node, row-major. Waits for its value (kernel time) and throws what made it
/// fail.
std::vector<std::byte> read_bytes(const Node& node, RealizeStats* stats = nullptr);

/// Sum over all realisations of the process since the start (for `tenon run`).
RealizeStats total_stats();

}  // namespace tenon
