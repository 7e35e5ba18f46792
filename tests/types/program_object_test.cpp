// Program object files: round trip, bytes that never change, and hostile files.
// SPDX-License-Identifier: MIT

#include "tenon/types/program_object.h"

#include <gtest/gtest.h>

#include <limits>

#include "tenon/base/hash.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;
using Bytes = std::vector<std::byte>;

ProgramObject example() {
  ProgramObject object;
  object.entry = "mm_64";
  object.target = "arch=x86_64 threads=2";
  object.payload_format = "elf-x86_64";
  object.signature.arguments = {
      {.name = "a", .dtype = DType::kF32, .num_elements = 4096},
      {.name = "y",
       .dtype = DType::kBF16,
       .access = ArgumentAccess::kReadWrite,
       .num_elements = 64},
      {.name = "n", .dtype = DType::kI32, .is_buffer = false, .min = -1, .max = 64},
      {.name = "scale", .dtype = DType::kF32, .is_buffer = false}};
  object.grid = {4, 2};
  object.lanes = {1};
  object.scratch_bytes = 262144;
  for (int i = 0; i < 37; ++i)
    object.payload.push_back(static_cast<std::byte>(7 * i));
  return object;
}

void put(Bytes& bytes, size_t at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i)
    bytes.at(at + i) = static_cast<std::byte>(value >> (8 * i));
}

// Makes the size and checksum of changed bytes right again, so that the fields behind are judged.
Bytes resealed(Bytes bytes) {
  put(bytes, 12, bytes.size(), 8);
  const Hash128 hash = hash128(std::span<const std::byte>(bytes).first(bytes.size() - 16));
  put(bytes, bytes.size() - 16, hash.low, 8);
  put(bytes, bytes.size() - 8, hash.high, 8);
  return bytes;
}

TEST(ProgramObject, ReadsBackWhatWasWritten) {
  const ProgramObject object = example();
  const Bytes bytes = serialize_program_object(object);
  EXPECT_EQ(parse_program_object(bytes), object);
  EXPECT_EQ(serialize_program_object(parse_program_object(bytes)), bytes);
  EXPECT_EQ(resealed(bytes), bytes);

  ProgramObject bare;
  bare.entry = "f";
  bare.payload_format = "tir";
  bare.grid = {0};
  bare.lanes = {1, 1, 1};
  EXPECT_EQ(parse_program_object(serialize_program_object(bare)), bare);
}

TEST(ProgramObject, BeginsWithMagicVersionAndSize) {
  const Bytes bytes = serialize_program_object(example());
  const std::string head(reinterpret_cast<const char*>(bytes.data()), 12);
  EXPECT_EQ(head, std::string("TENONTPO\x01\0\0\0", 12));
  EXPECT_EQ(std::to_integer<size_t>(bytes[12]) + 256 * std::to_integer<size_t>(bytes[13]),
            bytes.size());
}

TEST(ProgramObject, EveryTruncationAndEveryFlippedByteIsRefused) {
  const Bytes bytes = serialize_program_object(example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    // A copy of exactly that size, so that a read past the end is seen by the address sanitizer.
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_ERROR(parse_program_object(cut), kInvalid, "program object");
  }
  for (size_t i = 0; i < bytes.size(); ++i) {
    Bytes damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_ERROR(parse_program_object(damaged), kInvalid, "program object");
  }
}

TEST(ProgramObject, EveryTruncationWithARightChecksumIsRefused) {
  const Bytes bytes = serialize_program_object(example());
  for (size_t size = 36; size < bytes.size(); ++size) {
    const Bytes cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_ERROR(parse_program_object(resealed(cut)), kInvalid, "program object");
  }
}

TEST(ProgramObject, HeadFaultsAreNamed) {
  Bytes bytes = serialize_program_object(example());
  Bytes changed = bytes;
  changed[0] = std::byte{'t'};
  EXPECT_ERROR(parse_program_object(changed), kInvalid, "magic");
  changed = bytes;
  put(changed, 8, 2, 4);
  EXPECT_ERROR(parse_program_object(resealed(changed)), kInvalid, "version 2", "version 1");
  changed = bytes;
  changed.push_back(std::byte{0});
  EXPECT_ERROR(parse_program_object(changed), kInvalid, "appended");
  changed = bytes;
  changed[60] ^= std::byte{1};
  EXPECT_ERROR(parse_program_object(changed), kInvalid, "checksum");
}

TEST(ProgramObject, HugeCountsAreRefusedBeforeAnythingIsAllocated) {
  const Bytes bytes = serialize_program_object(example());
  Bytes changed = bytes;
  put(changed, 20, 0xffffffff, 4);  // length of the entry name
  EXPECT_ERROR(parse_program_object(resealed(changed)), kInvalid, "entry name", "4294967295");
  changed = bytes;
  put(changed, 20, 60000, 4);
  EXPECT_ERROR(parse_program_object(resealed(changed)), kInvalid, "entry name", "60000");
  const size_t count_at = 20 + (4 + 5) + (4 + 21) + (4 + 10);
  ASSERT_EQ(std::to_integer<int>(bytes[count_at]), 4);
  changed = bytes;
  put(changed, count_at, 0xfffffff0, 4);
  EXPECT_ERROR(parse_program_object(resealed(changed)), kInvalid, "4294967280 arguments");
  changed = bytes;
  put(changed, count_at, 60000, 4);
  EXPECT_ERROR(parse_program_object(resealed(changed)), kInvalid, "60000 arguments");
}

TEST(ProgramObject, ArgumentFieldsAreChecked) {
  const Bytes bytes = serialize_program_object(example());
  const size_t first = 20 + (4 + 5) + (4 + 21) + (4 + 10) + 4;  // "a", then dtype, kind, access
  const auto with = [&](size_t offset, uint64_t value, size_t size) {
    Bytes changed = bytes;
    put(changed, first + offset, value, size);
    return resealed(changed);
  };
  EXPECT_ERROR(parse_program_object(with(4, 0x07, 1)), kInvalid, "printable");
  EXPECT_ERROR(parse_program_object(with(5, 0, 1)), kInvalid, "dtype", "number 0");
  EXPECT_ERROR(parse_program_object(with(5, 16, 1)), kInvalid, "idx");
  EXPECT_ERROR(parse_program_object(with(6, 2, 1)), kInvalid, "kind");
  EXPECT_ERROR(parse_program_object(with(7, 0, 1)), kInvalid, "access");
  EXPECT_ERROR(parse_program_object(with(7, 4, 1)), kInvalid, "access");
  EXPECT_ERROR(parse_program_object(with(8, ~uint64_t{0}, 8)), kInvalid, "-1 elements");
  EXPECT_ERROR(parse_program_object(with(8, uint64_t{1} << 61, 8)), kInvalid, "elements");
  EXPECT_ERROR(parse_program_object(with(16, 1, 8)), kInvalid, "buffer with a range");
}

TEST(ProgramObject, WriterRefusesWhatTheReaderWould) {
  const auto refuses = [](auto&& change) {
    ProgramObject object = example();
    change(object);
    return ::tenon::testing::throws_error([&] { (void)serialize_program_object(object); }, kInvalid,
                                          {"program object"});
  };
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.entry.clear(); }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.entry = "a\nb"; }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.target.assign(70000, 'x'); }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.payload_format.clear(); }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.grid.clear(); }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.grid = {1, 1, 1, 1}; }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.grid = {-1}; }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.lanes = {0}; }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.grid = {int64_t{1} << 40, int64_t{1} << 40}; }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.scratch_bytes = -1; }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.signature.arguments[2].min = 65; }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.signature.arguments[2].max = int64_t{1} << 31; }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.signature.arguments[3].max = 1; }));
  EXPECT_TRUE(refuses([](ProgramObject& o) { o.signature.arguments[3].num_elements = 1; }));
  EXPECT_TRUE(
      refuses([](ProgramObject& o) { o.signature.arguments[2].access = ArgumentAccess::kWrite; }));
}

TEST(ProgramObject, FullRangesOfScalarsAreKept) {
  ProgramObject object = example();
  Argument& n = object.signature.arguments[2];
  n.dtype = DType::kU64;
  n.min = 0;
  n.max = -1;  // the bit pattern of 2^64-1
  EXPECT_EQ(parse_program_object(serialize_program_object(object)), object);
  n.dtype = DType::kI64;
  n.min = std::numeric_limits<int64_t>::min();
  n.max = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(parse_program_object(serialize_program_object(object)), object);
}

}  // namespace
}  // namespace tenon
