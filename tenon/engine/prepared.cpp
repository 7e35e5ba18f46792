// SPDX-License-Identifier: MIT

#include "tenon/engine/prepared.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <mutex>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/codegen/relayout_constants.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/placement.h"
#include "tenon/engine/program_store.h"
#include "tenon/engine/shadow.h"
#include "tenon/engine/storage.h"
#include "tenon/ir/linear_verify.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/rules/lower_dtypes.h"
#include "tenon/schedule/schedule.h"

namespace tenon {
namespace {

/// Larger graphs are scheduled each time: what they take then is theirs, not overhead.
constexpr size_t kMaxNodes = 4096;

/// Constants up to this size are written by the host: a kernel costs more (a compilation of some
/// 30 ms, once) than copying a page. Larger ones get a kernel, which writes with all threads.
constexpr int64_t kMaxFillBytes = 4096;

/// Devices are never closed.
int64_t id_of(const EngineDevice* device) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(device));
}

void check_size(const ScheduledBuffer& buffer) {
  const int64_t count = num_elements(buffer.shape);
  TENON_CHECK(count <= kMaxBufferElements, ErrorCode::kOutOfMemory, "realize: a value of ", count,
              " elements must be stored, at most ", kMaxBufferElements, " can be; ",
              op_name(buffer.node.op()), ", shape ", format_shape(buffer.shape), ", ",
              dtype_long_name(buffer.dtype), ". Split the tensor");
}

std::vector<PreparedBuffer> prepare_buffers(const Schedule& schedule, const GraphForm& form,
                                            const NodeNumbers& numbers, Device& default_device) {
  std::vector<EngineDevice*> given(schedule.buffers.size(), nullptr);
  for (size_t i = 0; i < given.size(); ++i) {
    const ScheduledBuffer& buffer = schedule.buffers[i];
    if (buffer.is_given) given[i] = form.devices[static_cast<size_t>(numbers.at(buffer.node.id()))];
  }
  const std::vector<EngineDevice*> devices = place_buffers(schedule, given, default_device);
  std::vector<PreparedBuffer> buffers;
  for (size_t i = 0; i < schedule.buffers.size(); ++i) {
    const ScheduledBuffer& buffer = schedule.buffers[i];
    check_size(buffer);
    const auto node = numbers.find(buffer.node.id());
    buffers.push_back({.node = node == numbers.end() ? PreparedBuffer::kAdded : node->second,
                       .device = devices[i],
                       .dtype = buffer.dtype,
                       .size_bytes = dense_size_bytes(buffer.dtype, buffer.shape),
                       .is_given = buffer.is_given,
                       .is_output = buffer.is_output,
                       .is_assign = buffer.node.op() == Op::kAssign,
                       .last_call = 0});
  }
  for (size_t i = 0; i < schedule.calls.size(); ++i) {
    const ScheduledCall& call = schedule.calls[i];
    for (const int number : call.buffers)
      buffers[static_cast<size_t>(number)].last_call = i;
    if (call.copy_from >= 0) buffers[static_cast<size_t>(call.copy_from)].last_call = i;
  }
  return buffers;
}

PreparedCall prepare_call(const ScheduledCall& call, std::span<const PreparedBuffer> buffers) {
  PreparedCall result{.kernel = call.kernel.name,
                      .program = nullptr,
                      .buffers = call.buffers,
                      .dtypes = {},
                      .copy_from = call.copy_from,
                      .fill = {},
                      .relaid = {},
                      .shadow = nullptr};
  const PreparedBuffer& output = buffers[static_cast<size_t>(call.buffers[0])];
  if (call.constant && output.size_bytes <= kMaxFillBytes) result.fill = call.constant;
  if (call.copy_from >= 0) return result;
  for (const int number : call.buffers) {
    result.dtypes.push_back(
        storage_dtype(buffers[static_cast<size_t>(number)].dtype, output.device->target()));
  }
  return result;
}

/// Kernels read constants in layouts of their own where that is faster.
void relayout(Schedule& schedule, Prepared& prepared, const GraphForm& form, RealizeStats& stats) {
  const ScopedTimer timer(stats.lower_ns);
  for (size_t i = 0; i < schedule.calls.size(); ++i) {
    PreparedCall& call = prepared.calls[i];
    if (call.copy_from >= 0 || call.fill) continue;
    Kernel& kernel = schedule.calls[i].kernel;
    std::vector<bool> is_constant(kernel.buffers.size(), false);
    for (size_t k = 0; k < call.buffers.size(); ++k) {
      const PreparedBuffer& buffer = prepared.buffers[static_cast<size_t>(call.buffers[k])];
      is_constant[k] = buffer.is_given && buffer.node != PreparedBuffer::kAdded &&
                       form.constants[static_cast<size_t>(buffer.node)];
    }
    if (std::ranges::find(is_constant, true) == is_constant.end()) continue;
    const EngineDevice& device = *prepared.buffers[static_cast<size_t>(call.buffers[0])].device;
    kernel = with_context([&] { return relayout_constants(kernel, is_constant, device.target()); },
                          "laying out constants for kernel '", kernel.name, "'");
    for (size_t k = 0; k < call.buffers.size(); ++k) {
      const BufferDecl& decl = kernel.buffers[k];
      if (!decl.layout.empty()) call.relaid.push_back({k, decl.dims, decl.layout});
    }
  }
}

/// All programs that are missing on one device are made at once.
void prepare_programs(const Schedule& schedule, Prepared& prepared, RealizeStats& stats,
                      const GivenPlans* plans) {
  struct Wanted {
    EngineDevice* device;
    std::vector<const Kernel*> kernels;
    std::vector<size_t> calls;
  };
  std::vector<Wanted> by_device;
  for (size_t i = 0; i < prepared.calls.size(); ++i) {
    const PreparedCall& call = prepared.calls[i];
    if (call.copy_from >= 0 || call.fill) continue;
    EngineDevice* const device = prepared.buffers[static_cast<size_t>(call.buffers[0])].device;
    auto wanted = std::ranges::find(by_device, device, &Wanted::device);
    if (wanted == by_device.end()) wanted = by_device.insert(wanted, Wanted{device, {}, {}});
    wanted->kernels.push_back(&schedule.calls[i].kernel);
    wanted->calls.push_back(i);
  }
  if (plans != nullptr) {
    std::vector<const Kernel*> all;
    for (const Wanted& wanted : by_device)
      all.insert(all.end(), wanted.kernels.begin(), wanted.kernels.end());
    plans->check_names(all);
  }
  for (const Wanted& wanted : by_device) {
    std::vector<ProgramPtr> programs = find_programs(*wanted.device, wanted.kernels, stats, plans);
    for (size_t i = 0; i < programs.size(); ++i) {
      PreparedCall& call = prepared.calls[wanted.calls[i]];
      call.program = std::move(programs[i]);
      if (!setting_bool(Setting::kCheck)) continue;
      call.shadow = std::make_shared<const Shadow>(*wanted.device, *wanted.kernels[i], plans);
    }
  }
}

// What every device of the graph binds; 0: no limit. Which device runs a kernel shows only when the
// kernels are known (place_buffers).
int fewest_arguments(const GraphForm& form, const Device& default_device) {
  int fewest = default_device.target().max_arguments;
  const auto add = [&](const Device& device) {
    const int most = device.target().max_arguments;
    if (most != 0 && (fewest == 0 || most < fewest)) fewest = most;
  };
  for (size_t i = 0; i < form.nodes.size(); ++i) {
    if (form.devices[i] != nullptr) {
      add(*form.devices[i]);
    } else if (form.nodes[i].op() == Op::kCopy) {
      add(Device::by_number(form.nodes[i].attr(0)));
    }
  }
  return fewest;
}

}  // namespace

std::shared_ptr<const Prepared> make_prepared(const GraphForm& form, std::span<const Node> outputs,
                                              const NodeNumbers& numbers, Device& default_device,
                                              RealizeStats& stats, const GivenPlans* plans) {
  const auto prepared = std::make_shared<Prepared>();
  Schedule schedule;
  {
    const ScopedTimer timer(stats.schedule_ns);
    ScheduleOptions options = schedule_options(default_device.target());
    options.max_arguments = fewest_arguments(form, default_device);
    options.is_known = [&](const Node& node) {
      const auto found = numbers.find(node.id());
      return found != numbers.end() && form.devices[static_cast<size_t>(found->second)] != nullptr;
    };
    schedule = schedule_graph(outputs, options);
    prepared->outputs = schedule.outputs;
    prepared->buffers = prepare_buffers(schedule, form, numbers, default_device);
    for (const ScheduledCall& call : schedule.calls)
      prepared->calls.push_back(prepare_call(call, prepared->buffers));
  }
  if (plans == nullptr && !has_simple_plans()) relayout(schedule, *prepared, form, stats);
  prepare_programs(schedule, *prepared, stats, plans);
  return prepared;
}

std::optional<Hash128> key_of(const GraphForm& form, const Device& default_device) {
  if (form.nodes.size() > kMaxNodes) return std::nullopt;
  std::vector<int64_t> words;
  words.reserve(16 * form.nodes.size() + form.outputs.size() + 8);
  const auto add_list = [&](const auto& list) {
    words.push_back(static_cast<int64_t>(list.size()));
    words.insert(words.end(), list.begin(), list.end());
  };
  for (size_t i = 0; i < form.nodes.size(); ++i) {
    const Node& node = form.nodes[i];
    const EngineDevice* const device = form.devices[i];
    if (device == nullptr && node.attachment() != nullptr) return std::nullopt;
    words.push_back(id_of(device));
    words.push_back(form.constants[i] ? 1 : 0);
    words.push_back(static_cast<int64_t>(node.dtype()));
    add_list(node.shape());
    if (device != nullptr) continue;  // what computed the value does not matter
    words.push_back(static_cast<int64_t>(node.op()));
    add_list(node.attr());
    add_list(form.srcs[i]);
  }
  add_list(form.outputs);
  words.push_back(id_of(&engine_device(default_device)));
  words.push_back(has_simple_plans() ? 1 : 0);
  words.push_back(setting_bool(Setting::kCheck) ? 1 : 0);
  words.push_back(static_cast<int64_t>(planted_fault()));
  return hash128(std::as_bytes(std::span(words)));
}

std::shared_ptr<const Prepared> PreparedTable::find(const Hash128& key) {
  const std::lock_guard lock(mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void PreparedTable::keep(const Hash128& key, std::shared_ptr<const Prepared> prepared) {
  std::list<Entry> dropped;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  if (by_key_.contains(key)) return;  // another thread was first
  entries_.emplace_front(key, std::move(prepared));
  by_key_.emplace(key, entries_.begin());
  if (entries_.size() <= max_entries_) return;
  by_key_.erase(entries_.back().first);
  dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
}

size_t PreparedTable::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace tenon
