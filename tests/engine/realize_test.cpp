// From tensor graphs to values on the CPU: expected values are computed here with plain loops.
// SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using testing::realized;
using testing::values_of;

class Realize : public EngineTest {};

/// Values that differ from each other and are exact in f32.
std::vector<float> ramp(size_t count, float scale, float start) {
  std::vector<float> values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(start + scale * static_cast<float>(i % 509));
  return values;
}

TEST_F(Realize, AddsArraysOfEverySizeAroundTheVectorWidth) {
  for (const int64_t size : {1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 127, 1000, 4099}) {
    const auto a = ramp(static_cast<size_t>(size), 0.5f, -3.0f);
    const auto b = ramp(static_cast<size_t>(size), -2.25f, 100.0f);
    const Shape shape{size};
    const Node sum = tensor_binary(Op::kAdd, buffer_of(a, shape), buffer_of(b, shape));
    RealizeStats stats;
    const auto got = realized<float>(sum, &stats);
    ASSERT_EQ(got.size(), a.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_EQ(got[i], a[i] + b[i]) << size << ", " << i;
    EXPECT_EQ(stats.kernels, 1);
  }
}

/// x + x for every arithmetic dtype, integers wrapping.
template <typename T>
void expect_sums_wrap() {
  std::vector<T> x;
  for (int i = 0; i < 100; ++i)
    x.push_back(static_cast<T>(i * 37 - 1500 + (i % 3 == 0 ? 90 : 0)));
  x.push_back(std::numeric_limits<T>::max());
  x.push_back(std::numeric_limits<T>::lowest());
  const Node node = buffer_of(x, {102});
  const Node one = buffer_of(std::vector<T>(102, T{1}), {102});
  const auto got = realized<T>(tensor_binary(Op::kSub, tensor_binary(Op::kAdd, node, node), one));
  for (size_t i = 0; i < x.size(); ++i) {
    T expected{};
    if constexpr (std::is_integral_v<T>) {
      const auto wide = static_cast<uint64_t>(x[i]);
      expected = static_cast<T>(wide + wide - 1);
    } else {
      expected = x[i] + x[i] - T{1};
    }
    ASSERT_EQ(got[i], expected) << i;
  }
}

TEST_F(Realize, EveryArithmeticDtypeWraps) {
  expect_sums_wrap<int8_t>();
  expect_sums_wrap<int16_t>();
  expect_sums_wrap<int32_t>();
  expect_sums_wrap<int64_t>();
  expect_sums_wrap<uint8_t>();
  expect_sums_wrap<uint16_t>();
  expect_sums_wrap<uint32_t>();
  expect_sums_wrap<uint64_t>();
  expect_sums_wrap<float>();
  expect_sums_wrap<double>();
}

/// Sums of whole numbers around 2^precision, where a sum is rounded to even: bits by hand.
TEST_F(Realize, NarrowFloatsRoundEachSumToEven) {
  struct Case {
    DType dtype;
    uint16_t large;  // 2^p, the first whole number whose successor is not there
    uint16_t one;
    uint16_t three;
    uint16_t plus_two;  // 2^p + 2
    uint16_t plus_four;
  };
  const Case cases[] = {{DType::kF16, 0x6800, 0x3c00, 0x4200, 0x6801, 0x6802},
                        {DType::kBF16, 0x4380, 0x3f80, 0x4040, 0x4381, 0x4382}};
  for (const char* name : {"CPU", "CPU:0::x86_64", "CPU:CLANG:x86_64"}) {
    Device& device = Device::get(name);
    for (const Case& c : cases) {
      const std::vector<uint16_t> a = {c.large, c.large, c.one, c.large, c.plus_two};
      const std::vector<uint16_t> b = {c.one, c.three, c.three, 0, c.one};
      const Node x = buffer_of(a, {5}, device, c.dtype);
      const Node y = buffer_of(b, {5}, device, c.dtype);
      // 2^p + 1 is a tie and goes down, 2^p + 3 goes up, 2^p + 2 + 1 goes up.
      const auto got = realized<uint16_t>(tensor_binary(Op::kAdd, x, y));
      EXPECT_EQ(got[0], c.large) << name;
      EXPECT_EQ(got[1], c.plus_four) << name;
      EXPECT_EQ(got[2], c.dtype == DType::kF16 ? 0x4400 : 0x4080) << name;
      EXPECT_EQ(got[3], c.large) << name;
      EXPECT_EQ(got[4], c.plus_four) << name;
      // Fused or not, each op rounds: (2^p + 1) + 1 stays 2^p.
      const Node again = tensor_binary(Op::kAdd, tensor_binary(Op::kAdd, x, y), y);
      EXPECT_EQ(realized<uint16_t>(again)[0], c.large) << name;
    }
  }
}

TEST_F(Realize, BoolsAreZeroOrOneBytes) {
  const Node x = buffer_of<int32_t>({5, -1, 0, 7, 3}, {5});
  const Node y = buffer_of<int32_t>({5, 0, 0, 9, -3}, {5});
  const Node less = tensor_binary(Op::kLt, x, y);
  EXPECT_EQ(realized<uint8_t>(less), (std::vector<uint8_t>{0, 1, 0, 1, 0}));
  EXPECT_EQ(realized<uint8_t>(tensor_unary(Op::kNot, less)), (std::vector<uint8_t>{1, 0, 1, 0, 1}));
  EXPECT_EQ(realized<int32_t>(tensor_where(less, x, y)), (std::vector<int32_t>{5, -1, 0, 7, -3}));
}

TEST_F(Realize, ReducesOverEachAxis) {
  const int64_t rows = 37;
  const int64_t columns = 53;
  const auto x = ramp(static_cast<size_t>(rows * columns), 0.25f, -20.0f);  // sums are exact
  const Node node = buffer_of(x, {rows, columns});
  for (const int64_t axis : {0, 1}) {
    const int64_t axes[] = {axis};
    const auto sum = realized<float>(tensor_reduce(Op::kAdd, node, axes, DType::kF32));
    const auto max = realized<float>(tensor_reduce(Op::kMax, node, axes, DType::kF32));
    const int64_t kept = axis == 0 ? columns : rows;
    ASSERT_EQ(sum.size(), static_cast<size_t>(kept));
    for (int64_t i = 0; i < kept; ++i) {
      float expected_sum = 0;
      float expected_max = -std::numeric_limits<float>::infinity();
      for (int64_t j = 0; j < rows * columns / kept; ++j) {
        const auto at = static_cast<size_t>(axis == 0 ? j * columns + i : i * columns + j);
        expected_sum += x[at];
        expected_max = std::max(expected_max, x[at]);
      }
      ASSERT_EQ(sum[static_cast<size_t>(i)], expected_sum) << axis << " " << i;
      ASSERT_EQ(max[static_cast<size_t>(i)], expected_max) << axis << " " << i;
    }
  }
}

TEST_F(Realize, ViewsReadTheRightPlaces) {
  const auto x = ramp(60, 1.0f, 3.0f);
  const Node node = buffer_of(x, {5, 12});
  // Transposed, its rows reversed, one row and column of padding (value -7), then columns 1 to 4.
  const int64_t axes[] = {1, 0};
  const int64_t flips[] = {1, 0};
  const int64_t before[] = {1, 0};
  const int64_t after[] = {0, 1};
  const int64_t begin[] = {0, 1};
  const int64_t end[] = {13, 5};
  Node view = tensor_flip(tensor_permute(node, axes), flips);
  view = tensor_pad(view, before, after, 0xc0e00000);  // -7.0f
  view = tensor_shrink(view, begin, end);
  const auto got = realized<float>(view);
  ASSERT_EQ(got.size(), 13u * 4u);
  for (size_t i = 0; i < 13; ++i) {
    for (size_t j = 0; j < 4; ++j) {
      const float expected = i == 0 ? -7.0f : x[(j + 1) * 12 + (11 - (i - 1))];
      ASSERT_EQ(got[i * 4 + j], expected) << i << "," << j;
    }
  }
}

TEST_F(Realize, MatmulIsAReductionOfAProduct) {
  const int64_t m = 19;
  const int64_t k = 33;
  const int64_t n = 21;
  const auto a = ramp(static_cast<size_t>(m * k), 1.0f, -100.0f);
  const auto b = ramp(static_cast<size_t>(k * n), -1.0f, 50.0f);
  const int64_t a_shape[] = {m, k, 1};
  const int64_t b_shape[] = {1, k, n};
  const int64_t full[] = {m, k, n};
  const int64_t axes[] = {1};
  const Node left = tensor_expand(tensor_reshape(buffer_of(a, {m, k}), a_shape), full);
  const Node right = tensor_expand(tensor_reshape(buffer_of(b, {k, n}), b_shape), full);
  RealizeStats stats;
  const auto got = realized<float>(
      tensor_reduce(Op::kAdd, tensor_binary(Op::kMul, left, right), axes, DType::kF32), &stats);
  EXPECT_EQ(stats.kernels, 1);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double expected = 0;
      for (int64_t l = 0; l < k; ++l) {
        expected += static_cast<double>(a[static_cast<size_t>(i * k + l)]) *
                    static_cast<double>(b[static_cast<size_t>(l * n + j)]);
      }
      ASSERT_EQ(static_cast<double>(got[static_cast<size_t>(i * n + j)]), expected)
          << i << "," << j;
    }
  }
}

TEST_F(Realize, ConstantsScalarsAndEmptyArrays) {
  const Node constant = tensor_const(DType::kI32, static_cast<uint64_t>(int64_t{-12}));
  EXPECT_EQ(realized<int32_t>(constant), std::vector<int32_t>{-12});
  const int64_t shape[] = {7};
  const auto positions = realized<int64_t>(tensor_index(DType::kI64, shape, 0));
  EXPECT_EQ(positions, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  const Node empty = buffer_of(std::vector<float>(), {3, 0});
  RealizeStats stats;
  EXPECT_TRUE(realized<float>(tensor_binary(Op::kMul, empty, empty), &stats).empty());
  EXPECT_EQ(stats.kernels, 0);
  // A sum over no elements is +0, bit for bit.
  const int64_t axes[] = {1};
  const Node sum = tensor_reduce(Op::kAdd, empty, axes, DType::kF32);
  EXPECT_EQ(realized<uint32_t>(sum), (std::vector<uint32_t>{0, 0, 0}));
}

TEST_F(Realize, ValuesAreKeptAndGraphsStartThere) {
  const Node x = buffer_of(ramp(100, 1.0f, 1.0f), {100});
  const Node y = tensor_binary(Op::kMul, x, x);
  RealizeStats stats;
  realized<float>(y, &stats);
  EXPECT_EQ(stats.kernels, 1);
  realized<float>(y, &stats);
  EXPECT_EQ(stats.kernels, 1);
  const Node z = tensor_binary(Op::kAdd, y, x);
  const auto got = realized<float>(z, &stats);
  EXPECT_EQ(stats.kernels, 2);
  EXPECT_EQ(got[9], 110.0f);
  const Node leaf = realized_leaf(z);
  EXPECT_EQ(leaf.op(), Op::kBuffer);
  EXPECT_EQ(values_of<float>(leaf), got);
  EXPECT_EQ(realized_leaf(leaf), leaf);
  EXPECT_EQ(device_of(z), &Device::get_default());
  EXPECT_EQ(device_of(tensor_const(DType::kF32, 0)), nullptr);
}

TEST_F(Realize, SeveralOutputsAreOneSchedule) {
  const Node x = buffer_of(ramp(64, 1.0f, 1.0f), {64});
  const Node y = tensor_contiguous(tensor_binary(Op::kMul, x, x));
  const Node nodes[] = {tensor_binary(Op::kAdd, y, x), tensor_binary(Op::kSub, y, x), x, y};
  RealizeStats stats;
  realize(nodes, nullptr, &stats);
  EXPECT_EQ(stats.kernels, 3);
  EXPECT_EQ(values_of<float>(nodes[0])[7], 72.0f);
  EXPECT_EQ(values_of<float>(nodes[1])[7], 56.0f);
  EXPECT_EQ(values_of<float>(nodes[3])[7], 64.0f);
  const int64_t sum_ns = stats.schedule_ns + stats.lower_ns + stats.compile_ns + stats.load_ns +
                         stats.copy_in_ns + stats.launch_ns + stats.kernel_ns + stats.copy_out_ns;
  EXPECT_GT(sum_ns, 0);
  EXPECT_GE(total_stats().kernels, 3);
}

TEST_F(Realize, AssignReadsTheOldValueAndKeepsEarlierOnes) {
  const Node x = buffer_of<float>({1, 2, 3, 4}, {4});
  const int64_t flips[] = {1};
  const Node old_sum = tensor_binary(Op::kAdd, x, x);
  realized<float>(old_sum);
  // Each element reads another place of the buffer that is written.
  const Node assigned = tensor_assign(x, tensor_binary(Op::kAdd, x, tensor_flip(x, flips)));
  EXPECT_EQ(realized<float>(assigned), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_EQ(values_of<float>(x), (std::vector<float>{5, 5, 5, 5}));
  EXPECT_EQ(values_of<float>(old_sum), (std::vector<float>{2, 4, 6, 8}));
  RealizeStats stats;
  realized<float>(assigned, &stats);  // done already: not once more
  EXPECT_EQ(stats.kernels, 0);
  const Node leaf = realized_leaf(assigned);
  realized<float>(tensor_assign(leaf, tensor_binary(Op::kMul, leaf, x)));
  EXPECT_EQ(values_of<float>(leaf), (std::vector<float>{25, 25, 25, 25}));
  EXPECT_EQ(values_of<float>(assigned), (std::vector<float>{5, 5, 5, 5}));
}

// The schedule cuts the sum into pieces; values and writes belong to the nodes as they were given.
TEST_F(Realize, LongReductionsAreKnownByTheirNodes) {
  constexpr int64_t kCount = 1 << 18;
  std::vector<float> numbers;
  float total = 0;  // exact: below 2^24
  for (int64_t i = 0; i < kCount; ++i) {
    numbers.push_back(static_cast<float>(37 * i % 11));
    total += numbers.back();
  }
  const Node x = buffer_of<float>(numbers, {kCount});
  const int64_t axes[] = {0};
  const Node sum = tensor_reduce(Op::kAdd, x, axes, DType::kF32);
  const Node leaf = buffer_of<float>({1}, {1});
  const Node assigned = tensor_assign(leaf, tensor_binary(Op::kAdd, leaf, sum));
  const Node outputs[] = {assigned, sum, sum};
  RealizeStats stats;
  realize(outputs, nullptr, &stats);
  EXPECT_GE(stats.kernels, 3);
  EXPECT_EQ(values_of<float>(sum), (std::vector<float>{total}));
  EXPECT_EQ(values_of<float>(leaf), (std::vector<float>{total + 1}));
  stats = {};
  realize(outputs, nullptr, &stats);
  EXPECT_EQ(stats.kernels, 0);
  EXPECT_EQ(values_of<float>(leaf), (std::vector<float>{total + 1}));
}

TEST_F(Realize, CopiesBetweenDevices) {
  Device& cpu = Device::get("CPU:CLANG");
  Device& baseline = Device::get("CPU:CLANG:x86_64");
  const Node x = buffer_of<float>({1, -2, 3}, {3}, baseline);
  const Node doubled = tensor_binary(Op::kAdd, x, x);
  const Node moved = tensor_copy(doubled, cpu.number());
  const Node result = tensor_binary(Op::kMul, moved, buffer_of<float>({10, 20, 30}, {3}, cpu));
  EXPECT_EQ(device_of(doubled), &baseline);
  EXPECT_EQ(device_of(result), &cpu);
  EXPECT_EQ(realized<float>(result), (std::vector<float>{20, -80, 180}));
  const Node same = tensor_copy(result, cpu.number());
  EXPECT_EQ(realized<float>(same), (std::vector<float>{20, -80, 180}));
  const Node mixed = tensor_binary(Op::kAdd, x, result);
  EXPECT_ERROR(device_of(mixed), ErrorCode::kInvalidArgument, "two devices", "CPU:0:CLANG'",
               "CPU:0:CLANG:x86_64", "to()");
  const Node nodes[] = {mixed};
  EXPECT_ERROR(realize(nodes), ErrorCode::kInvalidArgument, "two devices");
}

TEST_F(Realize, GraphsWithoutBuffersGoWhereTheyAreAsked) {
  Device& baseline = Device::get("CPU:CLANG:x86_64");
  const int64_t shape[] = {5};
  const Node nodes[] = {tensor_cast(tensor_index(DType::kI32, shape, 0), DType::kF32)};
  realize(nodes, &baseline);
  EXPECT_EQ(device_of(nodes[0]), &baseline);
  EXPECT_EQ(values_of<float>(nodes[0]), (std::vector<float>{0, 1, 2, 3, 4}));
}

TEST_F(Realize, NodesWithoutAValueOrStorageAreErrors) {
  const int64_t shape[] = {3};
  const Node input = tensor_buffer(DType::kF32, shape);
  const Node nodes[] = {tensor_binary(Op::kAdd, input, input)};
  EXPECT_ERROR(realize(nodes), ErrorCode::kInvalidArgument, "no storage", "(3)", "float32");
  EXPECT_ERROR(read_bytes(nodes[0]), ErrorCode::kInvalidArgument, "no value yet");
  EXPECT_ERROR(realized_leaf(nodes[0]), ErrorCode::kInvalidArgument, "no value yet");
  const std::vector<std::byte> bytes(11);
  EXPECT_ERROR(buffer_from_bytes(Device::get_default(), DType::kF32, shape, bytes),
               ErrorCode::kInvalidArgument, "12 bytes", "11 are given");
}

TEST_F(Realize, HugeRequestsAreErrorsOfMemory) {
  const int64_t huge[] = {int64_t{1} << 37};
  const int64_t one[] = {1};
  const Node x = tensor_expand(tensor_reshape(buffer_of<float>({1}, {1}), one), huge);
  const Node nodes[] = {tensor_binary(Op::kAdd, x, x)};
  EXPECT_ERROR(realize(nodes), ErrorCode::kOutOfMemory, "512.0 GiB", Device::get_default().name(),
               "while realising add of shape (137438953472)");
}

TEST_F(Realize, IntermediatesAreFreedAfterTheirLastUse) {
  const int64_t count = int64_t{1} << 16;
  Node x = buffer_of(ramp(static_cast<size_t>(count), 1.0f, 0.0f), {count});
  const Node start = x;
  for (int i = 0; i < 40; ++i)
    x = tensor_contiguous(tensor_binary(Op::kAdd, x, start));
  const MemoryChecks before = memory_checks();
  const ScopedMemoryChecks no_guards({.poison_outputs = before.poison_outputs});
  Device& device = Device::get_default();
  const int64_t used = testing::used_bytes_of(device);
  RealizeStats stats;
  EXPECT_EQ(realized<float>(x, &stats)[3], 41.0f * 3.0f);
  EXPECT_EQ(stats.kernels, 40);
  EXPECT_LE(testing::used_bytes_of(device) - used, 2 * 4 * count);
}

}  // namespace
}  // namespace tenon
