// The pool over a counting allocator: reuse, bounds, trimming when the device is full, guards.
// SPDX-License-Identifier: MIT

#include "tenon/device/buffer_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <thread>

#include "tests/support/expect_error.h"

namespace tenon {
namespace {

constexpr int64_t kKiB = 1024;

/// Host memory of a bounded size that counts what it gave.
class CountingAllocator final : public Allocator {
 public:
  explicit CountingAllocator(int64_t capacity) : capacity_(capacity) {}
  ~CountingAllocator() override { EXPECT_EQ(used_, 0); }

  void* allocate(int64_t size_bytes) override {
    if (used_ + size_bytes > capacity_) fail(ErrorCode::kOutOfMemory, "the test device is full");
    used_ += size_bytes;
    ++num_allocations_;
    const int64_t rounded = (size_bytes + 63) / 64 * 64;
    return std::aligned_alloc(64, static_cast<size_t>(rounded));
  }
  void free(void* address, int64_t size_bytes) noexcept override {
    used_ -= size_bytes;
    std::free(address);
  }
  void copy_in(void* dst, std::span<const std::byte> src) override {
    std::memcpy(dst, src.data(), src.size());
  }
  void copy_out(std::span<std::byte> dst, const void* src) override {
    std::memcpy(dst.data(), src, dst.size());
  }
  int64_t max_allocation_bytes() const override { return 512 * kKiB; }
  AllocatorFlags flags() const override { return flags_; }
  void set_flags(AllocatorFlags flags) { flags_ = flags; }
  std::byte* map_host(void* address, int64_t) override { return static_cast<std::byte*>(address); }
  void* import_host(std::span<const std::byte> bytes) override {
    ++num_imported_;
    return const_cast<std::byte*>(bytes.data());
  }
  void end_import(void*, int64_t) noexcept override { --num_imported_; }
  bool transfer(void* dst, Allocator& from, const void* src, int64_t size_bytes) override {
    if (dynamic_cast<CountingAllocator&>(from).refuses_transfers_) return false;
    std::memcpy(dst, src, static_cast<size_t>(size_bytes));
    return true;
  }
  std::optional<int64_t> free_bytes() const override { return capacity_ - used_; }
  void refuse_transfers() { refuses_transfers_ = true; }
  int64_t num_imported() const { return num_imported_; }

  int64_t used() const { return used_; }
  int64_t num_allocations() const { return num_allocations_; }

 private:
  const int64_t capacity_;
  std::atomic<int64_t> used_ = 0;
  std::atomic<int64_t> num_allocations_ = 0;
  AllocatorFlags flags_;
  bool refuses_transfers_ = false;
  int64_t num_imported_ = 0;
};

TEST(BufferPool, CopiesShareOneAllocationAndTheLastReleasesIt) {
  CountingAllocator allocator(1024 * kKiB);
  BufferPool pool(allocator, "TEST:0");
  {
    Buffer a = pool.allocate(1000);
    EXPECT_EQ(a.size_bytes(), 1000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(a.address()) % 64, 0u);
    Buffer b = a;
    Buffer c = std::move(a);
    EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): moved-from handles are null
    b = c;
    b = Buffer();
    EXPECT_EQ(pool.cached_bytes(), 0);
    EXPECT_GE(pool.used_bytes(), 1000);
  }
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_EQ(pool.cached_bytes(), BufferPool::size_class(1000));
}

TEST(BufferPool, ReleasedMemoryIsUsedAgain) {
  CountingAllocator allocator(1024 * kKiB);
  BufferPool pool(allocator, "TEST:0");
  const void* const address = pool.allocate(5000).address();
  EXPECT_EQ(pool.allocate(5000).address(), address);
  EXPECT_EQ(pool.allocate(BufferPool::size_class(5000)).address(), address);
  EXPECT_EQ(allocator.num_allocations(), 1);
  pool.allocate(50000);
  EXPECT_EQ(allocator.num_allocations(), 2);
}

TEST(BufferPool, SizeClassesWasteAtMostAnEighth) {
  int64_t before = 0;
  for (int64_t size = 1; size < 100000; size += 37) {
    const int64_t class_bytes = BufferPool::size_class(size);
    ASSERT_GE(class_bytes, size);
    ASSERT_LE(class_bytes - size, std::max<int64_t>(size / 8 + 64, 64)) << size;
    ASSERT_GE(class_bytes, before);
    ASSERT_EQ(class_bytes % 64, 0);
    ASSERT_EQ(BufferPool::size_class(class_bytes), class_bytes);
    before = class_bytes;
  }
}

TEST(BufferPool, CacheIsBoundedAndDropsTheOldest) {
  CountingAllocator allocator(4096 * kKiB);
  BufferPool pool(allocator, "TEST:0", {.max_cached_bytes = 64 * kKiB});
  pool.allocate(32 * kKiB);
  pool.allocate(16 * kKiB);
  pool.allocate(24 * kKiB);  // the 32 KiB go
  EXPECT_EQ(pool.cached_bytes(), 40 * kKiB);
  pool.allocate(16 * kKiB);
  EXPECT_EQ(allocator.num_allocations(), 3);
  pool.allocate(32 * kKiB);  // again, and the 24 KiB go
  EXPECT_EQ(allocator.num_allocations(), 4);
  EXPECT_EQ(pool.cached_bytes(), 48 * kKiB);
  pool.allocate(128 * kKiB);  // more than the whole bound: not kept
  EXPECT_EQ(pool.cached_bytes(), 48 * kKiB);
  EXPECT_EQ(pool.trim(), 48 * kKiB);
  EXPECT_EQ(allocator.used(), 0);
}

TEST(BufferPool, FullDeviceIsTrimmedAndAskedOnceMore) {
  CountingAllocator allocator(100 * kKiB);
  BufferPool pool(allocator, "TEST:0");
  pool.allocate(64 * kKiB);
  ASSERT_EQ(pool.cached_bytes(), 64 * kKiB);
  const Buffer large = pool.allocate(96 * kKiB);
  EXPECT_EQ(pool.cached_bytes(), 0);
  EXPECT_ERROR(pool.allocate(64 * kKiB), ErrorCode::kOutOfMemory, "the test device is full",
               "64.0 KiB", "'TEST:0'", "96.0 KiB");
  EXPECT_EQ(pool.used_bytes(), 96 * kKiB);
}

TEST(BufferPool, OutOfMemoryNamesAskedFreeAndCached) {
  CountingAllocator allocator(100 * kKiB);
  BufferPool pool(allocator, "TEST:0");
  const Buffer live = pool.allocate(32 * kKiB);
  pool.allocate(16 * kKiB);
  ASSERT_EQ(pool.cached_bytes(), 16 * kKiB);
  EXPECT_ERROR(pool.allocate(96 * kKiB), ErrorCode::kOutOfMemory,
               "allocating 96.0 KiB on 'TEST:0' failed; 68.0 KiB are free", "buffers hold 32.0 KiB",
               "16.0 KiB in the cache were given back", "Free tensors", "the test device is full");
  EXPECT_EQ(pool.cached_bytes(), 0);
  EXPECT_EQ(allocator.num_allocations(), 2);                    // refused ones leave nothing
  EXPECT_EQ(pool.allocate(48 * kKiB).size_bytes(), 48 * kKiB);  // the device stays usable
}

TEST(BufferPool, ViewsShareAnAllocationWhereTheDeviceSaysSo) {
  CountingAllocator allocator(1024 * kKiB);
  BufferPool pool(allocator, "TEST:0");
  Buffer whole = pool.allocate(1000);
  EXPECT_NE(whole.why_no_view(0, 10), std::nullopt);
  allocator.set_flags({.view_align_bytes = 8});
  EXPECT_EQ(whole.why_no_view(8, 992), std::nullopt);
  for (const auto& [offset, size] :
       std::vector<std::pair<int64_t, int64_t>>{{4, 8}, {8, 993}, {-8, 8}, {0, -1}, {1001, 0}}) {
    EXPECT_NE(whole.why_no_view(offset, size), std::nullopt) << offset << " " << size;
  }
  whole.fill(std::byte{1});
  {
    const Buffer part = whole.view(504, 16);
    const Buffer inner = part.view(8, 8);
    whole = Buffer();
    EXPECT_EQ(inner.address(), static_cast<std::byte*>(part.address()) + 8);
    EXPECT_NE(part.why_no_view(8, 9), std::nullopt);
    inner.fill(std::byte{2});
    std::vector<std::byte> bytes(16);
    part.copy_out(bytes);
    EXPECT_EQ(bytes[7], std::byte{1});
    EXPECT_EQ(bytes[8], std::byte{2});
    EXPECT_EQ(pool.cached_bytes(), 0);
  }
  EXPECT_EQ(pool.cached_bytes(), BufferPool::size_class(1000));
}

TEST(BufferPool, ImportedMemoryIsKeptByItsOwnerAndNotCached) {
  CountingAllocator allocator(1024 * kKiB);
  BufferPool pool(allocator, "TEST:0");
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(64, 128)),
                                          [](std::byte* bytes) { std::free(bytes); });
  const std::span<const std::byte> bytes(memory.get(), 128);
  EXPECT_FALSE(pool.import_host(bytes, memory));
  allocator.set_flags({.can_import = true});
  EXPECT_FALSE(pool.import_host(bytes.subspan(8), memory));
  {
    const Buffer buffer = pool.import_host(bytes, memory);
    EXPECT_EQ(buffer.address(), memory.get());
    EXPECT_EQ(memory.use_count(), 2);
    EXPECT_EQ(allocator.num_imported(), 1);
  }
  EXPECT_EQ(memory.use_count(), 1);
  EXPECT_EQ(allocator.num_imported(), 0);
  EXPECT_EQ(pool.cached_bytes() + allocator.num_allocations(), 0);
}

TEST(BufferPool, CopiesTakeTheBestWayThatBothHave) {
  const auto way = [](AllocatorFlags to, AllocatorFlags from, bool is_refused = false) {
    CountingAllocator target(64 * kKiB);
    CountingAllocator source(64 * kKiB);
    target.set_flags(to);
    source.set_flags(from);
    if (is_refused) source.refuse_transfers();
    BufferPool there(target, "TO:0");
    BufferPool here(source, "FROM:0");
    const Buffer x = here.allocate(100);
    const Buffer y = there.allocate(100);
    x.fill(std::byte{7});
    y.fill(std::byte{0});
    const CopyWay result = y.copy_from(x);
    std::vector<std::byte> bytes(100);
    y.copy_out(bytes);
    EXPECT_EQ(bytes, std::vector<std::byte>(100, std::byte{7}));
    return result;
  };
  const AllocatorFlags all{.can_map = true, .can_transfer = true};
  const AllocatorFlags maps{.can_map = true};
  EXPECT_EQ(way(all, all), CopyWay::kTransfer);
  EXPECT_EQ(way(all, all, true), CopyWay::kMapped);
  EXPECT_EQ(way(all, maps), CopyWay::kMapped);
  EXPECT_EQ(way(maps, {}), CopyWay::kMapped);
  EXPECT_EQ(way({}, maps), CopyWay::kMapped);
  EXPECT_EQ(way({.can_transfer = true}, {}), CopyWay::kHost);
  EXPECT_EQ(way({}, {}), CopyWay::kHost);
}

TEST(BufferPool, OverTheLimitIsAnErrorOfItsOwn) {
  CountingAllocator allocator(4096 * kKiB);
  BufferPool pool(allocator, "TEST:0");
  EXPECT_EQ(pool.allocate(512 * kKiB).size_bytes(), 512 * kKiB);
  EXPECT_ERROR(pool.allocate(512 * kKiB + 1), ErrorCode::kUnsupported, "TEST:0",
               "at most 512.0 KiB");
  EXPECT_ERROR(pool.allocate(512 * kKiB, 64), ErrorCode::kUnsupported, "at most");
}

TEST(BufferPool, EmptyBuffersTakeNothing) {
  CountingAllocator allocator(0);
  BufferPool pool(allocator, "TEST:0");
  const Buffer empty = pool.allocate(0, 128);
  EXPECT_TRUE(empty);
  EXPECT_EQ(empty.address(), nullptr);
  empty.copy_in({});
  EXPECT_EQ(empty.why_guard_broken(), std::nullopt);
  EXPECT_FALSE(Buffer());
}

TEST(BufferPool, GuardsShowWritesOnBothSides) {
  CountingAllocator allocator(1024 * kKiB);
  BufferPool pool(allocator, "TEST:0");
  for (const int64_t size : {1, 63, 64, 100, 4096}) {
    const Buffer buffer = pool.allocate(size, 100);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.address()) % 64, 0u);
    buffer.fill(std::byte{1});
    EXPECT_EQ(buffer.why_guard_broken(), std::nullopt);
    auto* const bytes = static_cast<std::byte*>(buffer.address());
    for (const int64_t offset : {int64_t{-128}, int64_t{-1}, size, size + 127}) {
      const std::byte before = std::exchange(bytes[offset], std::byte{0});
      const auto reason = buffer.why_guard_broken();
      ASSERT_TRUE(reason) << size << " " << offset;
      EXPECT_NE(reason->find("byte " + std::to_string(offset)), std::string::npos) << *reason;
      bytes[offset] = before;
      EXPECT_EQ(buffer.why_guard_broken(), std::nullopt);
    }
  }
}

/// Holds whoever gives memory back, inside the pool's lock.
class HoldingAllocator final : public Allocator {
 public:
  void* allocate(int64_t size_bytes) override {
    return std::aligned_alloc(64, static_cast<size_t>(size_bytes));
  }
  void free(void* address, int64_t) noexcept override {
    is_inside = true;
    while (is_held)
      std::this_thread::yield();
    std::free(address);
  }
  void copy_in(void*, std::span<const std::byte>) override {}
  void copy_out(std::span<std::byte>, const void*) override {}

  std::atomic<bool> is_held = true;
  std::atomic<bool> is_inside = false;
};

TEST(BufferPool, AForkedChildMayLetBuffersGoWhateverAnotherThreadDid) {
  HoldingAllocator allocator;
  BufferPool pool(allocator, "TEST:0");
  auto buffer = std::make_unique<Buffer>(pool.allocate(64));
  pool.allocate(64);  // into the cache
  std::thread trimmer([&] { pool.trim(); });
  while (!allocator.is_inside)
    std::this_thread::yield();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    buffer.reset();
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  allocator.is_held = false;
  trimmer.join();
}

TEST(BufferPool, ThreadsMayAllocateAndReleaseAtOnce) {
  CountingAllocator allocator(64 * 1024 * kKiB);
  BufferPool pool(allocator, "TEST:0", {.max_cached_bytes = 100 * kKiB});
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      const auto mark = static_cast<std::byte>(thread + 1);
      for (int i = 0; i < 500; ++i) {
        const Buffer buffer = pool.allocate(1 + (i * 97 + thread * 31) % 20000);
        buffer.fill(mark);
        std::vector<std::byte> bytes(static_cast<size_t>(buffer.size_bytes()));
        buffer.copy_out(bytes);
        for (const std::byte byte : bytes)
          wrong += byte != mark;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool.used_bytes(), 0);
  EXPECT_LE(pool.cached_bytes(), 100 * kKiB);
}

}  // namespace
}  // namespace tenon
