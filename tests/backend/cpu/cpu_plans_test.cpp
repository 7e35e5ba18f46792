// Block sizes, tiles and stores follow from the caches and vectors that a CPU's Target is made of:
// the Plans of two CPUs, both pinned, and what one changed fact does to them.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/kernel_text.h"

namespace tenon::cpu {
namespace {

constexpr int64_t kKiB = 1 << 10;
constexpr int64_t kMiB = 1 << 20;
constexpr const char* kAvx2 = "x86_64,avx2,fma";
constexpr const char* kAvx512 =
    "x86_64,avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni";
constexpr const char* kTiles =
    "x86_64,avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vnni,amx-bf16,amx-int8";

// A large first and second level beside a far third one, and a small second level beside a near
// third one.
constexpr CacheSizes kLargeCaches{.l1_data_bytes = 48 * kKiB,
                                  .l2_bytes = 2 * kMiB,
                                  .l3_bytes = 105 * kMiB,
                                  .l1_ways = 12,
                                  .l2_ways = 16,
                                  .l3_ways = 15,
                                  .l3_threads = 2};
constexpr CacheSizes kSmallCaches{.l1_data_bytes = 32 * kKiB,
                                  .l2_bytes = 1 * kMiB,
                                  .l3_bytes = 32 * kMiB,
                                  .l1_ways = 8,
                                  .l2_ways = 8,
                                  .l3_ways = 16,
                                  .l3_threads = 2};

Target target_with(const char* arch, const CacheSizes& caches, int threads) {
  return make_target(parse_cpu_arch(arch), local_bytes_of(caches, threads), threads, caches);
}

Kernel matmul(int64_t n, const Target& target, DType dtype = DType::kF32) {
  const std::string name(dtype_name(dtype));
  const bool is_narrow = dtype != DType::kF32;
  const std::string shape = concat("[", n, ",", n, "]");
  const std::string product = is_narrow ? "f32(a[i,k]) * f32(b[k,j])" : "a[i,k] * b[k,j]";
  const Kernel kernel =
      parse_kernel(concat("kernel mm {\n  in a: ", name, shape, "\n  in b: ", name, shape,
                          "\n  out y: f32", shape, "\n  y[i,j] += ", product, "  over i:", n,
                          ", j:", n, ", k:", n, " red  start 0\n}"),
                   "test");
  return prepare_kernel(kernel, target);
}

// What a Plan says of a product, in the kernel's own names.
struct Blocks {
  std::string tile;    // its family, and the register tile
  int64_t depth = 0;   // points of k between two visits of the output
  int64_t block = 0;   // columns of a group
  std::string stages;  // operand, the depth of its copy in the nest, the copy's layout
  int64_t stage_bytes = 0;
};

Blocks blocks_of(const Kernel& kernel, const Target& target) {
  const PlanChoice choice = choose_plans(kernel, target, 1).at(0);
  const CompPlan& root = choice.plan.comps.at(0);
  Blocks blocks;
  std::array<int64_t, 3> steps{};
  std::vector<int64_t> depths;
  for (const Part& part : root.parts) {
    if (part.role == Role::kGrid && part.axis == 1) blocks.block = part.step;
    if (part.role != Role::kSeq) continue;
    steps.at(static_cast<size_t>(part.axis)) = part.step;
    if (part.axis == 2) depths.push_back(part.step);
  }
  blocks.tile = concat(choice.family, " ", steps[0], "x", steps[1]);
  const Comp& comp = std::get<Comp>(kernel.body.at(static_cast<size_t>(root.comp)).node);
  blocks.depth = depths.size() > 1 ? depths[0] : axis_extent(comp.axes.at(2).axis);
  for (const Stage& stage : root.stages) {
    const BufferDecl& buffer = kernel.buffers.at(static_cast<size_t>(stage.buffer));
    append(blocks.stages, blocks.stages.empty() ? "" : "; ", buffer.name, " at ", stage.depth, ":");
    int64_t bytes = dtype_size_bytes(buffer.dtype);
    for (const LayoutPart& part : stage.layout) {
      append(blocks.stages, " ", part.dim, ":", part.extent);
      bytes *= part.extent;
    }
    blocks.stage_bytes += bytes;
  }
  return blocks;
}

Blocks f32_blocks(int64_t size, const Target& target) {
  return blocks_of(matmul(size, target), target);
}

void expect_blocks(const Blocks& found, const Blocks& expected) {
  EXPECT_EQ(found.tile, expected.tile);
  EXPECT_EQ(found.depth, expected.depth);
  EXPECT_EQ(found.block, expected.block);
  EXPECT_EQ(found.stages, expected.stages);
  EXPECT_EQ(found.stage_bytes, expected.stage_bytes);
}

Target with_second_level(Target target, int64_t bytes) {
  target.caches.at(1).bytes = bytes;
  return target;
}

TEST(CpuPlans, BlocksOfProductsOnTwoPinnedCpus) {
  struct Case {
    const char* arch;
    const CacheSizes& caches;
    int threads;
    int64_t size;
    Blocks expected;
  };
  for (const Case& one : {
           // Up to 512 KiB of b stay in either second level, whole columns of it.
           Case{kAvx512,
                kLargeCaches,
                2,
                1024,
                {"tile 13x32", 1024, 128, "b at 1: 1:4 0:1024 1:32", 512 * kKiB}},
           Case{kAvx512,
                kSmallCaches,
                2,
                1024,
                {"tile 13x32", 1024, 128, "b at 1: 1:4 0:1024 1:32", 512 * kKiB}},
           // 1 MiB stays in the larger; the smaller wants it in four pieces.
           Case{kAvx512,
                kLargeCaches,
                1,
                1024,
                {"tile 13x32", 1024, 256, "b at 1: 1:8 0:1024 1:32", 1 * kMiB}},
           Case{kAvx512,
                kSmallCaches,
                1,
                1024,
                {"tile 13x32", 256, 256, "b at 2: 1:8 0:256 1:32", 256 * kKiB}},
           // Of 2 MiB half is as much as may stay; the near third level feeds all of it.
           Case{kAvx512,
                kLargeCaches,
                2,
                2048,
                {"tile 6x64", 1024, 256, "b at 2: 1:4 0:1024 1:64", 1 * kMiB}},
           Case{kAvx512,
                kSmallCaches,
                2,
                2048,
                {"tile 14x32", 2048, 256, "b at 1: 1:8 0:2048 1:32", 2 * kMiB}},
           // Vectors of half the bytes have half the registers.
           Case{kAvx2,
                kLargeCaches,
                2,
                1024,
                {"tile 6x16", 1024, 128, "b at 1: 1:8 0:1024 1:16", 512 * kKiB}},
           Case{kAvx2,
                kSmallCaches,
                2,
                1024,
                {"tile 6x16", 1024, 128, "b at 1: 1:8 0:1024 1:16", 512 * kKiB}},
           Case{kAvx2,
                kLargeCaches,
                2,
                2048,
                {"tile 6x16", 1024, 256, "b at 2: 1:16 0:1024 1:16", 1 * kMiB}},
           Case{kAvx2,
                kSmallCaches,
                2,
                2048,
                {"tile 6x16", 256, 256, "b at 2: 1:16 0:256 1:16", 256 * kKiB}},
       }) {
    SCOPED_TRACE(
        concat(one.arch, ", L2 ", one.caches.l2_bytes, ", ", one.threads, " threads, ", one.size));
    expect_blocks(f32_blocks(one.size, target_with(one.arch, one.caches, one.threads)),
                  one.expected);
  }
}

// The cause is the second level: it alone is changed, in either direction.
TEST(CpuPlans, TheSecondLevelAloneDecidesTheDepth) {
  const Target large = target_with(kAvx512, kLargeCaches, 1);
  const Target small = target_with(kAvx512, kSmallCaches, 1);
  EXPECT_EQ(f32_blocks(1024, with_second_level(large, 1 * kMiB)).depth, 256);
  EXPECT_EQ(f32_blocks(1024, large).depth, 1024);
  EXPECT_EQ(f32_blocks(1024, with_second_level(small, 2 * kMiB)).depth, 1024);
  EXPECT_EQ(f32_blocks(1024, small).depth, 256);
}

// Of bf16: a tile's rows stay in the first level, or the blocks of a unit on tiles do.
TEST(CpuPlans, BlocksOfUnitsFollowTheFirstLevel) {
  struct Case {
    const char* arch;
    const CacheSizes& caches;
    Blocks expected;
  };
  for (const Case& one : {
           Case{kAvx512,
                kLargeCaches,
                {"unit 6x64", 2048, 256, "b at 1: 1:4 0:1024 1:64 0:2", 1 * kMiB}},
           Case{kAvx512,
                kSmallCaches,
                {"unit 6x64", 1024, 256, "b at 2: 1:4 0:512 1:64 0:2", 512 * kKiB}},
           Case{kTiles,
                kLargeCaches,
                {"unit 32x32", 256, 512, "a at 3: 0:32 1:8 0:16 1:32; b at 3: 1:32 0:128 1:16 0:2",
                 512 * kKiB}},
       }) {
    SCOPED_TRACE(concat(one.arch, ", L1 ", one.caches.l1_data_bytes));
    const Target target = target_with(one.arch, one.caches, 2);
    expect_blocks(blocks_of(matmul(2048, target, DType::kBF16), target), one.expected);
  }
  CacheSizes changed = kLargeCaches;
  changed.l1_data_bytes = kSmallCaches.l1_data_bytes;
  for (const auto& [arch, depth] : {std::pair(kAvx512, 1024), {kTiles, 160}}) {
    const Target target = target_with(arch, changed, 2);
    EXPECT_EQ(blocks_of(matmul(2048, target, DType::kBF16), target).depth, depth) << arch;
  }
}

TEST(CpuPlans, RegisterTilesFillTheRegistersThereAre) {
  for (const auto& [arch, registers] : {std::pair(kAvx2, 16), {kAvx512, 32}}) {
    for (const CacheSizes& caches : {kLargeCaches, kSmallCaches}) {
      const Target target = target_with(arch, caches, 2);
      EXPECT_EQ(target.vector_registers, registers);
      for (const int64_t size : {1024, 2048}) {
        const Kernel kernel = matmul(size, target);
        const PlanChoice choice = choose_plans(kernel, target, 1).at(0);
        int64_t rows = 0;
        int64_t vectors = 0;
        for (const Part& part : choice.plan.comps.at(0).parts) {
          if (part.role != Role::kSeq) continue;
          if (part.axis == 0) rows = part.step;
          if (part.axis == 1) vectors = part.step * 4 / target.max_vector_bytes;
        }
        const int64_t used = rows * vectors + vectors + 1;
        EXPECT_LT(used, registers) << to_text(choice.plan, kernel);
        EXPECT_GE(used, 3 * registers / 4) << to_text(choice.plan, kernel);
      }
    }
  }
}

// An output as large as the third level, at most 32 MiB, passes by the caches.
TEST(CpuPlans, StoresPassByFromAThresholdOfTheCaches) {
  const auto passes = [](int64_t bytes, const Target& target) {
    const Kernel kernel = prepare_kernel(
        parse_kernel(concat("kernel doubled {\n  in x: f32[", bytes / 4, "]\n  out y: f32[",
                            bytes / 4, "]\n  y[i] = x[i] + x[i]  over i:", bytes / 4, "\n}"),
                     "test"),
        target);
    const Plan plan = choose_plan(kernel, target);
    return plan.comps.at(0).store == StoreKind::kNonTemporal;
  };
  CacheSizes half = kSmallCaches;
  half.l3_bytes /= 2;
  for (const auto& [caches, threshold] :
       {std::pair(kLargeCaches, 32 * kMiB), {kSmallCaches, 32 * kMiB}, {half, 16 * kMiB}}) {
    const Target target = target_with(kAvx512, caches, 2);
    SCOPED_TRACE(threshold);
    EXPECT_FALSE(passes(threshold - 4096, target));
    EXPECT_TRUE(passes(threshold, target));
  }
}

}  // namespace
}  // namespace tenon::cpu
