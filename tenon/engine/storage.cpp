// Given values, realised values, and reading them back. SPDX-License-Identifier: MIT

#include "tenon/engine/storage.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/host_memory.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/engine/memory_checks.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

struct Total {
  std::mutex mutex;
  RealizeStats stats;
};

Total& total() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const instance = new Total;
  return *instance;
}

}  // namespace

Buffer Storage::relaid(const Buffer& source, const std::vector<LayoutPart>& layout) const {
  const std::lock_guard lock(mutex_);
  if (source.address() != buffer_.address()) return {};
  const auto found = std::ranges::find(relaid_, layout, &Relaid::layout);
  return found == relaid_.end() ? Buffer() : found->copy;
}

void Storage::keep_relaid(const Buffer& source, const std::vector<LayoutPart>& layout,
                          Buffer copy) {
  const std::lock_guard lock(mutex_);
  const bool is_known = std::ranges::find(relaid_, layout, &Relaid::layout) != relaid_.end();
  if (is_known || source.address() != buffer_.address()) return;
  relaid_.push_back({layout, std::move(copy)});
}

void set_constant(const Node& node) {
  const Ref<Storage> storage = storage_of(node);
  TENON_CHECK(static_cast<bool>(storage), ErrorCode::kInvalidArgument,
              "set_constant: ", op_name(node.op()), " of shape ", format_shape(node.shape()),
              " has no value yet. Realize it first");
  storage->set_constant();
}

Ref<Storage> storage_of(const Node& node) {
  if (node.op() == Op::kBuffer) return Ref<Storage>(dynamic_cast<Storage*>(node.attachment()));
  const Ref<Attachment> value = node.value();
  return Ref<Storage>(dynamic_cast<Storage*>(value.get()));
}

int64_t dense_size_bytes(DType dtype, ShapeView shape) {
  constexpr int64_t kMaxElements = int64_t{1} << 58;
  const int64_t count = num_elements(shape);
  TENON_CHECK(count <= kMaxElements, ErrorCode::kInvalidArgument, "an array of shape ",
              format_shape(shape), " has ", count, " elements, more than any memory holds");
  return count * dtype_size_bytes(dtype);
}

namespace {

/// First element of what the shrink leaves, if that lies in one piece: whole rows behind the first
/// axis that has more than one position left.
std::optional<int64_t> first_element(const Node& shrink) {
  const ShapeView from = shrink.src(0).shape();
  const ShapeView to = shrink.shape();
  int64_t first = 0;
  bool is_inside = false;  // an axis before has more than one position
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (is_inside && to[axis] != from[axis]) return std::nullopt;
    is_inside = is_inside || to[axis] > 1;
    first = first * from[axis] + shrink.attr(axis);
  }
  return first;
}

}  // namespace

Ref<Storage> view_of(const Node& node) {
  int64_t offset = 0;
  const Node* base = &node;
  Ref<Storage> storage;
  while (!storage) {
    if (base->op() == Op::kShrink) {
      const std::optional<int64_t> first = first_element(*base);
      if (!first) return {};
      offset += *first;
    } else if (base->op() != Op::kReshape) {
      return {};
    }
    base = &base->src(0);
    storage = storage_of(*base);
  }
  EngineDevice& device = storage->device();
  const int64_t size_bytes = dense_size_bytes(node.dtype(), node.shape());
  const int64_t offset_bytes = offset * dtype_size_bytes(node.dtype());
  const Buffer buffer = storage->buffer();
  // A view has no guards of its own, so kernels get none where these are wanted.
  const bool is_guarded = memory_checks().guard_bytes > 0 && device.runs_programs();
  if (size_bytes == 0 || is_guarded || buffer.why_no_view(offset_bytes, size_bytes)) return {};
  const Ref<Storage> view(new Storage(device, buffer.view(offset_bytes, size_bytes)));
  if (storage->is_constant()) view->set_constant();
  return view;
}

void add_stats(RealizeStats& sum, const RealizeStats& part) {
  sum.kernels += part.kernels;
  sum.compiled += part.compiled;
  sum.schedule_ns += part.schedule_ns;
  sum.lower_ns += part.lower_ns;
  sum.compile_ns += part.compile_ns;
  sum.load_ns += part.load_ns;
  sum.copy_in_ns += part.copy_in_ns;
  sum.launch_ns += part.launch_ns;
  sum.kernel_ns += part.kernel_ns;
  sum.copy_out_ns += part.copy_out_ns;
}

void add_to_total(const RealizeStats& stats) {
  const std::lock_guard lock(total().mutex);
  add_stats(total().stats, stats);
}

RealizeStats total_stats() {
  const std::lock_guard lock(total().mutex);
  return total().stats;
}

namespace {

/// Throws unless the bytes fill the shape.
int64_t check_bytes(DType dtype, ShapeView shape, std::span<const std::byte> bytes) {
  check_not_forked();
  const int64_t size_bytes = dense_size_bytes(dtype, shape);
  TENON_CHECK(std::cmp_equal(bytes.size(), size_bytes), ErrorCode::kInvalidArgument,
              "buffer from bytes: shape ", format_shape(shape), " of ", dtype_long_name(dtype),
              " takes ", size_bytes, " bytes; ", bytes.size(), " are given");
  return size_bytes;
}

}  // namespace

Node buffer_from_bytes(Device& device, DType dtype, ShapeView shape,
                       std::span<const std::byte> bytes) {
  const int64_t size_bytes = check_bytes(dtype, shape, bytes);
  RealizeStats stats;
  Buffer buffer = engine_device(device).allocate(size_bytes);
  {
    const ScopedTimer timer(stats.copy_in_ns);
    buffer.copy_in(bytes);
  }
  add_to_total(stats);
  return tensor_buffer(dtype, shape,
                       Ref<Attachment>(new Storage(engine_device(device), std::move(buffer))));
}

Node buffer_from_host(Device& device, DType dtype, ShapeView shape, const HostBytes& host) {
  check_bytes(dtype, shape, host.bytes);
  TENON_CHECK(host.owner != nullptr, ErrorCode::kInvalidArgument,
              "buffer from host: nobody owns the bytes. Use buffer_from_bytes, which copies them");
  // Imported memory has no room for guards.
  Buffer buffer;
  if (memory_checks().guard_bytes == 0)
    buffer = engine_device(device).pool().import_host(host.bytes, host.owner);
  if (!buffer) return buffer_from_bytes(device, dtype, shape, host.bytes);
  return tensor_buffer(dtype, shape,
                       Ref<Attachment>(new Storage(engine_device(device), std::move(buffer))));
}

Node buffer_of_content(Device& device) {
  check_not_forked();
  EngineDevice& owner = engine_device(device);
  TENON_CHECK(owner.driver().allocator().flags().has_content, ErrorCode::kUnsupported,
              "content of device '", device.name(), "': its memory is empty until it is written");
  Buffer content =
      with_context([&] { return owner.pool().open_content(); }, "opening '", device.name(), "'");
  const int64_t size_bytes = content.size_bytes();
  auto* const storage = new Storage(owner, std::move(content));
  storage->set_constant();
  return tensor_buffer(DType::kU8, Shape{size_bytes}, Ref<Attachment>(storage));
}

Node buffer_view(const Node& base, DType dtype, ShapeView shape, int64_t offset_bytes) {
  const Ref<Storage> storage = storage_of(base);
  TENON_CHECK(static_cast<bool>(storage), ErrorCode::kInvalidArgument,
              "buffer view: the base has no value yet. Realize it first");
  const Buffer buffer = storage->buffer();
  const int64_t size_bytes = dense_size_bytes(dtype, shape);
  const bool is_inside = offset_bytes >= 0 && size_bytes <= buffer.size_bytes() - offset_bytes;
  const auto reason = buffer.why_no_view(offset_bytes, size_bytes);
  TENON_CHECK(!reason, is_inside ? ErrorCode::kUnsupported : ErrorCode::kInvalidArgument,
              "view of a buffer on '", storage->device().name(), "': ", *reason, "; shape ",
              format_shape(shape), " of ", dtype_long_name(dtype));
  auto* const part = new Storage(storage->device(), buffer.view(offset_bytes, size_bytes));
  if (storage->is_constant()) part->set_constant();
  return tensor_buffer(dtype, shape, Ref<Attachment>(part));
}

Device* device_of(const Node& node) {
  Device* device = nullptr;
  const auto note = [&](Device& other) {
    TENON_CHECK(device == nullptr || device == &other, ErrorCode::kInvalidArgument,
                "the operands of ", op_name(node.op()), " (shape ", format_shape(node.shape()),
                ") live on two devices, '", device->name(), "' and '", other.name(),
                "'. Copy one of them with to()");
    device = &other;
  };
  std::vector<Node> todo{node};
  std::unordered_set<const void*> seen{node.id()};
  while (!todo.empty()) {
    const Node next = std::move(todo.back());
    todo.pop_back();
    if (const Ref<Storage> storage = storage_of(next)) {
      note(storage->device());
    } else if (next.op() == Op::kCopy) {
      note(Device::by_number(next.attr(0)));
    } else {
      for (const Node& src : next.srcs()) {
        if (seen.insert(src.id()).second) todo.push_back(src);
      }
    }
  }
  return device;
}

Node realized_leaf(const Node& node) {
  if (node.op() == Op::kBuffer) return node;
  const Ref<Storage> storage = storage_of(node);
  TENON_CHECK(static_cast<bool>(storage), ErrorCode::kInvalidArgument,
              "realized_leaf: ", op_name(node.op()), " of shape ", format_shape(node.shape()),
              " has no value yet. Realize it first");
  // A Storage of its own: an assign to the leaf must not change the value of `node`.
  auto* const shared = new Storage(storage->device(), storage->buffer());
  return tensor_buffer(node.dtype(), node.shape(), Ref<Attachment>(shared));
}

std::vector<std::byte> read_bytes(const Node& node, RealizeStats* stats) {
  check_not_forked();
  const Ref<Storage> storage = storage_of(node);
  TENON_CHECK(static_cast<bool>(storage), ErrorCode::kInvalidArgument, "reading ",
              op_name(node.op()), " of shape ", format_shape(node.shape()),
              ": it has no value yet. Realize it first");
  const Buffer buffer = storage->buffer();
  std::vector<std::byte> bytes = host_bytes(buffer.size_bytes(), "reading a tensor");
  RealizeStats read;
  {
    const ScopedTimer timer(read.kernel_ns);
    buffer.wait();
  }
  {
    const ScopedTimer timer(read.copy_out_ns);
    buffer.copy_out(bytes);
  }
  add_to_total(read);
  if (stats != nullptr) add_stats(*stats, read);
  return bytes;
}

}  // namespace tenon
