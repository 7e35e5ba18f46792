// Size classes, the cache of released memory, and guard zones. SPDX-License-Identifier: MIT

#include "tenon/device/buffer_pool.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <exception>
#include <memory>

#include "tenon/base/error.h"
#include "tenon/base/integer.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

constexpr std::byte kGuardByte{0xc7};

/// Position of the first byte that is not a guard's.
std::optional<int64_t> first_change(std::span<const std::byte> zone) {
  const auto at =
      std::find_if(zone.begin(), zone.end(), [](std::byte byte) { return byte != kGuardByte; });
  if (at == zone.end()) return std::nullopt;
  return at - zone.begin();
}

}  // namespace

struct detail::Allocation {
  std::atomic<int64_t> count = 1;
  BufferPool* pool = nullptr;
  std::byte* base = nullptr;  ///< what the device gave
  int64_t class_bytes = 0;    ///< of it
  int64_t guard_bytes = 0;    ///< before the bytes; behind them at least as many
  int64_t size_bytes = 0;
  bool is_fenced = false;  ///< the device reports who touches a guard
  std::atomic<BufferHistory*> history = nullptr;
  std::shared_ptr<const void> owner;  ///< of imported memory, which is not the pool's

  Allocation() = default;
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  ~Allocation() { delete history.load(); }
  std::byte* address() const { return base == nullptr ? nullptr : base + guard_bytes; }
  int64_t bytes_behind() const { return class_bytes - guard_bytes - size_bytes; }
};

// --- Buffer --------------------------------------------------------------------------------------

Buffer::Buffer(detail::Allocation* allocation)
    : allocation_(allocation), size_bytes_(allocation->size_bytes) {}

Buffer::Buffer(const Buffer& other) noexcept
    : allocation_(other.allocation_),
      offset_bytes_(other.offset_bytes_),
      size_bytes_(other.size_bytes_) {
  if (allocation_ != nullptr) allocation_->count.fetch_add(1, std::memory_order_relaxed);
}

Buffer::~Buffer() {
  if (allocation_ == nullptr) return;
  if (allocation_->count.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    allocation_->pool->release(allocation_);
  }
}

void* Buffer::address() const {
  return size_bytes_ == 0 ? nullptr : allocation_->address() + offset_bytes_;
}

std::optional<std::string> Buffer::why_no_view(int64_t offset_bytes, int64_t size_bytes) const {
  if (offset_bytes < 0 || size_bytes < 0 || size_bytes > size_bytes_ - offset_bytes) {
    return concat("bytes ", offset_bytes, " to ", offset_bytes, " + ", size_bytes,
                  " are not all in a buffer of ", size_bytes_, " bytes");
  }
  const int64_t align = allocation_->pool->allocator_.flags().view_align_bytes;
  if (align == 0) return "the device has no buffers that are parts of others";
  const int64_t offset = offset_bytes_ + offset_bytes;
  if (offset % align == 0) return std::nullopt;
  return concat("byte ", offset, " of an allocation is not a multiple of ", align);
}

Buffer Buffer::view(int64_t offset_bytes, int64_t size_bytes) const {
  const auto reason = why_no_view(offset_bytes, size_bytes);
  TENON_ASSERT(!reason, "view of a buffer: ", *reason);
  Buffer part = *this;
  part.offset_bytes_ += offset_bytes;
  part.size_bytes_ = size_bytes;
  return part;
}

BufferHistory* Buffer::history() const {
  return allocation_ == nullptr ? nullptr : allocation_->history.load(std::memory_order_acquire);
}

BufferHistory& Buffer::make_history() const {
  if (BufferHistory* const known = history()) return *known;
  auto made = std::make_unique<BufferHistory>();
  BufferHistory* known = nullptr;
  if (allocation_->history.compare_exchange_strong(known, made.get())) return *made.release();
  return *known;  // another thread was first
}

void Buffer::wait_for_turn(ArgumentAccess access) const {
  const BufferHistory* const known = history();
  if (known == nullptr) return;
  std::vector<Event> waits;
  known->add_waits(access, nullptr, waits);
  for (const Event& event : waits)
    event.wait();
}

void Buffer::wait() const {
  wait_for_turn(ArgumentAccess::kRead);
  const BufferHistory* const known = history();
  if (known == nullptr) return;
  if (const FailurePtr failure = known->failure()) throw_failure(*failure);
}

void Buffer::copy_in(std::span<const std::byte> bytes) const {
  TENON_ASSERT(std::cmp_equal(bytes.size(), size_bytes()), "copy of ", bytes.size(),
               " bytes into a buffer of ", size_bytes());
  wait_for_turn(ArgumentAccess::kWrite);
  if (!bytes.empty()) allocation_->pool->allocator_.copy_in(address(), bytes);
  if (BufferHistory* const known = history()) known->set_failure(nullptr);
}

void Buffer::copy_out(std::span<std::byte> bytes) const {
  TENON_ASSERT(std::cmp_equal(bytes.size(), size_bytes()), "copy of ", bytes.size(),
               " bytes out of a buffer of ", size_bytes());
  wait();
  if (!bytes.empty()) allocation_->pool->allocator_.copy_out(bytes, address());
}

CopyWay Buffer::copy_from(const Buffer& source) const {
  constexpr int64_t kPartBytes = int64_t{16} << 20;
  TENON_ASSERT(source.size_bytes_ == size_bytes_, "copy of ", source.size_bytes_,
               " bytes to a buffer of ", size_bytes_);
  if (size_bytes_ == 0) return CopyWay::kHost;
  Allocator& here = allocation_->pool->allocator_;
  Allocator& there = source.allocation_->pool->allocator_;
  const AllocatorFlags flags = here.flags();
  const AllocatorFlags source_flags = there.flags();
  const auto size = static_cast<size_t>(size_bytes_);
  if (flags.can_transfer && source_flags.can_transfer &&
      here.transfer(address(), there, source.address(), size_bytes_)) {
    return CopyWay::kTransfer;
  }
  if (source_flags.can_map) {
    here.copy_in(address(), {there.map_host(source.address(), size_bytes_), size});
    return CopyWay::kMapped;
  }
  if (flags.can_map) {
    there.copy_out({here.map_host(address(), size_bytes_), size}, source.address());
    return CopyWay::kMapped;
  }
  std::vector<std::byte> part(static_cast<size_t>(std::min(size_bytes_, kPartBytes)));
  for (int64_t begin = 0; begin < size_bytes_; begin += kPartBytes) {
    const auto count = static_cast<size_t>(std::min(size_bytes_ - begin, kPartBytes));
    there.copy_out({part.data(), count}, static_cast<std::byte*>(source.address()) + begin);
    here.copy_in(static_cast<std::byte*>(address()) + begin, {part.data(), count});
  }
  return CopyWay::kHost;
}

void Buffer::fill(std::byte value) const {
  wait_for_turn(ArgumentAccess::kWrite);
  constexpr int64_t kPartBytes = int64_t{1} << 20;
  const std::vector<std::byte> part(static_cast<size_t>(std::min(size_bytes(), kPartBytes)), value);
  for (int64_t begin = 0; begin < size_bytes(); begin += kPartBytes) {
    const auto count = static_cast<size_t>(std::min(size_bytes() - begin, kPartBytes));
    allocation_->pool->allocator_.copy_in(static_cast<std::byte*>(address()) + begin,
                                          {part.data(), count});
  }
  if (BufferHistory* const known = history()) known->set_failure(nullptr);
}

std::optional<std::string> Buffer::why_guard_broken() const {
  if (allocation_ == nullptr || allocation_->guard_bytes == 0) return std::nullopt;
  if (allocation_->is_fenced) return std::nullopt;
  Allocator& allocator = allocation_->pool->allocator_;
  std::vector<std::byte> zone(static_cast<size_t>(allocation_->guard_bytes));
  allocator.copy_out(zone, allocation_->base);
  if (const auto at = first_change(zone)) {
    return concat("byte ", *at - allocation_->guard_bytes, " of a buffer of ",
                  allocation_->size_bytes, " bytes was written: before its start");
  }
  zone.resize(static_cast<size_t>(allocation_->bytes_behind()));
  const int64_t size_bytes = allocation_->size_bytes;
  allocator.copy_out(zone, allocation_->address() + size_bytes);
  if (const auto at = first_change(zone)) {
    return concat("byte ", size_bytes + *at, " of a buffer of ", size_bytes,
                  " bytes was written: beyond its end");
  }
  return std::nullopt;
}

// --- BufferPool ----------------------------------------------------------------------------------

BufferPool::BufferPool(Allocator& allocator, std::string device_name, BufferPoolOptions options)
    : allocator_(allocator), device_name_(std::move(device_name)), options_(options) {}

BufferPool::~BufferPool() {
  trim();
}

int64_t BufferPool::size_class(int64_t size_bytes) {
  constexpr uint64_t kSteps = 8;  // for each power of two: at most an eighth is lost
  const auto size = static_cast<uint64_t>(round_up(size_bytes, kBufferAlignBytes));
  const uint64_t step =
      std::max(std::bit_floor(size) / kSteps, static_cast<uint64_t>(kBufferAlignBytes));
  return static_cast<int64_t>(round_up(size, step));
}

Buffer BufferPool::allocate(int64_t size_bytes, int64_t guard_bytes) {
  TENON_ASSERT(size_bytes >= 0 && guard_bytes >= 0, "allocation of ", size_bytes, " bytes");
  auto allocation = std::make_unique<detail::Allocation>();
  allocation->pool = this;
  allocation->size_bytes = size_bytes;
  if (size_bytes == 0 && !options_.are_files) return Buffer(allocation.release());
  const int64_t limit = allocator_.max_allocation_bytes();
  const int64_t guard = options_.are_files ? 0 : round_up(guard_bytes, kBufferAlignBytes);
  TENON_CHECK(size_bytes <= limit - 2 * guard, ErrorCode::kUnsupported, "allocating ",
              format_bytes(static_cast<uint64_t>(size_bytes)), " on '", device_name_,
              "' failed: one buffer may have at most ", format_bytes(static_cast<uint64_t>(limit)),
              ". Use smaller tensors");
  const int64_t wanted = size_bytes + 2 * guard;
  allocation->guard_bytes = guard;
  const bool is_exact = options_.exact_sizes || options_.are_files;
  allocation->class_bytes = is_exact ? wanted : std::min(size_class(wanted), limit);
  void* base = take_cached(allocation->class_bytes);
  if (base == nullptr) base = allocate_or_trim(allocation->class_bytes, size_bytes);
  allocation->base = static_cast<std::byte*>(base);
  Buffer buffer(allocation.release());
  if (guard > 0) {
    const detail::Allocation& made = *buffer.allocation_;
    const std::vector<std::byte> zone(static_cast<size_t>(std::max(guard, made.bytes_behind())),
                                      kGuardByte);
    const std::span<const std::byte> bytes(zone);
    allocator_.copy_in(made.base, bytes.first(static_cast<size_t>(guard)));
    allocator_.copy_in(made.address() + size_bytes,
                       bytes.first(static_cast<size_t>(made.bytes_behind())));
  }
  fence(*buffer.allocation_);
  return buffer;
}

Buffer BufferPool::open_content() {
  TENON_ASSERT(allocator_.flags().has_content, "'", device_name_, "' has no content of its own");
  auto allocation = std::make_unique<detail::Allocation>();
  const DeviceMemory content = allocator_.open_content();
  allocation->pool = this;
  allocation->base = static_cast<std::byte*>(content.address);
  allocation->class_bytes = content.size_bytes;
  allocation->size_bytes = content.size_bytes;
  const std::lock_guard lock(mutex_);
  used_bytes_ += content.size_bytes;
  return Buffer(allocation.release());
}

Buffer BufferPool::import_host(std::span<const std::byte> bytes,
                               std::shared_ptr<const void> owner) {
  TENON_ASSERT(owner != nullptr, "import of memory that nobody keeps");
  const bool is_aligned = reinterpret_cast<uintptr_t>(bytes.data()) % kBufferAlignBytes == 0;
  if (bytes.empty() || !is_aligned || !allocator_.flags().can_import) return {};
  auto allocation = std::make_unique<detail::Allocation>();
  void* const address = allocator_.import_host(bytes);
  if (address == nullptr) return {};
  allocation->pool = this;
  allocation->base = static_cast<std::byte*>(address);
  allocation->class_bytes = std::ssize(bytes);
  allocation->size_bytes = std::ssize(bytes);
  allocation->owner = std::move(owner);
  return Buffer(allocation.release());
}

void BufferPool::fence(detail::Allocation& made) noexcept {
  made.is_fenced = allocator_.forbid(made.address() + made.size_bytes, made.bytes_behind());
  allocator_.forbid(made.base, made.guard_bytes);
}

void* BufferPool::take_cached(int64_t class_bytes) {
  const std::lock_guard lock(mutex_);
  const auto found = cached_.find(class_bytes);
  if (found == cached_.end()) return nullptr;
  void* const address = found->second.back().address;  // the one used last is warm
  found->second.pop_back();
  if (found->second.empty()) cached_.erase(found);
  cached_bytes_ -= class_bytes;
  used_bytes_ += class_bytes;
  allocator_.allow(address, class_bytes);
  return address;
}

void* BufferPool::allocate_or_trim(int64_t class_bytes, int64_t size_bytes) {
  const auto allocate = [&](std::string& reason) -> void* {
    try {
      return allocator_.allocate(class_bytes);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      reason = error.what();
      return nullptr;
    }
  };
  const auto text_of = [](int64_t bytes) { return format_bytes(static_cast<uint64_t>(bytes)); };
  std::string reason;
  void* address = allocate(reason);
  int64_t num_trimmed = 0;
  if (address == nullptr) {
    num_trimmed = trim();
    if (num_trimmed > 0) address = allocate(reason);
  }
  if (address == nullptr) {
    const std::optional<int64_t> free = allocator_.free_bytes();
    fail(ErrorCode::kOutOfMemory, "allocating ", text_of(size_bytes), " on '", device_name_,
         "' failed; ", free ? concat(text_of(*free), " are free, ") : std::string(),
         "buffers hold ", text_of(used_bytes()), ", ", text_of(num_trimmed),
         " in the cache were given back. Free tensors, or compute with smaller ones (", reason,
         ")");
  }
  const std::lock_guard lock(mutex_);
  used_bytes_ += class_bytes;
  return address;
}

void BufferPool::release(detail::Allocation* allocation) noexcept {
  const std::unique_ptr<detail::Allocation> owned(allocation);
  if (owned->base == nullptr) return;
  if (watch_.is_forked()) return;  // a lock may be held for ever, and the device is not ours
  if (owned->owner != nullptr) {
    allocator_.end_import(owned->base, owned->class_bytes);
    return;
  }
  allocator_.allow(owned->base, owned->class_bytes);
  if (!keep(owned->base, owned->class_bytes)) allocator_.free(owned->base, owned->class_bytes);
}

bool BufferPool::keep(void* address, int64_t class_bytes) noexcept {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= class_bytes;
  if (options_.are_files || class_bytes > options_.max_cached_bytes) return false;
  while (cached_bytes_ + class_bytes > options_.max_cached_bytes)
    drop_oldest();
  try {
    cached_[class_bytes].push_back({tick_++, address});
  } catch (const std::exception&) {  // the host has no memory for the list
    const auto list = cached_.find(class_bytes);
    if (list != cached_.end() && list->second.empty()) cached_.erase(list);
    return false;
  }
  cached_bytes_ += class_bytes;
  allocator_.forbid(address, class_bytes);
  return true;
}

void BufferPool::give_back(void* address, int64_t class_bytes) noexcept {
  allocator_.allow(address, class_bytes);
  allocator_.free(address, class_bytes);
}

void BufferPool::drop_oldest() {
  const auto oldest = std::min_element(
      cached_.begin(), cached_.end(),
      [](const auto& a, const auto& b) { return a.second.front().tick < b.second.front().tick; });
  give_back(oldest->second.front().address, oldest->first);
  cached_bytes_ -= oldest->first;
  oldest->second.erase(oldest->second.begin());
  if (oldest->second.empty()) cached_.erase(oldest);
}

int64_t BufferPool::trim() {
  const std::lock_guard lock(mutex_);
  const int64_t given_back = cached_bytes_;
  for (const auto& [class_bytes, blocks] : cached_) {
    for (const Cached& block : blocks)
      give_back(block.address, class_bytes);
  }
  cached_.clear();
  cached_bytes_ = 0;
  return given_back;
}

int64_t BufferPool::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

int64_t BufferPool::cached_bytes() const {
  const std::lock_guard lock(mutex_);
  return cached_bytes_;
}

}  // namespace tenon
