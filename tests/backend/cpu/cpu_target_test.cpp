// What codegen is told of CPUs with different instruction sets. SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/cpu_target.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/backend/cpu/clang_compiler.h"
#include "tenon/backend/cpu/clang_unit_compiler.h"
#include "tenon/backend/cpu/cpu_device.h"
#include "tenon/base/text.h"
#include "tests/support/expect_error.h"

namespace tenon::cpu {
namespace {

Target target_for(std::string_view arch) {
  return make_target(parse_cpu_arch(arch), 1 << 20, 2);
}

TEST(CpuTarget, BaselineHasSqrtAndSixteenByteVectors) {
  const Target target = target_for("x86_64");
  EXPECT_EQ(target.arch, "x86_64");
  EXPECT_EQ(target.features, std::vector<std::string>{"sse2"});
  EXPECT_EQ(target.native_ops, std::vector<Op>{Op::kSqrt});
  EXPECT_FALSE(target.fuses_mulacc);
  EXPECT_TRUE(target.extra_casts.empty());
  EXPECT_EQ(target.max_vector_bytes, 16);
  EXPECT_EQ(target.max_lanes, 1);
  EXPECT_EQ(target.threads, 2);
  EXPECT_EQ(target.max_local_bytes, 1 << 20);
  EXPECT_TRUE(target.has_i64_index);
}

TEST(CpuTarget, ArithmeticIsBoolIntegersAndWideFloats) {
  const Target target = target_for("native");
  for (const DType dtype : storage_dtypes()) {
    const bool is_narrow_float = is_float(dtype) && dtype_bits(dtype) < 32;
    EXPECT_EQ(target.can_compute(dtype), !is_narrow_float) << dtype_name(dtype);
  }
  EXPECT_FALSE(target.can_compute(DType::kIdx));
}

TEST(CpuTarget, EachFeatureAddsWhatItGives) {
  EXPECT_TRUE(target_for("x86_64,sse4.1").is_native(Op::kTrunc));
  EXPECT_FALSE(target_for("x86_64,ssse3").is_native(Op::kTrunc));
  const Target fma = target_for("x86_64,fma");
  EXPECT_TRUE(fma.is_native(Op::kFma));
  EXPECT_TRUE(fma.fuses_mulacc);
  EXPECT_FALSE(fma.has_cast(DType::kF16, DType::kF32));
  const Target f16c = target_for("x86_64,f16c");
  EXPECT_TRUE(f16c.has_cast(DType::kF16, DType::kF32));
  EXPECT_TRUE(f16c.has_cast(DType::kF32, DType::kF16));
  EXPECT_FALSE(f16c.has_cast(DType::kBF16, DType::kF32));
  EXPECT_FALSE(f16c.is_native(Op::kFma));
  EXPECT_EQ(target_for("x86_64,avx").max_vector_bytes, 16);  // integers: half as wide as floats
  EXPECT_EQ(target_for("x86_64,avx2").max_vector_bytes, 32);
  EXPECT_EQ(target_for("x86_64,avx512f").max_vector_bytes, 32);
  EXPECT_EQ(target_for("x86_64,avx512bw,avx512dq,avx512vl").max_vector_bytes, 64);
}

TEST(CpuTarget, UnitsComeAndGoWithTheirFeatures) {
  const auto shapes = [](std::string_view arch) {
    std::vector<std::string> texts;
    for (const MatrixUnit& unit : target_for(arch).units) {
      const std::string text = to_text(unit);
      texts.push_back(text.substr(0, text.find('/')));
    }
    return join(texts, " ");
  };
  const std::string wide = "x86_64,avx512bw,avx512dq,avx512vl";
  EXPECT_EQ(shapes(wide), "");
  EXPECT_EQ(shapes(wide + ",avx512bf16"),
            "bf16*bf16>f32:1x16x2 bf16*bf16>f32:1x8x2 bf16*bf16>f32:1x4x2");
  EXPECT_EQ(shapes(wide + ",avx512bf16,-avx512bf16"), "");
  EXPECT_EQ(shapes(wide + ",avx512vnni"), "u8*i8>i32:1x16x4 u8*i8>i32:1x8x4 u8*i8>i32:1x4x4");
  EXPECT_EQ(shapes("x86_64,avxvnni"), "u8*i8>i32:1x8x4 u8*i8>i32:1x4x4");
  EXPECT_EQ(shapes("x86_64,avx512bf16"), "");  // no vectors of 64 bytes, no shorter forms
  EXPECT_EQ(shapes("x86_64,amx-bf16"), "bf16*bf16>f32:16x16x32");
  EXPECT_EQ(shapes("x86_64,amx-int8"),
            "i8*i8>i32:16x16x64 i8*u8>i32:16x16x64 u8*i8>i32:16x16x64 u8*u8>i32:16x16x64");
  EXPECT_EQ(shapes("x86_64,amx-int8,amx-bf16,-amx-tile"), "");
  EXPECT_EQ(target_for("x86_64,amx-int8").tiles.registers, 8);
  EXPECT_EQ(target_for(wide).tiles, TileFacts());
}

TEST(CpuTarget, FeaturesComeBackFromTheTextForm) {
  for (const char* arch : {"x86_64", "x86_64,avx2,fma", "x86_64,avx512bf16,amx-int8", "native"}) {
    const Target target = target_for(arch);
    EXPECT_TRUE(std::is_sorted(target.features.begin(), target.features.end()));
    const Target read = parse_target(to_text(target));
    EXPECT_EQ(read, target);
    EXPECT_EQ(features_of(read), parse_cpu_arch(arch)) << arch;
  }
  Target other = target_for("x86_64");
  other.arch = "aarch64";
  EXPECT_ERROR(features_of(other), ErrorCode::kInvalidArgument, "aarch64", "x86_64");
}

TEST(CpuTarget, LocalMemoryFollowsTheCaches) {
  CacheSizes caches;
  caches.l2_bytes = 2 << 20;
  caches.l3_bytes = 32 << 20;
  EXPECT_EQ(local_bytes_of(caches, 1), 8 << 20);   // a quarter of L3
  EXPECT_EQ(local_bytes_of(caches, 64), 1 << 20);  // half of L2
  EXPECT_GT(target_of_arch("").max_local_bytes, 0);
}

TEST(CpuTarget, FingerprintFollowsTheInstructionSets) {
  const auto baseline = make_clang_compiler(target_for("x86_64"));
  const auto avx2 = make_clang_compiler(target_for("x86_64,avx2"));
  EXPECT_EQ(baseline->payload_format(), "elf-x86_64");
  EXPECT_NE(baseline->fingerprint(), avx2->fingerprint());
  EXPECT_NE(avx2->fingerprint().find("-mavx2"), std::string::npos);
  EXPECT_EQ(why_no_clang(), std::nullopt);
}

TEST(CpuTarget, DeviceMemoryIsAlignedAndBounded) {
  const auto device = open_cpu_device(0, target_for("x86_64"));
  Allocator& allocator = device->allocator();
  for (const int64_t size : {1, 64, 1000, 5 << 20}) {
    void* const address = allocator.allocate(size);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % kBufferAlignBytes, 0u);
    allocator.free(address, size);
  }
  EXPECT_ERROR(allocator.allocate(int64_t{1} << 50), ErrorCode::kOutOfMemory, "1.0 PiB",
               "the limit is");
}

}  // namespace
}  // namespace tenon::cpu
