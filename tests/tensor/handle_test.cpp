// The handle: from data and back, realize, copies, devices, and the errors of each.
// SPDX-License-Identifier: MIT

#include <array>
#include <thread>

#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/creation.h"
#include "tests/support/expect_error.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

using testing::array_of;
using testing::expect_array;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;

TEST(Tensor, LiteralsGiveShapeAndDtype) {
  const Tensor x = {1, 2, 3};
  EXPECT_EQ(x.shape(), (Shape{3}));
  EXPECT_EQ(x.dtype(), DType::kI32);
  EXPECT_EQ(x.to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3}));
  const Tensor y({{1.5F, -2.0F}, {3.0F, 4.0F}, {5.0F, 6.0F}});
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
  EXPECT_EQ(y.dtype(), DType::kF32);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1.5F, -2.0F, 3, 4, 5, 6}));
  const Tensor z({true, false, true});
  EXPECT_EQ(z.to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_ERROR(Tensor({{1, 2}, {3}}), kInvalid, "rows differ", "2");
}

TEST(Tensor, EveryElementTypeComesBack) {
  const auto check = [](auto first, auto second) {
    using T = decltype(first);
    const std::vector<T> values = {first, second};
    EXPECT_EQ(Tensor::from_data(values, {2, 1}).template to_vector<T>(), values);
  };
  check(int8_t{-128}, int8_t{127});
  check(int16_t{-3}, int16_t{300});
  check(int32_t{-3}, int32_t{1 << 30});
  check(int64_t{-3}, int64_t{1} << 62);
  check(uint8_t{0}, uint8_t{255});
  check(uint16_t{1}, uint16_t{65535});
  check(uint32_t{1}, uint32_t{0xffffffff});
  check(uint64_t{1}, ~uint64_t{0});
  check(1.25F, -0.5F);
  check(1.25, -1e300);
}

TEST(Tensor, AConstantIsAValueLikeAnyOther) {
  const Tensor x = {{1, 2}, {3, 4}};
  Tensor w = Tensor{{5, 6}, {7, 8}} + 1;
  const Tensor before = x.matmul(w);
  EXPECT_EQ(&w.set_constant(), &w);
  EXPECT_EQ(w.to_vector<int>(), (std::vector<int>{6, 7, 8, 9}));
  EXPECT_EQ(before.to_vector<int>(), (std::vector<int>{22, 25, 50, 57}));
  EXPECT_EQ(x.matmul(w).to_vector<int>(), (std::vector<int>{22, 25, 50, 57}));
  const Tensor copy = w;
  w.assign(x);
  EXPECT_EQ(x.matmul(copy).to_vector<int>(), (std::vector<int>{22, 25, 50, 57}));
  EXPECT_EQ(x.matmul(w).to_vector<int>(), (std::vector<int>{7, 10, 15, 22}));
  EXPECT_ERROR(Tensor().set_constant(), ErrorCode::kInvalidArgument, "has no value");
}

TEST(Tensor, DataIsConvertedToTheDtypeAskedFor) {
  const Tensor x({1.0F, 2.5F, -70000.0F, 1e-8F}, {.dtype = DType::kF16});
  EXPECT_EQ(x.dtype(), DType::kF16);
  // 1, 2.5, overflow to -inf, underflow to 0: IEEE binary16.
  const std::vector<uint16_t> bits = x.bitcast(DType::kU16).to_vector<uint16_t>();
  EXPECT_EQ(bits, (std::vector<uint16_t>{0x3c00, 0x4100, 0xfc00, 0x0000}));
}

TEST(Tensor, ReadingChecksTheType) {
  const Tensor x = {1, 2};
  EXPECT_ERROR(x.to_vector<float>(), kInvalid, "int32", "float32");
  EXPECT_ERROR(x.item<int32_t>(), kInvalid, "item", "2 elements");
  EXPECT_ERROR(full({1}, 3).item<double>(), kInvalid, "int64", "float64");
  EXPECT_EQ(full({1, 1}, 3).item<int64_t>(), 3);
  EXPECT_EQ(full({}, true).item<bool>(), true);
}

TEST(Tensor, DataMustFillTheShape) {
  const std::array values{1, 2, 3};
  EXPECT_ERROR(Tensor::from_data(values, {2, 2}), kInvalid, "3 elements", "(2,2)");
  EXPECT_ERROR(Tensor::from_data(values, {-1}), kInvalid, "negative", "(-1)");
}

TEST(Tensor, NullHandleSaysSo) {
  Tensor x;
  EXPECT_TRUE(x.is_null());
  EXPECT_ERROR(x.shape(), kInvalid, "no value", "default-constructed");
  EXPECT_ERROR(x + 1, kInvalid, "no value", "default-constructed");
  EXPECT_ERROR(x.realize(), kInvalid, "no value", "default-constructed");
}

TEST(Tensor, ShapeQueries) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(x.ndim(), 3);
  EXPECT_EQ(x.size(), 24);
  EXPECT_EQ(x.dim(-1), 4);
  EXPECT_EQ(x.dim(0), 2);
  EXPECT_ERROR(x.dim(3), kInvalid, "dim", "out of range");
}

TEST(Tensor, RealizeReplacesTheGraphByALeaf) {
  Tensor x = {1.0F, 2.0F, 3.0F};
  Tensor y = x * 2 + 1;
  const Tensor lazy = y;
  EXPECT_EQ(y.node().op(), Op::kAdd);
  y.realize();
  EXPECT_EQ(y.node().op(), Op::kBuffer);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ(lazy.to_vector<float>(), (std::vector<float>{3, 5, 7}));
  EXPECT_EQ((y - 1).to_vector<float>(), (std::vector<float>{2, 4, 6}));
}

TEST(Tensor, SeveralAreRealizedTogether) {
  const Tensor x = {1, 2, 3};
  Tensor a = x + 1;
  Tensor b = x.sum();
  realize({&a, &b});
  EXPECT_EQ(a.node().op(), Op::kBuffer);
  EXPECT_EQ(b.node().op(), Op::kBuffer);
  EXPECT_EQ(a.to_vector<int32_t>(), (std::vector<int32_t>{2, 3, 4}));
  EXPECT_EQ(b.item<int64_t>(), 6);
  std::vector<Tensor> list = {x * 2, x - 1};
  realize(list);
  EXPECT_EQ(list[0].to_vector<int32_t>(), (std::vector<int32_t>{2, 4, 6}));
  EXPECT_EQ(list[1].to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 2}));
}

TEST(Tensor, AssignTakesAValueOfTheSameKind) {
  Tensor x = {1.0F, 2.0F};
  const Tensor before = x;
  x.assign(x + x);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 4}));
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_ERROR(x.assign(Tensor({1.0F})), kInvalid, "(2)", "(1)");
  EXPECT_ERROR(x.assign(Tensor({1, 2})), kInvalid, "float32", "int32");
}

TEST(Tensor, DevicesByName) {
  Device& device = Device::get_default();
  const Tensor x({1.0F, 2.0F}, {.dtype = {}, .device = &device});
  EXPECT_EQ(&x.device(), &device);
  EXPECT_EQ(x.to(device).node(), x.node());  // nothing to do
  EXPECT_EQ(zeros({2}, {.dtype = {}, .device = &device}).to_vector<float>(),
            (std::vector<float>{0, 0}));
  EXPECT_ERROR(x.to("NOSUCHDEVICE"), kInvalid, "NOSUCHDEVICE", "");
}

TEST(Tensor, ContiguousKeepsTheValue) {
  const Tensor x({{1, 2}, {3, 4}});
  EXPECT_EQ(x.transpose().contiguous().to_vector<int32_t>(), (std::vector<int32_t>{1, 3, 2, 4}));
}

TEST(Tensor, ThreadsWorkOnTheirOwnTensors) {
  std::vector<std::thread> threads;
  std::array<int64_t, 4> sums{};
  for (size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([t, &sums] {
      Tensor x = arange(100);
      for (int i = 0; i < 5; ++i)
        x = x + static_cast<int64_t>(t);
      sums[t] = x.sum().item<int64_t>();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (size_t t = 0; t < sums.size(); ++t)
    EXPECT_EQ(sums[t], 4950 + 500 * static_cast<int64_t>(t));
}

TEST(Tensor, CastFollowsTheConversionRules) {
  const Tensor x({-1.5F, 300.7F, 1e20F, -1e20F, 0.5F});
  expect_array(x.astype(DType::kU8), array_of<uint8_t>({5}, {0, 255, 255, 0, 0}));
  expect_array(x.astype(DType::kBool), array_of<bool>({5}, {true, true, true, true, true}));
  expect_array(x.astype(DType::kI32),
               array_of<int32_t>({5}, {-1, 300, 2147483647, -2147483647 - 1, 0}));
  EXPECT_ERROR(x.bitcast(DType::kF64), kInvalid, "bitcast", "widths differ");
}

}  // namespace
}  // namespace tenon
