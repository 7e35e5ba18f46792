// realize(): prepare (prepared.h), run the calls in order, keep the values of the outputs.
// Every kernel writes a fresh buffer, so values once read never change and several threads may
// realise at once. SPDX-License-Identifier: MIT

#include <algorithm>
#include <array>
#include <cstring>
#include <memory_resource>
#include <mutex>
#include <shared_mutex>
#include <unordered_set>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/engine/events.h"
#include "tenon/engine/given_plans.h"
#include "tenon/engine/memory_checks.h"
#include "tenon/engine/prepared.h"
#include "tenon/engine/shadow.h"
#include "tenon/engine/storage.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

/// Held alone while a realisation replaces the values of the buffers that it assigns to.
std::shared_mutex& assigned_mutex() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const mutex = new std::shared_mutex;
  return *mutex;
}

/// The array's elements in the order of the layout, whose parts hold its dims and no more.
Node in_layout(const Node& array, std::span<const LayoutPart> layout) {
  Shape split;
  std::vector<int64_t> axes(layout.size());
  for (size_t dim = 0; dim < array.shape().size(); ++dim) {
    for (size_t i = 0; i < layout.size(); ++i) {
      if (layout[i].dim != static_cast<int>(dim)) continue;
      axes[i] = std::ssize(split);
      split.push_back(layout[i].extent);
    }
  }
  return tensor_contiguous(tensor_permute(tensor_reshape(array, split), axes));
}

std::string_view name_of(CopyWay way) {
  switch (way) {
    case CopyWay::kTransfer: return "by the devices";
    case CopyWay::kMapped: return "in mapped memory";
    case CopyWay::kHost: return "through the host";
  }
  return "";
}

class Realizer {
 public:
  /// `waits`: until the values are there, so that what fails is thrown before they are kept.
  Realizer(std::span<const Node> outputs, Device* default_target, const GivenPlans* plans,
           bool waits)
      : outputs_(outputs.begin(), outputs.end()),
        default_target_(default_target),
        plans_(plans),
        waits_(waits) {}

  /// Notes what has a value already, and that value: other threads may realise the same nodes
  /// meanwhile or assign to them, and this realisation must see one state.
  void look() {
    const ScopedTimer timer(stats_.schedule_ns);
    const std::shared_lock lock(assigned_mutex());
    std::pmr::vector<const Node*> todo(&memory_);
    for (size_t i = outputs_.size(); i-- > 0;) {
      todo.push_back(&outputs_[i]);
      note_movable(outputs_[i]);
    }
    while (!todo.empty()) {
      const Node& node = *todo.back();
      const auto [entry, is_new] = numbers_.try_emplace(node.id(), kOpen);
      if (is_new) {
        Ref<Storage> storage = storage_of(node);
        // Only what would be stored anyway: in a kernel, movement costs nothing.
        if (!storage && !movable_.empty() && movable_.contains(node.id())) storage = view_of(node);
        if (storage) {
          entry->second = add(node, &storage->device(), storage->buffer());
          if (storage->is_constant()) {
            form_.constants.back() = true;
            constants_.emplace_back(entry->second, storage);
          }
          todo.pop_back();
          continue;
        }
        has_assign_ = has_assign_ || node.op() == Op::kAssign;
        if (node.op() == Op::kCopy) note_movable(node.src(0));
        // The old value of an assigned buffer is not read through the assign itself.
        for (size_t i = node.srcs().size(); i-- > 0;) {
          if (!numbers_.contains(node.src(i).id())) todo.push_back(&node.src(i));
        }
        continue;
      }
      todo.pop_back();
      if (entry->second == kOpen) entry->second = add(node, nullptr, Buffer());
    }
    for (const Node& output : outputs_)
      if (is_known(output)) keep_view(output);
    std::erase_if(outputs_, [this](const Node& node) { return is_known(node); });
    for (const Node& output : outputs_)
      form_.outputs.push_back(numbers_.at(output.id()));
  }

  bool is_done() const { return outputs_.empty(); }
  bool has_assign() const { return has_assign_; }
  const RealizeStats& stats() const { return stats_; }

  // NOLINTNEXTLINE(misc-no-recursion): once, for a graph without constants
  void run() {
    prepare();
    if (!lay_out_constants()) {
      // Without the copies there may be memory enough.
      form_.constants.assign(form_.constants.size(), false);
      prepared_.reset();
      prepare();
    }
    buffers_.resize(prepared_->buffers.size());
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const PreparedBuffer& buffer = prepared_->buffers[i];
      if (buffer.is_given) {
        buffers_[i] = values_[static_cast<size_t>(buffer.node)];
      } else if (buffer.size_bytes == 0) {
        buffers_[i] = buffer.device->allocate(0);  // no call writes it
      }
    }
    for (size_t i = 0; i < prepared_->calls.size(); ++i)
      run_call(i);
    if (waits_) {
      const ScopedTimer timer(stats_.kernel_ns);
      for (const Buffer& buffer : buffers_)
        buffer.wait();
    }
    publish();
  }

 private:
  static constexpr int kOpen = -1;  // of numbers_: the sources come first

  int add(const Node& node, EngineDevice* device, Buffer value) {
    form_.nodes.push_back(node);
    form_.devices.push_back(device);
    form_.constants.push_back(false);
    std::pmr::vector<int>& srcs = form_.srcs.emplace_back();
    if (device == nullptr) {
      srcs.reserve(node.srcs().size());
      for (const Node& src : node.srcs())
        srcs.push_back(numbers_.at(src.id()));
    }
    values_.push_back(std::move(value));
    return static_cast<int>(form_.nodes.size()) - 1;
  }

  bool is_known(const Node& node) const {
    const auto found = numbers_.find(node.id());
    return found != numbers_.end() && form_.devices[static_cast<size_t>(found->second)] != nullptr;
  }

  void note_movable(const Node& node) {
    if (node.op() == Op::kShrink || node.op() == Op::kReshape) movable_.insert(node.id());
  }

  /// Gives a known output its value, if it is a view and has none yet.
  void keep_view(const Node& node) {
    if (storage_of(node)) return;
    const auto number = static_cast<size_t>(numbers_.at(node.id()));
    node.set_value(Ref<Attachment>(new Storage(*form_.devices[number], values_[number])));
  }

  /// What is to be done: remembered, or found out.
  void prepare() {
    std::optional<Hash128> key;
    {
      const ScopedTimer timer(stats_.schedule_ns);
      if (default_target_ == nullptr) default_target_ = &Device::get_default();
      key = key_of(form_, *default_target_);
      if (key && plans_ != nullptr) key = Hasher().add(*key).add(plans_->text()).hash();
      if (key) prepared_ = engine_device(*default_target_).prepared().find(*key);
      if (prepared_ != nullptr) return;
    }
    prepared_ = make_prepared(form_, outputs_, numbers_, *default_target_, stats_, plans_);
    if (key) engine_device(*default_target_).prepared().keep(*key, prepared_);
  }

  EngineDevice* device_of(const PreparedCall& call) const {
    return prepared_->buffers[static_cast<size_t>(call.buffers[0])].device;
  }

  void run_call(size_t number) {
    const PreparedCall& call = prepared_->calls[number];
    with_context(
        [&] {
          if (call.copy_from >= 0) {
            run_copy(call);
          } else if (call.fill) {
            run_fill(call);
          } else {
            run_kernel(call);
          }
        },
        [&] { return describe(call); });
    // Intermediates go back to the pool after their last use.
    const auto drop = [&](int used) {
      const auto i = static_cast<size_t>(used);
      const PreparedBuffer& buffer = prepared_->buffers[i];
      const bool is_kept = buffer.is_output || buffer.is_given || buffer.is_assign;
      if (!is_kept && buffer.last_call == number) buffers_[i] = Buffer();
    };
    for (const int used : call.buffers)
      drop(used);
    if (call.copy_from >= 0) drop(call.copy_from);
  }

  /// For errors: "realising add of shape (3) (float32), kernel 'e_3'".
  std::string describe(const PreparedCall& call) const {
    const PreparedBuffer& buffer = prepared_->buffers[static_cast<size_t>(call.buffers[0])];
    std::string text = "realising partial results";
    if (buffer.node != PreparedBuffer::kAdded) {
      const Node& node = form_.nodes[static_cast<size_t>(buffer.node)];
      text = concat("realising ", op_name(node.op()), " of shape ", format_shape(node.shape()),
                    " (", dtype_long_name(buffer.dtype), ")");
    }
    if (call.program != nullptr) append(text, ", kernel '", call.kernel, "'");
    return text;
  }

  const Buffer& make_output(const PreparedCall& call) {
    const auto number = static_cast<size_t>(call.buffers[0]);
    const PreparedBuffer& buffer = prepared_->buffers[number];
    buffers_[number] = buffer.device->allocate(buffer.size_bytes);
    return buffers_[number];
  }

  void run_fill(const PreparedCall& call) {
    const ScopedTimer timer(stats_.copy_in_ns);
    const Buffer& output = make_output(call);
    const DType dtype = prepared_->buffers[static_cast<size_t>(call.buffers[0])].dtype;
    const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
    std::vector<std::byte> bytes(static_cast<size_t>(output.size_bytes()));
    for (size_t at = 0; at < bytes.size(); at += width)
      std::memcpy(bytes.data() + at, &*call.fill, width);  // little-endian
    output.copy_in(bytes);
  }

  /// What the call's parameter `number` is; its copies of constants begin at `first_relaid`.
  const Buffer& argument_of(const PreparedCall& call, size_t number, size_t first_relaid) const {
    for (size_t i = 0; i < call.relaid.size(); ++i) {
      if (call.relaid[i].parameter == number) return relaid_[first_relaid + i];
    }
    return buffers_[static_cast<size_t>(call.buffers[number])];
  }

  void run_kernel(const PreparedCall& call) {
    const MemoryChecks checks = memory_checks();
    const Buffer& output = make_output(call);
    if (checks.poison_outputs) output.fill(kPoisonByte);
    const std::vector<Argument>& signature = call.program->signature().arguments;
    std::vector<ArgumentValue> values;
    values.reserve(call.buffers.size());
    uses_.clear();
    std::vector<Buffer> guarded;
    const size_t first_relaid = num_relaid_used_;
    num_relaid_used_ += call.relaid.size();
    for (size_t i = 0; i < call.buffers.size(); ++i) {
      const Buffer& buffer = argument_of(call, i, first_relaid);
      values.push_back({.is_buffer = true,
                        .dtype = call.dtypes[i],
                        .address = buffer.address(),
                        .size_bytes = buffer.size_bytes()});
      uses_.push_back({&buffer, signature[i].access});
      if (checks.guard_bytes > 0) guarded.push_back(buffer);
    }
    std::vector<Buffer> arguments;
    std::optional<ShadowLaunch> shadow;
    if (call.shadow != nullptr) {
      for (size_t i = 0; i < call.buffers.size(); ++i)
        arguments.push_back(argument_of(call, i, first_relaid));
      shadow.emplace(*call.shadow, arguments);
    }
    // May run when this object is gone; `prepared` keeps the call and its program.
    auto launch = [prepared = prepared_, &call, device = device_of(call),
                   values = std::move(values), guarded = std::move(guarded)] {
      const int64_t start_ns = has_event_hook() ? now_ns() : 0;
      call.program->launch(values);
      if (start_ns != 0 || !guarded.empty()) device->driver().synchronize();
      if (start_ns != 0) {
        send_event({.kind = EngineEvent::Kind::kLaunched,
                    .kernel = call.kernel,
                    .device = device->name(),
                    .time_ns = now_ns() - start_ns});
      }
      check_guards(call, guarded);
    };
    submit(call, std::move(launch), stats_.kernel_ns);
    ++stats_.kernels;
    if (shadow) shadow->compare(arguments);
  }

  /// On the queue of the output's device, with uses_; what runs here and now takes `time_ns`.
  template <typename Run>
  void submit(const PreparedCall& call, Run run, int64_t& time_ns) {
    const int64_t start_ns = now_ns();
    const Event event =
        device_of(call)->queue().submit(uses_, std::move(run), [&] { return describe(call); });
    if (event.timeline() == nullptr) time_ns += now_ns() - start_ns;
  }

  /// Finds or makes what the calls read of constants, in their order. False: it does not fit.
  // NOLINTNEXTLINE(misc-no-recursion): see run
  bool lay_out_constants() {
    try {
      for (const PreparedCall& call : prepared_->calls) {
        for (const RelaidParameter& parameter : call.relaid)
          relaid_.push_back(relaid_copy(call, parameter));
      }
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      relaid_.clear();
      return false;
    }
  }

  /// What a constant's storage has in that layout, or what ordinary graph ops make of its value.
  // NOLINTNEXTLINE(misc-no-recursion): see run
  Buffer relaid_copy(const PreparedCall& call, const RelaidParameter& parameter) {
    const auto number = static_cast<size_t>(call.buffers[parameter.parameter]);
    const PreparedBuffer& buffer = prepared_->buffers[number];
    const auto found = std::ranges::find(constants_, buffer.node, &Constant::first);
    TENON_ASSERT(found != constants_.end(), "kernel '", call.kernel, "' reads no constant");
    const Ref<Storage>& storage = found->second;
    const Buffer& source = values_[static_cast<size_t>(buffer.node)];
    Buffer copy = storage->relaid(source, parameter.layout);
    if (copy.size_bytes() > 0) return copy;
    // A leaf that is no constant, so that this ends here.
    const Node leaf = tensor_buffer(buffer.dtype, parameter.dims,
                                    Ref<Attachment>(new Storage(storage->device(), source)));
    const Node relaid = in_layout(leaf, parameter.layout);
    Realizer realizer(std::span(&relaid, 1), default_target_, nullptr, waits_);
    realizer.look();
    realizer.run();
    add_stats(stats_, realizer.stats());
    copy = storage_of(relaid)->buffer();
    storage->keep_relaid(source, parameter.layout, copy);
    return copy;
  }

  static void check_guards(const PreparedCall& call, std::span<const Buffer> arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto reason = arguments[i].why_guard_broken();
      TENON_ASSERT(!reason, "kernel '", call.kernel, "', argument ", i, ": ", *reason);
    }
  }

  void run_copy(const PreparedCall& call) {
    const auto to = static_cast<size_t>(call.buffers[0]);
    const auto from = static_cast<size_t>(call.copy_from);
    EngineDevice* const source_device = prepared_->buffers[from].device;
    EngineDevice* const device = prepared_->buffers[to].device;
    if (source_device == device) {
      buffers_[to] = buffers_[from];  // bytes never change, so they are shared
      return;
    }
    const Buffer& source = buffers_[from];
    const Buffer& output = make_output(call);
    uses_.assign({{&output, ArgumentAccess::kWrite}, {&source, ArgumentAccess::kRead}});
    const auto copy = [source, output, device] {
      const int64_t start_ns = now_ns();
      const CopyWay way = output.copy_from(source);
      send_event({.kind = EngineEvent::Kind::kCopied,
                  .kernel = {},
                  .device = device->name(),
                  .time_ns = now_ns() - start_ns,
                  .text = name_of(way)});
    };
    submit(call, copy, stats_.copy_in_ns);
    keep_copy_of_constant(from, to);
  }

  /// A copy of a constant is needed again whenever its node is used, so the node keeps it.
  void keep_copy_of_constant(size_t from, size_t to) {
    const PreparedBuffer& source = prepared_->buffers[from];
    const int copy = prepared_->buffers[to].node;
    if (!source.is_given || copy == PreparedBuffer::kAdded) return;
    if (!form_.constants[static_cast<size_t>(source.node)]) return;
    kept_copies_.push_back({copy, to, buffers_[to]});
  }

  /// Values become visible only when all of them are there.
  void publish() {
    std::unique_lock lock(assigned_mutex(), std::defer_lock);
    if (has_assign_) lock.lock();
    const auto keep_as = [this](int node, size_t number, const Buffer& buffer) {
      EngineDevice& device = *prepared_->buffers[number].device;
      form_.nodes[static_cast<size_t>(node)].set_value(
          Ref<Attachment>(new Storage(device, buffer)));
    };
    const auto keep = [&](int node, size_t number) { keep_as(node, number, buffers_[number]); };
    for (const KeptCopy& copy : kept_copies_)
      keep_as(copy.node, copy.number, copy.buffer);
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const PreparedBuffer& buffer = prepared_->buffers[i];
      if (!buffer.is_assign || buffer.is_given) continue;
      const Node& node = form_.nodes[static_cast<size_t>(buffer.node)];
      const Ref<Storage> target = storage_of(node.src(0));
      TENON_CHECK(static_cast<bool>(target), ErrorCode::kInvalidArgument,
                  "assign: the buffer of shape ", format_shape(node.shape()),
                  " has no storage to assign to");
      target->replace(buffers_[i]);
      keep(buffer.node, i);
    }
    for (size_t i = 0; i < form_.outputs.size(); ++i) {
      const auto number = static_cast<size_t>(prepared_->outputs[i]);
      if (!prepared_->buffers[number].is_assign) keep(form_.outputs[i], number);
    }
  }

  std::vector<Node> outputs_;
  Device* default_target_;
  const GivenPlans* plans_;
  const bool waits_;
  std::array<std::byte, 8192> space_;  // for a graph of some fifty nodes
  std::pmr::monotonic_buffer_resource memory_{space_.data(), space_.size()};
  NodeNumbers numbers_{&memory_};
  std::pmr::unordered_set<const void*> movable_{&memory_};  // nodes that may be views of buffers
  GraphForm form_{&memory_};
  std::pmr::vector<Buffer> values_{&memory_};  // by node of the form
  using Constant = std::pair<int, Ref<Storage>>;
  std::pmr::vector<Constant> constants_{&memory_};  // node of the form and what holds its value
  std::pmr::vector<Buffer> relaid_{&memory_};  // copies of constants, in the order of their use
  size_t num_relaid_used_ = 0;
  std::vector<BufferUse> uses_;  // of the call that is submitted
  struct KeptCopy {
    int node;
    size_t number;
    Buffer buffer;
  };
  std::vector<KeptCopy> kept_copies_;
  bool has_assign_ = false;
  std::shared_ptr<const Prepared> prepared_;
  std::pmr::vector<Buffer> buffers_{
      &memory_};  // by number; null before it is written and after its last use
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
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

void realize(std::span<const Node> nodes, Device* default_target, RealizeStats* stats,
             const GivenPlans* plans) {
  check_not_forked();
  const int64_t start_ns = now_ns();
  Realizer realizer(nodes, default_target, plans, stats != nullptr);
  realizer.look();
  if (realizer.is_done()) return;
  RealizeStats result;
  if (realizer.has_assign()) {
    const std::lock_guard lock(assign_mutex());
    Realizer locked(nodes, default_target, plans, stats != nullptr);
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
