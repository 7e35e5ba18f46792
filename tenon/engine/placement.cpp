// Buffers that meet in a kernel form a group (union-find); each group has at most one device.
// SPDX-License-Identifier: MIT

#include "tenon/engine/placement.h"

#include <numeric>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/types/support.h"

namespace tenon {
namespace {

class Groups {
 public:
  explicit Groups(size_t count) : parent_(count), device_(count, nullptr) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }

  size_t find(size_t item) {
    while (parent_[item] != item) {
      parent_[item] = parent_[parent_[item]];
      item = parent_[item];
    }
    return item;
  }

  void set_device(size_t item, EngineDevice& device) { device_[find(item)] = &device; }
  EngineDevice* device(size_t item) { return device_[find(item)]; }

  void unite(size_t a, size_t b, const std::string& kernel_name) {
    const size_t root_a = find(a);
    const size_t root_b = find(b);
    if (root_a == root_b) return;
    EngineDevice* const first = device_[root_a];
    EngineDevice* const second = device_[root_b];
    TENON_CHECK(first == nullptr || second == nullptr || first == second,
                ErrorCode::kInvalidArgument, "kernel '", kernel_name,
                "' has operands on two devices, '", first->name(), "' and '", second->name(),
                "'. Copy one of them with to()");
    parent_[root_b] = root_a;
    if (first == nullptr) device_[root_a] = second;
  }

 private:
  std::vector<size_t> parent_;
  std::vector<EngineDevice*> device_;
};

void check_arguments(const ScheduledCall& call, const EngineDevice& device) {
  if (call.copy_from >= 0) return;
  with_context([&] { device.check_runs_programs(); }, "placing kernel '", call.kernel.name, "'");
  require(supports(device.target(), Limit::kArguments, std::ssize(call.buffers)),
          "realize: kernel '", call.kernel.name, "', computed by '", device.name(), "', ");
}

}  // namespace

std::vector<EngineDevice*> place_buffers(const Schedule& schedule,
                                         const std::vector<EngineDevice*>& given,
                                         Device& default_device) {
  Groups groups(schedule.buffers.size());
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const ScheduledBuffer& buffer = schedule.buffers[i];
    if (!buffer.is_given) {
      if (buffer.node.op() == Op::kCopy) {
        groups.set_device(i, engine_device(Device::by_number(buffer.node.attr(0))));
      }
      continue;
    }
    TENON_CHECK(given[i] != nullptr, ErrorCode::kInvalidArgument, "realize: a buffer of shape ",
                format_shape(buffer.shape), " (", dtype_long_name(buffer.dtype),
                ") has no storage; it is a graph's input. Bind it");
    groups.set_device(i, *given[i]);
  }
  for (const ScheduledCall& call : schedule.calls) {
    if (call.copy_from >= 0) continue;
    for (const int number : call.buffers) {
      groups.unite(static_cast<size_t>(call.buffers[0]), static_cast<size_t>(number),
                   call.kernel.name);
    }
  }
  std::vector<EngineDevice*> devices;
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    EngineDevice* const device = groups.device(i);
    devices.push_back(device == nullptr ? &engine_device(default_device) : device);
  }
  for (const ScheduledCall& call : schedule.calls)
    check_arguments(call, *devices[static_cast<size_t>(call.buffers[0])]);
  return devices;
}

}  // namespace tenon
