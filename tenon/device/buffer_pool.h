// Buffer, a cheap value that shares one allocation, and BufferPool, the bounded cache of released
// allocations above every device's Allocator. Used by engine/ and by tests; safe from any thread.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/threads.h"
#include "tenon/device/allocator.h"
#include "tenon/device/event.h"

namespace tenon {

class BufferPool;

namespace detail {
struct Allocation;  // buffer_pool.cpp
}

/// How bytes got from one device to another.
enum class CopyWay : uint8_t {
  kTransfer,  ///< by the devices themselves
  kMapped,    ///< one copy, out of or into memory that the host sees
  kHost,      ///< out of one and into the other, in parts
};

/// Bytes on a device. Copies share them; the last one gives them back to the pool, which must
/// outlive it. Jobs under way hold one, so what comes back to the pool is used by nobody. Like a
/// shared pointer: one handle is not for two threads, two handles are.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer& other) noexcept;
  Buffer(Buffer&& other) noexcept
      : allocation_(std::exchange(other.allocation_, nullptr)),
        offset_bytes_(other.offset_bytes_),
        size_bytes_(std::exchange(other.size_bytes_, 0)) {}
  Buffer& operator=(Buffer other) noexcept {
    std::swap(allocation_, other.allocation_);
    offset_bytes_ = other.offset_bytes_;
    size_bytes_ = other.size_bytes_;
    return *this;
  }
  ~Buffer();

  explicit operator bool() const { return allocation_ != nullptr; }
  /// Device address, a multiple of kBufferAlignBytes (of a view: of view_align_bytes of
  /// AllocatorFlags); null if size_bytes() is 0.
  void* address() const;
  int64_t size_bytes() const { return size_bytes_; }

  /// Why this part is no buffer: it reaches beyond this one, or the device has no such views.
  std::optional<std::string> why_no_view(int64_t offset_bytes, int64_t size_bytes) const;
  /// A part of this buffer, which shares its bytes and keeps them; needs !why_no_view.
  Buffer view(int64_t offset_bytes, int64_t size_bytes) const;

  /// Waits for the jobs that write it (Queue). Throws what made them fail if it is poisoned: each
  /// time, until it has been written.
  void wait() const;
  /// From and to the host; the sizes must be size_bytes(). First waits for the jobs in the way;
  /// copy_out throws as wait() does. `bytes` may be used again when copy_in returns.
  void copy_in(std::span<const std::byte> bytes) const;
  void copy_out(std::span<std::byte> bytes) const;
  /// Sets each byte; like copy_in.
  void fill(std::byte value) const;
  /// The bytes of a buffer of the same size, of this device or another, the best way that both
  /// have. For jobs that use both: waits for nothing.
  CopyWay copy_from(const Buffer& source) const;

  /// Why the guard zones are not as they were made: something wrote outside the buffer. Waits for
  /// nothing.
  std::optional<std::string> why_guard_broken() const;

 private:
  friend class BufferPool;
  friend class Queue;  // history
  explicit Buffer(detail::Allocation* allocation);

  /// Null if no job on another thread has used it.
  BufferHistory* history() const;
  BufferHistory& make_history() const;
  void wait_for_turn(ArgumentAccess access) const;

  detail::Allocation* allocation_ = nullptr;
  int64_t offset_bytes_ = 0;  ///< from the allocation's first byte
  int64_t size_bytes_ = 0;
};

struct BufferPoolOptions {
  int64_t max_cached_bytes = int64_t{256} << 20;  ///< released memory that is kept for reuse
  bool exact_sizes = false;  ///< no size classes, so that a sanitizer sees each buffer's end
  /// An allocation is a file: as large as was asked for, made even if empty, never used again.
  bool are_files = false;
};

/// Keeps released allocations by size class (eight steps for each power of two). Over the bound
/// the ones released longest ago go back to the device.
class BufferPool {
 public:
  /// `allocator` must outlive the pool, the pool its buffers. `device_name` is for error texts.
  BufferPool(Allocator& allocator, std::string device_name, BufferPoolOptions options = {});
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  /// Contents are undefined. With `guard_bytes` (rounded up to the alignment) a filled zone of that
  /// size stands before and after the bytes; see why_guard_broken. Throws kUnsupported over the
  /// device's limit, kOutOfMemory if trimming does not help, both with the numbers.
  Buffer allocate(int64_t size_bytes, int64_t guard_bytes = 0);

  /// What the device holds of itself, for reading; it has the flag has_content. Throws kNotFound,
  /// kIo.
  Buffer open_content();

  /// Memory of the host as a buffer that is only read, without a copy; `owner` keeps it. Null if
  /// the device cannot, or not at such an address.
  Buffer import_host(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

  /// Gives all cached memory back to the device; returns how many bytes.
  int64_t trim();

  int64_t used_bytes() const;    ///< of live buffers, with rounding
  int64_t cached_bytes() const;  ///< released and kept

  /// Bytes that an allocation of `size_bytes` > 0 takes.
  static int64_t size_class(int64_t size_bytes);

 private:
  friend class Buffer;
  struct Cached {
    uint64_t tick;  ///< of release
    void* address;
  };

  void* take_cached(int64_t class_bytes);
  void* allocate_or_trim(int64_t class_bytes, int64_t size_bytes);
  void release(detail::Allocation* allocation) noexcept;
  bool keep(void* address, int64_t class_bytes) noexcept;
  void drop_oldest();
  void give_back(void* address, int64_t class_bytes) noexcept;
  void fence(detail::Allocation& made) noexcept;

  Allocator& allocator_;
  const std::string device_name_;
  const BufferPoolOptions options_;
  const ForkWatch watch_;
  mutable std::mutex mutex_;
  std::map<int64_t, std::vector<Cached>> cached_;  ///< by class, oldest release first
  uint64_t tick_ = 0;
  int64_t cached_bytes_ = 0;
  int64_t used_bytes_ = 0;
};

}  // namespace tenon
