// Memory of INTERP: addresses behind which the host finds nothing, so that a path that keeps a host
// pointer or forgets a copy ends at once. The bytes lie elsewhere and are looked up by address.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tenon/device/allocator.h"
#include "tenon/interp/checked_program.h"

namespace tenon::interp {

/// Each allocation is a range of its own that no access is ever allowed to; it is kept for a while
/// after free(), so that old addresses are recognised. Accesses to what is not there, was given
/// back, or is forbidden are kDeviceFailed.
class Arena final : public Allocator {
 public:
  /// `name` stands in errors; buffers may take `max_bytes` in all.
  Arena(std::string name, int64_t max_bytes) : name_(std::move(name)), max_bytes_(max_bytes) {}
  ~Arena() override;

  void* allocate(int64_t size_bytes) override;
  void free(void* address, int64_t size_bytes) noexcept override;
  void copy_in(void* dst, std::span<const std::byte> src) override;
  /// What was never written cannot be copied out.
  void copy_out(std::span<std::byte> dst, const void* src) override;
  bool forbid(void* address, int64_t size_bytes) noexcept override;
  AllocatorFlags flags() const override {
    return {.view_align_bytes = kBufferAlignBytes, .can_transfer = true};  // the host sees nothing
  }
  /// From another arena.
  bool transfer(void* dst, Allocator& from, const void* src, int64_t size_bytes) override;
  std::optional<int64_t> free_bytes() const override;
  /// What was there before is not there any more.
  void allow(void* address, int64_t size_bytes) noexcept override;

  /// The bytes of an argument, which stay while somebody holds `keep`.
  CheckedArgument find(uint64_t address, int64_t size_bytes, std::shared_ptr<void>& keep) const;

 private:
  struct Block {
    bool is_free = false;
    int64_t reserved_bytes = 0;
    std::vector<std::byte> bytes;
    std::vector<uint8_t> states;  ///< by byte
  };
  using Blocks = std::map<uint64_t, std::shared_ptr<Block>>;

  /// The block that `address` lies in or behind, or end().
  Blocks::const_iterator block_at(uint64_t address) const;
  CheckedArgument find_locked(uint64_t address, int64_t size_bytes) const;
  void set_states(void* address, int64_t size_bytes, uint8_t state) noexcept;

  const std::string name_;
  const int64_t max_bytes_;
  mutable std::mutex mutex_;
  Blocks blocks_;              ///< by first address
  std::deque<uint64_t> free_;  ///< of those that were given back, the oldest first
  int64_t used_bytes_ = 0;
};

}  // namespace tenon::interp
