// Storage: the bytes of one tensor on a device, attached to buffer nodes and kept as the value of
// realised ones. Internal to engine/. SPDX-License-Identifier: MIT

#pragma once

#include <mutex>
#include <vector>

#include "tenon/device/buffer_pool.h"
#include "tenon/engine/engine_device.h"
#include "tenon/ir/kernel.h"
#include "tenon/ir/node.h"

namespace tenon {

/// Kernels only write fresh allocations, so the bytes behind a Buffer that was once read never
/// change; assign() gives a buffer node's storage another one.
class Storage final : public Attachment {
 public:
  Storage(EngineDevice& device, Buffer buffer) : device_(device), buffer_(std::move(buffer)) {}

  EngineDevice& device() const { return device_; }
  Buffer buffer() const {
    const std::lock_guard lock(mutex_);
    return buffer_;
  }
  void replace(Buffer buffer) {
    const std::lock_guard lock(mutex_);
    buffer_ = std::move(buffer);
    relaid_.clear();
  }

  /// Kernels may keep copies of the bytes in layouts of their own, as long as these are the bytes.
  void set_constant() {
    const std::lock_guard lock(mutex_);
    is_constant_ = true;
  }
  bool is_constant() const {
    const std::lock_guard lock(mutex_);
    return is_constant_;
  }
  /// The copy of `source` in this layout; no memory: there is none.
  Buffer relaid(const Buffer& source, const std::vector<LayoutPart>& layout) const;
  /// Keeps `copy` if `source` is still what the storage holds.
  void keep_relaid(const Buffer& source, const std::vector<LayoutPart>& layout, Buffer copy);

 private:
  struct Relaid {
    std::vector<LayoutPart> layout;
    Buffer copy;
  };

  EngineDevice& device_;
  mutable std::mutex mutex_;
  Buffer buffer_;
  bool is_constant_ = false;
  std::vector<Relaid> relaid_;
};

/// Where the node's value is: a buffer's storage, or what realize() has kept. Null: nowhere yet.
Ref<Storage> storage_of(const Node& node);

/// The value of a node that is a part of a buffer in one piece, by reshape and shrink alone, as a
/// view of that buffer. Null: it is none, or the device has no such views.
Ref<Storage> view_of(const Node& node);

/// Bytes of a dense array; throws kInvalidArgument beyond 2^62.
int64_t dense_size_bytes(DType dtype, ShapeView shape);

void add_stats(RealizeStats& sum, const RealizeStats& part);
/// Adds to what total_stats() gives; safe from any thread.
void add_to_total(const RealizeStats& stats);

}  // namespace tenon
