// Allocator: raw memory of one device, the part of the device contract that a backend implements.
// Called by BufferPool alone, which caches above it. Knows bytes and device addresses, no tensors.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace tenon {

/// Every address an Allocator gives is a multiple of this; programs rely on it
/// (kBaseAlignBytes of the linear level, compared in engine/).
inline constexpr int64_t kBufferAlignBytes = 64;

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
  /// wait for launches that write the source or read the destination. Throw kDeviceFailed.
  virtual void copy_in(void* dst, std::span<const std::byte> src) = 0;
  virtual void copy_out(std::span<std::byte> dst, const void* src) = 0;

  /// Nobody may touch these bytes inside an allocation until allow(), after which their contents
  /// are undefined. True: whoever does so is reported. A device without this does nothing.
  virtual bool forbid(void* /*address*/, int64_t /*size_bytes*/) noexcept { return false; }
  virtual void allow(void* /*address*/, int64_t /*size_bytes*/) noexcept {}

  /// Most bytes of one allocation.
  virtual int64_t max_allocation_bytes() const { return std::numeric_limits<int64_t>::max() / 4; }
};

}  // namespace tenon
