// Reductions and matmul against NumPy, and their errors. SPDX-License-Identifier: MIT

#include <limits>
#include <tuple>

#include "tenon/ir/eval_op.h"
#include "tenon/tensor/creation.h"
#include "tests/support/expect_error.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

using testing::Array;
using testing::array_of;
using testing::expect_array;
using testing::expect_table;
using testing::table_tensor;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;

TEST(Reduce, FloatsAsNumpy) {
  const Tensor x = table_tensor("x");
  const std::pair<const char*, Axes> kCases[] = {
      {"all", kAllAxes}, {"0", 0}, {"m1", -1}, {"02", {0, 2}}};
  for (const auto& [name, axes] : kCases) {
    const std::string suffix = concat("_", name);
    expect_table(x.sum(axes), "sum" + suffix);
    expect_table(x.prod(axes), "prod" + suffix);
    expect_table(x.mean(axes), "mean" + suffix);
    expect_table(x.var(axes), "var" + suffix);
    expect_table(x.std(axes, 1), "std1" + suffix);
    expect_table(x.max(axes), "max" + suffix);
    expect_table(x.min(axes), "min" + suffix);
  }
}

TEST(Reduce, ShapesFollowAxesAndKeepdims) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(x.sum().shape(), Shape{});
  EXPECT_EQ(x.sum(-2).shape(), (Shape{2, 4}));
  EXPECT_EQ(x.sum({2, 0}, {.keepdims = true, .dtype = {}}).shape(), (Shape{1, 3, 1}));
  EXPECT_EQ(x.sum(kAllAxes, {.keepdims = true, .dtype = {}}).shape(), (Shape{1, 1, 1}));
  EXPECT_EQ(x.sum({}).shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(x.argmax(1, {.keepdims = true, .dtype = {}}).shape(), (Shape{2, 1, 4}));
  EXPECT_EQ(x.argmax({}, {.keepdims = true, .dtype = {}}).shape(), (Shape{1, 1, 1}));
  EXPECT_ERROR(x.sum(3), kInvalid, "axis 3", "(2,3,4)");
  EXPECT_ERROR(x.max({0, -3}), kInvalid, "twice", "(2,3,4)");
  EXPECT_ERROR(x.argmax(3), kInvalid, "argmax", "(2,3,4)");
}

TEST(Reduce, IntegersAsNumpy) {
  for (const char* const name : {"int8", "uint8", "int16", "uint32", "int64"}) {
    const std::string prefix = concat("ints_", name);
    const Tensor x = table_tensor(prefix);
    expect_table(x.sum(1), prefix + "_sum");
    expect_table(x.prod(0), prefix + "_prod");
    expect_table(x.max(1), prefix + "_max");
    expect_table(x.argmin(0), prefix + "_argmin");
    expect_table(x.mean(1), prefix + "_mean");
  }
  expect_table(table_tensor("flags").sum(0), "flags_sum");
  expect_table(table_tensor("flags").argmax(0), "flags_argmax");
}

TEST(Reduce, NanAndInfinityAsNumpy) {
  const Tensor x = table_tensor("special");
  expect_table(x.max(1), "special_max");
  expect_table(x.min(1), "special_min");
  expect_table(x.argmax(1), "special_argmax");
  expect_table(x.argmin(1), "special_argmin");
  expect_table(x.argmax(), "special_argmax_all");
  expect_table(x.any(0), "special_any");
  expect_table(x.all(1), "special_all");
}

TEST(Reduce, NarrowFloatsAccumulateInFloat32) {
  const Tensor half = table_tensor("half");
  EXPECT_EQ(half.sum(1).dtype(), DType::kF16);
  expect_table(half.sum(1), "half_sum");
  expect_table(half.mean(1), "half_mean");
  expect_table(half.var(1), "half_var");
  // The sum overflows f16, mean and variance (2048 / 3) do not.
  const Tensor large({40000.0F, 40032.0F, 40064.0F}, {.dtype = DType::kF16, .device = nullptr});
  EXPECT_EQ(large.mean().astype(DType::kF32).item<float>(), 40032);
  EXPECT_EQ(large.var().astype(DType::kF32).item<float>(), 682.5F);
}

// Sums that float32 holds exactly; a narrow accumulator would lose most of the terms.
TEST(Reduce, NarrowSumsAreRoundedOnce) {
  for (const auto& [dtype, count, steps] :
       {std::tuple{DType::kF16, 4096, 8}, {DType::kBF16, 300, 1}, {DType::kBF16, 5000, 4}}) {
    std::vector<double> values;
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<double>(37 * i % 31) / steps);
      sum += values.back();
    }
    const Tensor x = Tensor::from_data(values, {count}, {.dtype = dtype, .device = nullptr}).sum();
    expect_array(x, Array{dtype, {}, {double_to_float(sum, dtype)}});
  }
}

TEST(Reduce, DtypeOfTheResultCanBeChosen) {
  const Tensor x({int8_t{100}, int8_t{100}});
  EXPECT_EQ(x.sum().dtype(), DType::kI64);
  EXPECT_EQ(Tensor({uint8_t{1}}).sum().dtype(), DType::kU64);
  EXPECT_EQ(Tensor({true}).prod().dtype(), DType::kI64);
  expect_array(x.sum(kAllAxes, {.keepdims = false, .dtype = DType::kI32}), array_of({}, {200}));
  expect_array(x.sum(kAllAxes, {.keepdims = false, .dtype = DType::kI8}),
               array_of<int8_t>({}, {-56}));
  expect_array(x.argmax({}, {.keepdims = false, .dtype = DType::kI32}), array_of({}, {0}));
  EXPECT_EQ(x.mean(kAllAxes, {.keepdims = false, .dtype = DType::kF64}).item<double>(), 100);
  EXPECT_ERROR(x.sum(kAllAxes, {.keepdims = false, .dtype = DType::kBool}), kInvalid, "sum",
               "bool");
  EXPECT_ERROR(x.mean(kAllAxes, {.keepdims = false, .dtype = DType::kI32}), kInvalid, "mean",
               "int32");
}

TEST(Reduce, EmptyAxes) {
  const Tensor none = zeros({2, 0});
  expect_array(none.sum(1), array_of({2}, {0.0F, 0.0F}));
  expect_array(none.prod(1), array_of({2}, {1.0F, 1.0F}));
  expect_array(none.any(1), array_of({2}, {false, false}));
  expect_array(none.all(1), array_of({2}, {true, true}));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_array(none.mean(1), array_of({2}, {nan, nan}));
  EXPECT_EQ(none.sum(0).shape(), Shape{0});
  EXPECT_ERROR(none.max(1), kInvalid, "max", "(2,0)");
  EXPECT_ERROR(none.argmin(), kInvalid, "argmin", "(0)");
  expect_array(full({}, 5.0).sum({}), array_of({}, {5.0F}));
  expect_array(full({}, 5.0).argmax(), array_of<int64_t>({}, {0}));
}

TEST(Reduce, ArgmaxTakesTheFirst) {
  expect_array(Tensor({3, 7, 7, 1}).argmax(), array_of<int64_t>({}, {1}));
  expect_array(Tensor({3, 1, 7, 1}).argmin(), array_of<int64_t>({}, {1}));
  expect_array(Tensor({-0.0F, 0.0F}).argmax(), array_of<int64_t>({}, {0}));
  expect_array(Tensor({{1, 5, 5}, {9, 2, 9}}).argmax(-1), array_of<int64_t>({2}, {1, 0}));
}

TEST(Cumsum, AsNumpy) {
  expect_table(table_tensor("x").cumsum(1), "x_cumsum");
  EXPECT_EQ(table_tensor("half").cumsum(-1).dtype(), DType::kF16);
  expect_table(table_tensor("half").cumsum(-1), "half_cumsum");
  for (const std::string name : {"ints_int8", "ints_uint8", "flags"})
    expect_table(table_tensor(name).cumsum(), name + "_cumsum");
  expect_array(Tensor({100, 100}).cumsum(0, DType::kI8), array_of<int8_t>({2}, {100, -56}));
  EXPECT_EQ(zeros({2, 0}).cumsum(1).to_vector<float>().size(), 0U);
  expect_array(zeros({2, 1}).cumsum(1), array_of({2, 1}, {0.0F, 0.0F}));
}

TEST(Cumsum, StaysInTheRow) {
  const float inf = std::numeric_limits<float>::infinity();
  expect_array(Tensor({{1.0F, inf, 2.0F}, {3.0F, 4.0F, -inf}}).cumsum(1),
               array_of({2, 3}, {1.0F, inf, inf, 3.0F, 7.0F, -inf}));
  std::vector<int64_t> expected(1000);
  for (int64_t i = 0; i < 1000; ++i)
    expected[static_cast<size_t>(i)] = i * (i + 1) / 2;
  EXPECT_EQ(arange(1000).cumsum().to_vector<int64_t>(), expected);
  EXPECT_ERROR(zeros({2, 3}).cumsum(2), kInvalid, "cumsum", "(2,3)");
  EXPECT_ERROR(zeros({2, 3}).cumsum(0, DType::kBool), kInvalid, "cumsum", "bool");
}

TEST(Matmul, AsNumpy) {
  const Tensor m = table_tensor("m");
  const Tensor v = table_tensor("v");
  expect_table(m.matmul(table_tensor("n")), "m_n");
  expect_table(m.matmul(v), "m_v");
  expect_table(table_tensor("w").matmul(m), "w_m");
  expect_table(v.matmul(v), "v_v");
  expect_table(v.dot(v), "v_v");
  expect_table(table_tensor("mi").matmul(table_tensor("ni")), "mi_ni");
  expect_table(table_tensor("mi").matmul(table_tensor("ni"), DType::kI32), "mi_ni_i32");
  const Tensor half = table_tensor("mh").matmul(table_tensor("nh"));
  EXPECT_EQ(half.dtype(), DType::kF16);
  expect_table(half, "mh_nh");
}

TEST(Matmul, OfBoolIsAnyOfAnd) {
  const Tensor a({{true, false}, {false, false}});
  const Tensor b({{false, true}, {true, true}});
  expect_array(a.matmul(b), array_of({2, 2}, {false, true, false, false}));
}

TEST(Matmul, ErrorsNameBothShapes) {
  EXPECT_ERROR(zeros({4, 8}).matmul(zeros({16, 2})), kInvalid, "(4,8)", "(16,2)", "inner");
  EXPECT_ERROR(zeros({2, 4, 8}).matmul(zeros({3, 8, 2})), kInvalid, "(2,4,8)", "(3,8,2)", "batch");
  EXPECT_ERROR(zeros({4}).matmul(zeros({3})), kInvalid, "(4)", "(3)");
  EXPECT_ERROR(full({}, 1.0).matmul(zeros({3})), kInvalid, "0-d", "(3)");
  EXPECT_ERROR(zeros({4, 4}).dot(zeros({4})), kInvalid, "dot", "(4,4)");
}

}  // namespace
}  // namespace tenon
