// Targets: queries, text form and its strict inverse. SPDX-License-Identifier: MIT

#include "tenon/types/target.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/base/text.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

Target example() {
  Target target;
  target.arch = "x86_64";
  target.features = {"avx2", "avx512f", "fma"};
  for (const DType dtype : {DType::kBool, DType::kI32, DType::kI64, DType::kF32, DType::kF64})
    target.arithmetic.add(dtype);
  target.extra_casts = {{DType::kF16, DType::kF32}, {DType::kF32, DType::kF16}};
  target.native_ops = {Op::kSqrt, Op::kFma};
  target.fuses_mulacc = true;
  target.units = {{.a = DType::kBF16,
                   .b = DType::kBF16,
                   .acc = DType::kF32,
                   .m = 1,
                   .n = 16,
                   .k = 2,
                   .group = 2,
                   .place = UnitPlace::kVectors,
                   .sum = UnitSum::kOddFirst,
                   .flushes_denormals = true,
                   .needs_setup = false},
                  {.a = DType::kU8,
                   .b = DType::kI8,
                   .acc = DType::kI32,
                   .m = 16,
                   .n = 16,
                   .k = 64,
                   .group = 4,
                   .place = UnitPlace::kTiles,
                   .sum = UnitSum::kExact,
                   .flushes_denormals = false,
                   .needs_setup = true}};
  target.deviations = {{}, {.kind = Deviation::Kind::kUlp, .op = Op::kExp2, .ulp = 3}};
  target.max_vector_bytes = 64;
  target.max_groups = 65535;
  target.max_local_bytes = int64_t{1} << 40;
  target.max_lanes = 1;
  target.max_arguments = 128;
  target.threads = 2;
  target.vector_registers = 32;
  target.mulacc_rate = 3600;
  target.mulacc_chains = 8;
  target.tiles = {.registers = 8, .rate = 210, .chains = 4};
  target.caches = {{32768, 8, 1, 210}, {1 << 20, 8, 2, 115}};
  target.memory_speed = 20;
  target.bypass_bytes = 1 << 25;
  return target;
}

constexpr std::string_view kExampleText =
    "arch=x86_64 features=avx2,avx512f,fma arithmetic=i1,i32,i64,f32,f64 "
    "extra_casts=f16>f32,f32>f16 native_ops=sqrt,fma fuses_mulacc=yes "
    "units=bf16*bf16>f32:1x16x2/2:vectors:odd_first:flush:ready,"
    "u8*i8>i32:16x16x64/4:tiles:exact:keep:setup "
    "deviations=flush_f32,exp2:3 max_vector_bytes=64 max_local_bytes=1099511627776 max_lanes=1 "
    "max_groups=65535 max_arguments=128 "
    "has_i64_index=yes vector_registers=32 scalar_registers=16 "
    "mulacc_rate=3600 mulacc_chains=8 tile_registers=8 tile_rate=210 tile_chains=4 "
    "caches=32768:8:1:210,1048576:8:2:115 "
    "line_bytes=64 memory_speed=20 "
    "fork_ns=1000 "
    "bypass_bytes=33554432 threads=2";

TEST(Target, TextIsStableAndReadsBack) {
  EXPECT_EQ(to_text(example()), kExampleText);
  EXPECT_EQ(parse_target(kExampleText), example());
  Target bare;
  bare.arch = "none";
  bare.has_i64_index = false;
  EXPECT_EQ(parse_target(to_text(bare)), bare);
}

TEST(Target, EveryFieldChangesTheText) {
  const std::string text = to_text(example());
  const auto differs = [&](auto&& change) {
    Target changed = example();
    change(changed);
    return to_text(changed) != text && parse_target(to_text(changed)) == changed;
  };
  EXPECT_TRUE(differs([](Target& t) { t.arch = "aarch64"; }));
  EXPECT_TRUE(differs([](Target& t) { t.features.pop_back(); }));
  EXPECT_TRUE(differs([](Target& t) { t.arithmetic.add(DType::kF16); }));
  EXPECT_TRUE(differs([](Target& t) { t.extra_casts.pop_back(); }));
  EXPECT_TRUE(differs([](Target& t) { t.native_ops.push_back(Op::kTrunc); }));
  EXPECT_TRUE(differs([](Target& t) { t.fuses_mulacc = false; }));
  EXPECT_TRUE(differs([](Target& t) { t.units.pop_back(); }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].a = DType::kF16; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].b = DType::kF16; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].acc = DType::kF64; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].m = 2; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].n = 8; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].k = 4; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].group = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].place = UnitPlace::kTiles; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].sum = UnitSum::kTwoSums; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].flushes_denormals = false; }));
  EXPECT_TRUE(differs([](Target& t) { t.units[0].needs_setup = true; }));
  EXPECT_TRUE(differs([](Target& t) { t.deviations.pop_back(); }));
  EXPECT_TRUE(differs([](Target& t) { t.deviations[1].ulp = 4; }));
  EXPECT_TRUE(differs([](Target& t) { t.deviations[1].op = Op::kLog2; }));
  EXPECT_TRUE(differs([](Target& t) { t.max_groups = 65536; }));
  EXPECT_TRUE(differs([](Target& t) { t.max_vector_bytes = 32; }));
  EXPECT_TRUE(differs([](Target& t) { t.max_local_bytes = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.max_lanes = 2; }));
  EXPECT_TRUE(differs([](Target& t) { t.max_arguments = 2; }));
  EXPECT_TRUE(differs([](Target& t) { t.has_i64_index = false; }));
  EXPECT_TRUE(differs([](Target& t) { t.threads = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.vector_registers = 16; }));
  EXPECT_TRUE(differs([](Target& t) { t.scalar_registers = 8; }));
  EXPECT_TRUE(differs([](Target& t) { t.mulacc_rate = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.mulacc_chains = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.tiles.registers = 4; }));
  EXPECT_TRUE(differs([](Target& t) { t.tiles.rate = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.tiles.chains = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.tiles = {}; }));
  EXPECT_TRUE(differs([](Target& t) { t.caches.pop_back(); }));
  EXPECT_TRUE(differs([](Target& t) { t.caches[0].bytes = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.caches[0].ways = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.caches[1].threads = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.caches[1].speed = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.line_bytes = 128; }));
  EXPECT_TRUE(differs([](Target& t) { t.memory_speed = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.fork_ns = 1; }));
  EXPECT_TRUE(differs([](Target& t) { t.bypass_bytes = 1; }));
}

TEST(Target, Queries) {
  const Target target = example();
  EXPECT_TRUE(target.can_compute(DType::kF32));
  EXPECT_FALSE(target.can_compute(DType::kF16));
  EXPECT_TRUE(target.is_native(Op::kFma));
  EXPECT_FALSE(target.is_native(Op::kExp2));
  EXPECT_TRUE(target.has_cast(DType::kF16, DType::kF32));
  EXPECT_TRUE(target.has_cast(DType::kI32, DType::kF64));
  EXPECT_FALSE(target.has_cast(DType::kBF16, DType::kF32));
}

TEST(Target, TextIsReadStrictly) {
  const auto with = [](std::string_view from, std::string_view to) {
    std::string text(kExampleText);
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_ERROR(parse_target(""), kInvalid, "arch=");
  EXPECT_ERROR(parse_target(with("arch=x86_64", "arch=")), kInvalid, "arch");
  EXPECT_ERROR(parse_target(with("avx2,avx512f", "avx512f,avx2")), kInvalid, "sorted");
  EXPECT_ERROR(parse_target(with("avx2,", "avx2,avx2,")), kInvalid, "sorted");
  EXPECT_ERROR(parse_target(with("avx2,", ",avx2,")), kInvalid, "words");
  EXPECT_ERROR(parse_target(with("i1,i32", "i32,i1")), kInvalid, "order");
  EXPECT_ERROR(parse_target(with("i1,i32", "i1,i1,i32")), kInvalid, "order");
  EXPECT_ERROR(parse_target(with("i1,i32", "i1,int32")), kInvalid, "int32");
  EXPECT_ERROR(parse_target(with("i1,i32", "idx,i32")), kInvalid, "idx");
  EXPECT_ERROR(parse_target(with("f16>f32", "f16")), kInvalid, "from>to");
  EXPECT_ERROR(parse_target(with("sqrt", "sqqrt")), kInvalid, "sqqrt");
  EXPECT_ERROR(parse_target(with("fuses_mulacc=yes", "fuses_mulacc=maybe")), kInvalid, "maybe",
               "neither");
  EXPECT_ERROR(parse_target(with("bf16*bf16", "bf16*bf17")), kInvalid, "bf17");
  EXPECT_ERROR(parse_target(with("bf16*bf16>", "bf16*bf16:")), kInvalid, "'>'");
  EXPECT_ERROR(parse_target(with("1x16x2/2", "1x16x3/2")), kInvalid, "divide");
  EXPECT_ERROR(parse_target(with("1x16x2/2", "0x16x2/2")), kInvalid, "extent");
  EXPECT_ERROR(parse_target(with("1x16x2/2", "1x016x2/2")), kInvalid, "extent");
  EXPECT_ERROR(parse_target(with("vectors", "air")), kInvalid, "air", "tiles");
  EXPECT_ERROR(parse_target(with("odd_first", "odd")), kInvalid, "odd_first");
  EXPECT_ERROR(parse_target(with("flush:ready", "maybe:ready")), kInvalid, "keep");
  EXPECT_ERROR(parse_target(with("flush_f32", "flush_f64")), kInvalid, "flush_f64");
  EXPECT_ERROR(parse_target(with("exp2:3", "exp2")), kInvalid, "exp2:3");
  EXPECT_ERROR(parse_target(with(":ready", "")), kInvalid, "':'");
  EXPECT_ERROR(parse_target(with("max_vector_bytes=64", "max_vector_bytes=-64")), kInvalid,
               "vector");
  EXPECT_ERROR(parse_target(with("max_vector_bytes=64", "max_vector_bytes=064")), kInvalid,
               "vector");
  EXPECT_ERROR(parse_target(with("max_vector_bytes=64", "max_vector_bytes=5000000000")), kInvalid,
               "vector");
  EXPECT_ERROR(parse_target(with("max_vector_bytes=64 ", "")), kInvalid, "vector");
  EXPECT_ERROR(parse_target(with("max_vector_bytes=64", "max_vector_bytes=64 max_vector_bytes=64")),
               kInvalid, "local");
  EXPECT_ERROR(parse_target(with("i64_index=yes", "i64_index=i128")), kInvalid, "i128");
  EXPECT_ERROR(parse_target(with("threads=2", "threads=2 more=1")), kInvalid, "follow");
  EXPECT_ERROR(parse_target(with("threads=2", "threads=2 ")), kInvalid, "follow");
  EXPECT_ERROR(parse_target(with("32768:8:1:210", "32768:8:1")), kInvalid, "ways");
  EXPECT_ERROR(parse_target(with("32768:8:1:210", "32768:8:1:210:1")), kInvalid, "ways");
  EXPECT_ERROR(parse_target(with("32768:8:1:210", "0:8:1:210")), kInvalid, "ways");
  EXPECT_ERROR(parse_target(with("32768:8:1:210", "+32768:8:1:210")), kInvalid, "ways");
  for (size_t size = 0; size < kExampleText.size(); ++size) {
    EXPECT_ERROR(parse_target(kExampleText.substr(0, size)), kInvalid, "target");
  }
}

TEST(Target, ShrinksByName) {
  const Target target = example();
  Target smaller = target;
  smaller.max_arguments = 4;
  smaller.native_ops = {Op::kFma};
  smaller.units.clear();
  smaller.tiles.registers = 0;
  smaller.caches = {{16384, 8, 1, 100}};
  smaller.fuses_mulacc = false;
  smaller.has_i64_index = false;
  EXPECT_EQ(shrink_target(target,
                          "max_arguments=4, native_ops=fma,units=,tile_registers=0,"
                          "caches=16384:8:1:100,fuses_mulacc=no,has_i64_index=no"),
            smaller);
  EXPECT_EQ(shrink_target(target, ""), target);
  EXPECT_EQ(
      shrink_target(target, "arithmetic=i1+f32").arithmetic.bits,
      uint32_t{1} << static_cast<int>(DType::kBool) | uint32_t{1} << static_cast<int>(DType::kF32));
  // Every field as it is is no change; what may be shrunk is what the text has.
  for (const std::string_view field : split(kExampleText, ' ')) {
    std::string same(field);
    std::replace(same.begin(), same.end(), ',', '+');
    EXPECT_EQ(shrink_target(target, same), target) << field;
  }
  EXPECT_EQ(target_fields().size(), split(kExampleText, ' ').size());
}

TEST(Target, NeverGrows) {
  const Target target = example();
  const auto kInvalid = ErrorCode::kInvalidArgument;
  EXPECT_ERROR(shrink_target(target, "max_arguments=129"), kInvalid, "129", "more than 128");
  EXPECT_ERROR(shrink_target(target, "max_arguments=0"), kInvalid, "more than 128");
  EXPECT_ERROR(shrink_target(target, "threads=0"), kInvalid, "threads");
  EXPECT_ERROR(shrink_target(target, "native_ops=trunc"), kInvalid, "trunc");
  EXPECT_ERROR(shrink_target(target, "arithmetic=f16"), kInvalid, "f16");
  EXPECT_ERROR(shrink_target(target, "arch=aarch64"), kInvalid, "aarch64");
  EXPECT_ERROR(shrink_target(target, "caches=65536:8:1:210"), kInvalid, "65536");
  EXPECT_ERROR(shrink_target(target, "line_byte=1"), kInvalid, "line_byte", "line_bytes");
  EXPECT_ERROR(shrink_target(target, "threads"), kInvalid, "name=value");
  EXPECT_ERROR(shrink_target(target, "threads=two"), kInvalid, "two");
  Target small = target;
  small.has_i64_index = false;
  EXPECT_ERROR(shrink_target(small, "has_i64_index=yes"), kInvalid, "more than no");
}

TEST(Target, BlocksHaveTwoVectorsOfEachRowInRegisters) {
  for (const auto& [registers, rows] :
       {std::pair(7, 2), {8, 2}, {16, 4}, {18, 4}, {19, 8}, {32, 8}}) {
    Target target;
    target.vector_registers = registers;
    EXPECT_EQ(target.block_rows(), rows) << registers;
  }
}

}  // namespace
}  // namespace tenon
