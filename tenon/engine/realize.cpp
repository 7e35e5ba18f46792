// realize(): schedule, place, find programs, run in order, keep the values of the outputs.
// Every kernel writes a fresh buffer, so values once read never change and several threads may
// realise at once. SPDX-License-Identifier: MIT

#include <algorithm>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/engine/events.h"
#include "tenon/engine/memory_checks.h"
#include "tenon/engine/placement.h"
#include "tenon/engine/program_store.h"
#include "tenon/engine/storage.h"
#include "tenon/ir/linear_verify.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/rules/lower_dtypes.h"
#include "tenon/schedule/schedule.h"

namespace tenon {
namespace {

/// Constants up to this size are written by the host: a kernel costs more (a compilation of some
/// 30 ms, once) than copying a page. Larger ones get a kernel, which writes with all threads.
constexpr int64_t kMaxFillBytes = 4096;

/// Held alone while a realisation replaces the values of the buffers that it assigns to.
std::shared_mutex& assigned_mutex() {
  static auto* const mutex = new std::shared_mutex;  // leaked on purpose: used in destructors
  return *mutex;
}

class Realizer {
 public:
  Realizer(std::span<const Node> outputs, Device* default_target)
      : outputs_(outputs.begin(), outputs.end()), default_target_(default_target) {}

  /// Notes what has a value already, and that value: other threads may realise the same nodes
  /// meanwhile or assign to them, and this realisation must see one state.
  void look() {
    const ScopedTimer timer(stats_.schedule_ns);
    const std::shared_lock lock(assigned_mutex());
    std::vector<Node> todo = outputs_;
    std::unordered_set<const void*> seen;
    while (!todo.empty()) {
      const Node node = std::move(todo.back());
      todo.pop_back();
      if (!seen.insert(node.id()).second) continue;
      if (const Ref<Storage> storage = storage_of(node)) {
        known_.emplace(node.id(), Known{&storage->device(), storage->buffer()});
        continue;
      }
      has_assign_ = has_assign_ || node.op() == Op::kAssign;
      // The old value of an assigned buffer is not read through the assign itself.
      for (const Node& src : node.srcs())
        todo.push_back(src);
    }
    std::erase_if(outputs_, [this](const Node& node) { return known_.contains(node.id()); });
  }

  bool is_done() const { return outputs_.empty(); }
  bool has_assign() const { return has_assign_; }
  const RealizeStats& stats() const { return stats_; }

  void run() {
    make_schedule();
    find_all_programs();
    for (size_t i = 0; i < schedule_.calls.size(); ++i)
      run_call(i);
    for (EngineDevice* device : used_devices()) {
      const ScopedTimer timer(stats_.kernel_ns);
      device->driver().synchronize();
    }
    publish();
  }

 private:
  /// A value that is there before the realisation starts.
  struct Known {
    EngineDevice* device;
    Buffer buffer;
  };

  void make_schedule() {
    const ScopedTimer timer(stats_.schedule_ns);
    if (default_target_ == nullptr) default_target_ = &Device::get_default();
    ScheduleOptions options;
    options.is_known = [this](const Node& node) { return known_.contains(node.id()); };
    options.max_local_bytes = default_target_->target().max_local_bytes;
    schedule_ = schedule_graph(outputs_, options);
    buffers_.resize(schedule_.buffers.size());
    std::vector<EngineDevice*> given(schedule_.buffers.size(), nullptr);
    for (size_t i = 0; i < given.size(); ++i) {
      const auto known = known_.find(schedule_.buffers[i].node.id());
      if (!schedule_.buffers[i].is_given || known == known_.end()) continue;
      given[i] = known->second.device;
      buffers_[i] = known->second.buffer;
    }
    devices_ = place_buffers(schedule_, given, *default_target_);
    last_call_.assign(schedule_.buffers.size(), 0);
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const ScheduledBuffer& buffer = schedule_.buffers[i];
      check_size(buffer);
      if (!buffer.is_given && dense_size_bytes(buffer.dtype, buffer.shape) == 0) {
        buffers_[i] = devices_[i]->allocate(0);  // no call writes it
      }
    }
    for (size_t i = 0; i < schedule_.calls.size(); ++i) {
      const ScheduledCall& call = schedule_.calls[i];
      for (const int number : call.buffers)
        last_call_[static_cast<size_t>(number)] = i;
      if (call.copy_from >= 0) last_call_[static_cast<size_t>(call.copy_from)] = i;
    }
  }

  static void check_size(const ScheduledBuffer& buffer) {
    const int64_t count = num_elements(buffer.shape);
    TENON_CHECK(count <= kMaxBufferElements, ErrorCode::kOutOfMemory, "realize: a value of ", count,
                " elements must be stored, at most ", kMaxBufferElements, " can be; ",
                op_name(buffer.node.op()), ", shape ", format_shape(buffer.shape), ", ",
                dtype_long_name(buffer.dtype), ". Split the tensor");
  }

  EngineDevice& device_of_call(const ScheduledCall& call) const {
    return *devices_[static_cast<size_t>(call.buffers[0])];
  }

  std::vector<EngineDevice*> used_devices() const {
    std::vector<EngineDevice*> devices;
    for (const ScheduledCall& call : schedule_.calls) {
      EngineDevice* const device = &device_of_call(call);
      if (std::find(devices.begin(), devices.end(), device) == devices.end()) {
        devices.push_back(device);
      }
    }
    return devices;
  }

  void find_all_programs() {
    programs_.assign(schedule_.calls.size(), nullptr);
    for (EngineDevice* device : used_devices()) {
      std::vector<const Kernel*> kernels;
      std::vector<size_t> numbers;
      for (size_t i = 0; i < schedule_.calls.size(); ++i) {
        const ScheduledCall& call = schedule_.calls[i];
        if (call.copy_from >= 0 || is_fill(call) || &device_of_call(call) != device) continue;
        kernels.push_back(&call.kernel);
        numbers.push_back(i);
      }
      std::vector<ProgramPtr> programs = find_programs(*device, kernels, stats_);
      for (size_t i = 0; i < numbers.size(); ++i)
        programs_[numbers[i]] = std::move(programs[i]);
    }
  }

  void run_call(size_t number) {
    const ScheduledCall& call = schedule_.calls[number];
    with_context(
        [&] {
          if (call.copy_from >= 0) {
            run_copy(call);
          } else if (is_fill(call)) {
            run_fill(call);
          } else {
            run_kernel(call, *programs_[number]);
          }
        },
        "realising ", [&] { return describe_output(call); });
    // Intermediates go back to the pool after their last use.
    const auto drop = [&](int used) {
      const auto i = static_cast<size_t>(used);
      const ScheduledBuffer& buffer = schedule_.buffers[i];
      const bool is_kept = buffer.is_output || buffer.is_given || buffer.node.op() == Op::kAssign;
      if (!is_kept && last_call_[i] == number) buffers_[i] = Buffer();
    };
    for (const int used : call.buffers)
      drop(used);
    if (call.copy_from >= 0) drop(call.copy_from);
  }

  std::string describe_output(const ScheduledCall& call) const {
    const ScheduledBuffer& buffer = schedule_.buffers[static_cast<size_t>(call.buffers[0])];
    return concat(op_name(buffer.node.op()), " of shape ", format_shape(buffer.shape), " (",
                  dtype_long_name(buffer.dtype), ")");
  }

  Buffer make_output(const ScheduledCall& call) {
    const auto number = static_cast<size_t>(call.buffers[0]);
    const ScheduledBuffer& buffer = schedule_.buffers[number];
    buffers_[number] = devices_[number]->allocate(dense_size_bytes(buffer.dtype, buffer.shape));
    return buffers_[number];
  }

  bool is_fill(const ScheduledCall& call) const {
    const ScheduledBuffer& buffer = schedule_.buffers[static_cast<size_t>(call.buffers[0])];
    return call.constant && dense_size_bytes(buffer.dtype, buffer.shape) <= kMaxFillBytes;
  }

  void run_fill(const ScheduledCall& call) {
    const ScopedTimer timer(stats_.copy_in_ns);
    const Buffer output = make_output(call);
    const DType dtype = schedule_.buffers[static_cast<size_t>(call.buffers[0])].dtype;
    const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
    std::vector<std::byte> bytes(static_cast<size_t>(output.size_bytes()));
    for (size_t at = 0; at < bytes.size(); at += width)
      std::memcpy(bytes.data() + at, &*call.constant, width);  // little-endian
    output.copy_in(bytes);
  }

  void run_kernel(const ScheduledCall& call, const Program& program) {
    const MemoryChecks checks = memory_checks();
    const Buffer output = make_output(call);
    if (checks.poison_outputs) output.fill(kPoisonByte);
    const Target& target = device_of_call(call).target();
    std::vector<ArgumentValue> values;
    values.reserve(call.buffers.size());
    for (const int number : call.buffers) {
      const auto i = static_cast<size_t>(number);
      values.push_back({.is_buffer = true,
                        .dtype = storage_dtype(schedule_.buffers[i].dtype, target),
                        .address = buffers_[i].address(),
                        .size_bytes = buffers_[i].size_bytes()});
    }
    const int64_t start_ns = now_ns();
    program.launch(values);
    const int64_t time_ns = now_ns() - start_ns;
    stats_.kernel_ns += time_ns;
    ++stats_.kernels;
    send_event({.kind = EngineEvent::Kind::kLaunched,
                .kernel = call.kernel.name,
                .device = device_of_call(call).name(),
                .time_ns = time_ns});
    if (checks.guard_bytes > 0) check_guards(call);
  }

  void check_guards(const ScheduledCall& call) {
    device_of_call(call).driver().synchronize();
    for (size_t i = 0; i < call.buffers.size(); ++i) {
      const auto reason = buffers_[static_cast<size_t>(call.buffers[i])].why_guard_broken();
      TENON_ASSERT(!reason, "kernel '", call.kernel.name, "', argument ", i, ": ", *reason);
    }
  }

  void run_copy(const ScheduledCall& call) {
    const auto to = static_cast<size_t>(call.buffers[0]);
    const auto from = static_cast<size_t>(call.copy_from);
    if (devices_[to] == devices_[from]) {
      buffers_[to] = buffers_[from];  // bytes never change, so they are shared
      return;
    }
    const int64_t start_ns = now_ns();
    const Buffer& source = buffers_[from];
    std::vector<std::byte> bytes(static_cast<size_t>(source.size_bytes()));
    {
      const ScopedTimer timer(stats_.copy_out_ns);
      devices_[from]->driver().synchronize();
      source.copy_out(bytes);
    }
    const ScopedTimer timer(stats_.copy_in_ns);
    make_output(call).copy_in(bytes);
    send_event({.kind = EngineEvent::Kind::kCopied,
                .kernel = {},
                .device = devices_[to]->name(),
                .time_ns = now_ns() - start_ns});
  }

  /// Values become visible only when all of them are there.
  void publish() {
    std::unique_lock lock(assigned_mutex(), std::defer_lock);
    if (has_assign_) lock.lock();
    for (size_t i = 0; i < schedule_.buffers.size(); ++i) {
      const ScheduledBuffer& buffer = schedule_.buffers[i];
      const bool is_assign = buffer.node.op() == Op::kAssign;
      if (buffer.is_given || (!buffer.is_output && !is_assign)) continue;
      if (is_assign) {
        const Ref<Storage> target = storage_of(buffer.node.src(0));
        TENON_CHECK(static_cast<bool>(target), ErrorCode::kInvalidArgument,
                    "assign: the buffer of shape ", format_shape(buffer.shape),
                    " has no storage to assign to");
        target->replace(buffers_[i]);
      }
      buffer.node.set_value(Ref<Attachment>(new Storage(*devices_[i], buffers_[i])));
    }
  }

  std::vector<Node> outputs_;
  Device* default_target_;
  std::unordered_map<const void*, Known> known_;
  bool has_assign_ = false;
  Schedule schedule_;
  std::vector<EngineDevice*> devices_;  // of each buffer
  std::vector<Buffer> buffers_;       // by number; null before it is written and after its last use
  std::vector<size_t> last_call_;     // that uses each buffer
  std::vector<ProgramPtr> programs_;  // of each call
  RealizeStats stats_;
};

/// Time that no counter claims is launch overhead, so that the sum is the wall time.
void settle_launch_time(RealizeStats& stats, int64_t wall_ns) {
  const int64_t claimed = stats.schedule_ns + stats.lower_ns + stats.compile_ns + stats.load_ns +
                          stats.copy_in_ns + stats.kernel_ns + stats.copy_out_ns;
  stats.launch_ns = std::max<int64_t>(0, wall_ns - claimed);
}

/// One realisation with assigns at a time: the same assign must not run twice.
std::mutex& assign_mutex() {
  static auto* const mutex = new std::mutex;  // leaked on purpose: used in destructors
  return *mutex;
}

}  // namespace

void realize(std::span<const Node> nodes, Device* default_target, RealizeStats* stats) {
  check_not_forked();
  const int64_t start_ns = now_ns();
  Realizer realizer(nodes, default_target);
  realizer.look();
  if (realizer.is_done()) return;
  RealizeStats result;
  if (realizer.has_assign()) {
    const std::lock_guard lock(assign_mutex());
    Realizer locked(nodes, default_target);
    locked.look();
    if (locked.is_done()) return;
    locked.run();
    result = locked.stats();
  } else {
    realizer.run();
    result = realizer.stats();
  }
  settle_launch_time(result, now_ns() - start_ns);
  add_to_total(result);
  if (stats != nullptr) add_stats(*stats, result);
}

}  // namespace tenon
