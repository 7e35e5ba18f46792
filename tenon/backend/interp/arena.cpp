// SPDX-License-Identifier: MIT

#include "tenon/backend/interp/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "tenon/base/error.h"
#include "tenon/base/integer.h"
#include "tenon/base/text.h"

namespace tenon::interp {
namespace {

// Bytes never written, written, and not to be touched. The interpreter tells zero from the others.
constexpr uint8_t kUndefined = 0;
constexpr uint8_t kWritten = 1;
constexpr uint8_t kForbidden = 2;
/// What undefined bytes hold: no number that anybody expects.
constexpr std::byte kUndefinedByte{0xa5};

constexpr int64_t kPageBytes = 4096;
constexpr size_t kMaxFree = 1024;

uint64_t number_of(const void* address) {
  return reinterpret_cast<uint64_t>(address);
}

}  // namespace

Arena::~Arena() {
  for (const auto& [address, block] : blocks_)
    munmap(reinterpret_cast<void*>(address), static_cast<size_t>(block->reserved_bytes));
}

void* Arena::allocate(int64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  TENON_CHECK(size_bytes <= max_bytes_ - used_bytes_, ErrorCode::kOutOfMemory, name_, ": ",
              format_bytes(static_cast<uint64_t>(size_bytes)), " are not to be had; ",
              format_bytes(static_cast<uint64_t>(used_bytes_)),
              " are in use or cached, the limit is ",
              format_bytes(static_cast<uint64_t>(max_bytes_)));
  auto block = std::make_shared<Block>();
  block->reserved_bytes = round_up(size_bytes, kPageBytes) + kPageBytes;  // with a gap behind
  try {
    block->bytes.assign(static_cast<size_t>(size_bytes), kUndefinedByte);
    block->states.assign(static_cast<size_t>(size_bytes), kUndefined);
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kOutOfMemory, name_, ": the host has no memory for ",
         format_bytes(static_cast<uint64_t>(size_bytes)));
  }
  void* const address = mmap(nullptr, static_cast<size_t>(block->reserved_bytes), PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TENON_CHECK(address != MAP_FAILED, ErrorCode::kOutOfMemory, name_, ": no addresses for ",
              format_bytes(static_cast<uint64_t>(size_bytes)));
  blocks_.emplace(number_of(address), std::move(block));
  used_bytes_ += size_bytes;
  return address;
}

void Arena::free(void* address, int64_t size_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(number_of(address));
  if (found == blocks_.end()) return;
  found->second->is_free = true;
  std::vector<std::byte>().swap(found->second->bytes);
  std::vector<uint8_t>().swap(found->second->states);
  used_bytes_ -= size_bytes;
  free_.push_back(found->first);
  if (free_.size() <= kMaxFree) return;
  const auto oldest = blocks_.find(free_.front());
  free_.pop_front();
  munmap(reinterpret_cast<void*>(oldest->first),
         static_cast<size_t>(oldest->second->reserved_bytes));
  blocks_.erase(oldest);
}

Arena::Blocks::const_iterator Arena::block_at(uint64_t address) const {
  const auto after = blocks_.upper_bound(address);
  return after == blocks_.begin() ? blocks_.end() : std::prev(after);
}

CheckedArgument Arena::find_locked(uint64_t address, int64_t size_bytes) const {
  const auto found = block_at(address);
  const auto where = [&] { return concat(name_, ": ", size_bytes, " bytes at address ", address); };
  TENON_CHECK(found != blocks_.end() &&
                  address - found->first < static_cast<uint64_t>(found->second->reserved_bytes),
              ErrorCode::kDeviceFailed, where(), ": no buffer lies there");
  Block& block = *found->second;
  TENON_CHECK(!block.is_free, ErrorCode::kDeviceFailed, where(),
              ": the buffer there was given back");
  const uint64_t begin = address - found->first;
  const auto size = static_cast<uint64_t>(size_bytes);
  TENON_CHECK(begin <= block.bytes.size() && size <= block.bytes.size() - begin,
              ErrorCode::kDeviceFailed, where(), ": they reach beyond the end of a buffer of ",
              block.bytes.size(), " bytes, from its byte ", begin, " on");
  const std::span states(block.states.data() + begin, size);
  TENON_CHECK(std::memchr(states.data(), kForbidden, states.size()) == nullptr,
              ErrorCode::kDeviceFailed, where(),
              ": they were given back, or lie outside of what was asked for");
  return {.bytes = {block.bytes.data() + begin, size}, .written = states, .address = address};
}

CheckedArgument Arena::find(uint64_t address, int64_t size_bytes,
                            std::shared_ptr<void>& keep) const {
  const std::lock_guard lock(mutex_);
  const CheckedArgument argument = find_locked(address, size_bytes);
  keep = block_at(address)->second;
  return argument;
}

void Arena::copy_in(void* dst, std::span<const std::byte> src) {
  const std::lock_guard lock(mutex_);
  const CheckedArgument to = find_locked(number_of(dst), std::ssize(src));
  std::ranges::copy(src, to.bytes.begin());
  std::ranges::fill(to.written, kWritten);
}

void Arena::copy_out(std::span<std::byte> dst, const void* src) {
  const std::lock_guard lock(mutex_);
  const CheckedArgument from = find_locked(number_of(src), std::ssize(dst));
  const auto gap = std::ranges::find(from.written, kUndefined);
  TENON_CHECK(gap == from.written.end(), ErrorCode::kDeviceFailed, name_, ": copy of ", dst.size(),
              " bytes to the host: nobody has written byte ", gap - from.written.begin());
  std::ranges::copy(from.bytes, dst.begin());
}

bool Arena::transfer(void* dst, Allocator& from, const void* src, int64_t size_bytes) {
  auto* const source = dynamic_cast<Arena*>(&from);
  if (source == nullptr || source == this) return false;
  const std::scoped_lock lock(mutex_, source->mutex_);
  const CheckedArgument bytes = source->find_locked(number_of(src), size_bytes);
  const CheckedArgument to = find_locked(number_of(dst), size_bytes);
  const auto gap = std::ranges::find(bytes.written, kUndefined);
  TENON_CHECK(gap == bytes.written.end(), ErrorCode::kDeviceFailed, source->name_, ": copy of ",
              size_bytes, " bytes to ", name_, ": nobody has written byte ",
              gap - bytes.written.begin());
  std::ranges::copy(bytes.bytes, to.bytes.begin());
  std::ranges::fill(to.written, kWritten);
  return true;
}

std::optional<int64_t> Arena::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return max_bytes_ - used_bytes_;
}

void Arena::set_states(void* address, int64_t size_bytes, uint8_t state) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = block_at(number_of(address));
  if (found == blocks_.end() || found->second->is_free) return;
  Block& block = *found->second;
  const uint64_t begin = std::min(number_of(address) - found->first, block.bytes.size());
  const uint64_t size = std::min(static_cast<uint64_t>(size_bytes), block.bytes.size() - begin);
  std::fill_n(block.states.data() + begin, size, state);
  if (state == kUndefined) std::fill_n(block.bytes.data() + begin, size, kUndefinedByte);
}

bool Arena::forbid(void* address, int64_t size_bytes) noexcept {
  set_states(address, size_bytes, kForbidden);
  return true;
}

void Arena::allow(void* address, int64_t size_bytes) noexcept {
  set_states(address, size_bytes, kUndefined);
}

}  // namespace tenon::interp
