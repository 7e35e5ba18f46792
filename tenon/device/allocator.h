// Allocator: raw memory of one device, the part of the device contract that a backend implements.
// Called by BufferPool alone, which caches above it. Knows bytes and device addresses, no tensors.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace tenon {

/// Every address an Allocator gives is a multiple of this; programs rely on it
/// (kBaseAlignBytes of the linear level, compared in engine/).
inline constexpr int64_t kBufferAlignBytes = 64;

/// What an Allocator can do besides; nothing else is asked of it.
struct AllocatorFlags {
  /// A part of an allocation that begins at a multiple of this is a buffer too; 0: no part is.
  int64_t view_align_bytes = 0;
  bool can_map = false;       ///< map_host
  bool can_import = false;    ///< import_host
  bool can_transfer = false;  ///< transfer
  bool has_content = false;   ///< bytes are there that nobody has allocated: open_content
};

/// Memory that an Allocator gives.
struct DeviceMemory {
  void* address = nullptr;
  int64_t size_bytes = 0;
};

/// Safe from any thread. Device addresses may mean nothing to the host: only copy_in and copy_out
/// look behind them.
class Allocator {
 public:
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  virtual ~Allocator() = default;

  /// `size_bytes` > 0 and at most max_allocation_bytes. Throws kOutOfMemory if there is not so
  /// much left; the pool then gives back what it caches and asks once more.
  virtual void* allocate(int64_t size_bytes) = 0;
  /// `size_bytes` is what was asked for.
  virtual void free(void* address, int64_t size_bytes) noexcept = 0;

  /// `dst` and `src` may point into the middle of an allocation. Return when the copy is done and
  /// wait for launches that write the source or read the destination. Throw kDeviceFailed, kIo.
  virtual void copy_in(void* dst, std::span<const std::byte> src) = 0;
  virtual void copy_out(std::span<std::byte> dst, const void* src) = 0;

  /// Nobody may touch these bytes inside an allocation until allow(), after which their contents
  /// are undefined. True: whoever does so is reported. A device without this does nothing.
  virtual bool forbid(void* /*address*/, int64_t /*size_bytes*/) noexcept { return false; }
  virtual void allow(void* /*address*/, int64_t /*size_bytes*/) noexcept {}

  virtual AllocatorFlags flags() const { return {}; }
  /// can_map: where the host finds these bytes of an allocation, to read and to write, until they
  /// are freed. Waits as the copies do.
  virtual std::byte* map_host(void* /*address*/, int64_t /*size_bytes*/) { return nullptr; }
  /// can_import: the device address of memory of the host that begins at a multiple of
  /// kBufferAlignBytes, stays until end_import and is only read.
  virtual void* import_host(std::span<const std::byte> /*bytes*/) { return nullptr; }
  virtual void end_import(void* /*address*/, int64_t /*size_bytes*/) noexcept {}
  /// can_transfer: copies from an allocation of another device without the host; waits as the
  /// copies do. False: not from that one, nothing is done.
  virtual bool transfer(void* /*dst*/, Allocator& /*from*/, const void* /*src*/,
                        int64_t /*size_bytes*/) {
    return false;
  }
  /// has_content: what is there, as it is now, for reading; free() ends it. Throws kNotFound, kIo.
  virtual DeviceMemory open_content() { return {}; }

  /// What could still be allocated, if the device can say.
  virtual std::optional<int64_t> free_bytes() const { return std::nullopt; }
  /// Most bytes of one allocation.
  virtual int64_t max_allocation_bytes() const { return std::numeric_limits<int64_t>::max() / 4; }
};

}  // namespace tenon
