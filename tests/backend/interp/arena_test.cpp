// Memory of INTERP: what the host may not do, and what is an error on the device.
// SPDX-License-Identifier: MIT

#include "tenon/backend/interp/arena.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tenon/device/buffer_pool.h"
#include "tests/support/expect_error.h"

namespace tenon::interp {
namespace {

using Bytes = std::vector<std::byte>;
constexpr auto kFailed = ErrorCode::kDeviceFailed;

Bytes bytes_of(size_t count, int first) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>(first + static_cast<int>(i));
  return bytes;
}

std::byte* at(void* address, int64_t offset) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uint64_t>(address) +
                                      static_cast<uint64_t>(offset));
}

TEST(Arena, CopiesReachIntoTheMiddle) {
  Arena arena("X:0", 1 << 20);
  void* const buffer = arena.allocate(100);
  EXPECT_EQ(reinterpret_cast<uint64_t>(buffer) % kBufferAlignBytes, 0U);
  arena.copy_in(buffer, bytes_of(100, 0));
  arena.copy_in(at(buffer, 10), bytes_of(5, 90));
  Bytes read(7);
  arena.copy_out(read, at(buffer, 9));
  EXPECT_EQ(read, (Bytes{std::byte{9}, std::byte{90}, std::byte{91}, std::byte{92}, std::byte{93},
                         std::byte{94}, std::byte{15}}));
  arena.free(buffer, 100);
}

TEST(Arena, TheHostFindsNothingThere) {
  Arena arena("X:0", 1 << 20);
  void* const buffer = arena.allocate(64);
  arena.copy_in(buffer, bytes_of(64, 0));
  const auto* const kept = static_cast<const volatile int*>(buffer);  // a host pointer, kept
  EXPECT_DEATH(std::exit(kept[3]), "");
  EXPECT_DEATH(std::memset(buffer, 0, 64), "");
  arena.free(buffer, 64);
  EXPECT_DEATH(std::exit(kept[3]), "");
}

TEST(Arena, WhatIsNotThereIsAnError) {
  Arena arena("X:0", 1000);
  void* const buffer = arena.allocate(100);
  Bytes bytes = bytes_of(8, 1);
  EXPECT_ERROR(arena.copy_in(at(buffer, 96), bytes), kFailed, "X:0", "beyond the end",
               "100 bytes, from its byte 96");
  EXPECT_ERROR(arena.copy_in(at(buffer, -8), bytes), kFailed, "no buffer lies there");
  EXPECT_ERROR(arena.copy_in(bytes.data(), bytes), kFailed, "no buffer lies there");
  EXPECT_ERROR(arena.copy_out(bytes, buffer), kFailed, "nobody has written byte 0");
  arena.copy_in(buffer, bytes);
  EXPECT_ERROR(arena.copy_out(bytes, at(buffer, 4)), kFailed, "nobody has written byte 4");
  EXPECT_ERROR(arena.allocate(901), ErrorCode::kOutOfMemory, "901 B", "100 B", "1000 B");
  arena.free(buffer, 100);
  EXPECT_ERROR(arena.copy_out(bytes, buffer), kFailed, "was given back");
  EXPECT_NO_THROW(arena.free(arena.allocate(1000), 1000));
}

TEST(Arena, AddressesAreNotUsedAgainSoon) {
  Arena arena("X:0", 1 << 20);
  std::vector<void*> seen;
  for (int i = 0; i < 3000; ++i) {  // more than it remembers
    void* const buffer = arena.allocate(10);
    const auto recent = seen.end() - std::min<std::ptrdiff_t>(std::ssize(seen), 1000);
    ASSERT_EQ(std::find(recent, seen.end(), buffer), seen.end()) << i;
    seen.push_back(buffer);
    arena.free(buffer, 10);
  }
}

TEST(Arena, ForbiddenBytesAreNotTouchedAndComeBackUndefined) {
  Arena arena("X:0", 1 << 20);
  void* const buffer = arena.allocate(100);
  Bytes bytes = bytes_of(10, 1);
  arena.copy_in(buffer, bytes_of(100, 0));
  EXPECT_TRUE(arena.forbid(at(buffer, 50), 50));
  EXPECT_ERROR(arena.copy_in(at(buffer, 45), bytes), kFailed, "were given back");
  EXPECT_ERROR(arena.copy_out(bytes, at(buffer, 90)), kFailed, "were given back");
  EXPECT_NO_THROW(arena.copy_out(bytes, at(buffer, 40)));
  arena.allow(at(buffer, 50), 50);
  EXPECT_ERROR(arena.copy_out(bytes, at(buffer, 50)), kFailed, "nobody has written");
  arena.free(buffer, 100);
}

TEST(Arena, BuffersOfThePoolAreUndefinedEachTime) {
  Arena arena("X:0", 1 << 20);
  BufferPool pool(arena, "X:0");
  Bytes bytes = bytes_of(100, 0);
  void* first = nullptr;
  {
    const Buffer buffer = pool.allocate(100, 64);
    first = buffer.address();
    buffer.copy_in(bytes);
    buffer.copy_out(bytes);
    EXPECT_ERROR(arena.copy_in(at(first, 98), bytes_of(4, 0)), kFailed,
                 "outside of what was asked");
    EXPECT_ERROR(arena.copy_in(at(first, -1), bytes_of(4, 0)), kFailed,
                 "outside of what was asked");
    EXPECT_EQ(buffer.why_guard_broken(), std::nullopt);
  }
  EXPECT_GT(pool.cached_bytes(), 0);
  EXPECT_ERROR(arena.copy_out(bytes, first), kFailed, "were given back");
  const Buffer again = pool.allocate(100, 64);
  EXPECT_EQ(again.address(), first);  // from the cache
  EXPECT_ERROR(again.copy_out(bytes), kFailed, "nobody has written byte 0");
}

}  // namespace
}  // namespace tenon::interp
