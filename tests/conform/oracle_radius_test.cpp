// Honesty of the oracle's radii: what a right device may do stays inside, what is wrong falls
// outside, and where nothing can be said the element is excluded. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tenon/conform/oracle.h"
#include "tenon/conform/oracle_numeric.h"
#include "tenon/ir/tensor_ops.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using List = std::vector<int64_t>;

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

OracleValue run(const Node& output, const Node& buffer, const std::vector<float>& data) {
  const std::vector<std::vector<std::byte>> bytes{bytes_of(data)};
  return evaluate_oracle({&output, 1}, bind_inputs({&buffer, 1}, bytes))[0];
}

std::vector<float> random_floats(size_t count, float lo, float hi, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values)
    value = lo + (hi - lo) * (static_cast<float>(random() >> 8) * 0x1p-24F);
  return values;
}

Node buffer(int64_t size) {
  return tensor_buffer(DType::kF32, Shape{size});
}

TEST(OracleRadius, SumsInEveryOrderStayInsideAndAWrongTermFallsOutside) {
  for (const int64_t count : {3, 31, 1000, 4096}) {
    const Node x = buffer(count);
    const std::vector<float> data =
        random_floats(static_cast<size_t>(count), -1, 3, static_cast<uint32_t>(count));
    const OracleValue value = run(tensor_reduce(Op::kAdd, x, List{0}, DType::kF32), x, data);
    std::mt19937 random(7);
    std::vector<float> order = data;
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::shuffle(order.begin(), order.end(), random);
      float sum = 0;
      float lanes[4] = {};
      for (size_t i = 0; i < order.size(); ++i) {
        sum += order[i];
        lanes[i % 4] += order[i];
      }
      const float blocked = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
      EXPECT_EQ(compare(value, bytes_of(std::vector{sum})).failed, 0);
      EXPECT_EQ(compare(value, bytes_of(std::vector{blocked})).failed, 0);
    }
    float wrong = 0;
    for (size_t i = 0; i + 1 < data.size(); ++i)
      wrong += data[i];
    wrong += data.back() + (count < 4096 ? 0.5F : 3.0F);
    const Comparison comparison = compare(value, bytes_of(std::vector{wrong}));
    EXPECT_EQ(comparison.failed, 1) << count << " " << value.radius[0];
    EXPECT_NE(comparison.text.find("element (0)"), std::string::npos) << comparison.text;
  }
}

TEST(OracleRadius, FusedMultiplyAddsStayInsideASumOfProducts) {
  const int64_t count = 500;
  const Node x = buffer(count);
  const std::vector<float> data = random_floats(500, 0.5F, 1.5F, 3);
  const Node square = tensor_binary(Op::kMul, x, tensor_reshape(x, Shape{count}));
  const OracleValue value =
      run(tensor_reduce(Op::kAdd, tensor_reshape(square, Shape{count, 1}), List{0}, DType::kF32), x,
          data);
  float fused = 0;
  for (float v : data)
    fused = std::fma(v, v, fused);
  EXPECT_EQ(compare(value, bytes_of(std::vector{fused})).failed, 0);
  // Two terms whose sum is exact, but not with fused products.
  const Node pair = buffer(2);
  const std::vector<float> exact{1 + 0x1p-12F, 1};
  const Node pair_sum =
      tensor_reduce(Op::kAdd, tensor_binary(Op::kMul, pair, pair), List{0}, DType::kF32);
  EXPECT_GT(run(pair_sum, pair, exact).radius_at(0), 0);
}

// bf16 factors, widened, multiplied, summed in f32: a matrix unit may take denormals for zeros.
TEST(OracleRadius, FlushedDenormalsStayInsideASumOfBf16Products) {
  const auto sum_of = [](const std::vector<uint16_t>& a, const std::vector<uint16_t>& b,
                         bool is_widened, bool has_unit = true) {
    const Shape shape{static_cast<int64_t>(a.size())};
    const Node x = tensor_buffer(DType::kBF16, shape);
    const Node y = tensor_buffer(DType::kBF16, shape);
    const auto wide = [&](const Node& node) {
      const Node value = tensor_cast(node, DType::kF32);
      return is_widened ? value : tensor_contiguous(value);
    };
    const Node sum =
        tensor_reduce(Op::kAdd, tensor_binary(Op::kMul, wide(x), wide(y)), List{0}, DType::kF32);
    const std::vector<std::vector<std::byte>> bytes{bytes_of(a), bytes_of(b)};
    Target target;
    if (has_unit) {
      target.units = {parse_matrix_unit("bf16*bf16>f32:1x16x2/2:vectors:odd_first:flush:ready")};
    }
    return evaluate_oracle({&sum, 1},
                           bind_inputs(std::vector{x, y}, bytes, deviations_of(target)))[0];
  };
  constexpr uint16_t kOne = 0x3f80;
  constexpr uint16_t kDenormal = 0x0040;  // 2^-127
  constexpr uint16_t kLarge = 0x7e80;     // 2^126
  constexpr uint16_t kTiny = 0x1f80;      // 2^-64
  constexpr uint16_t kInf = 0x7f80;
  // 1 * 1 + 2^-127 * 2^126: 1.5, or 1 where the denormal is flushed.
  const OracleValue flushed = sum_of({kOne, kDenormal}, {kOne, kLarge}, true);
  EXPECT_EQ(flushed.bits[0], std::bit_cast<uint32_t>(1.5F));
  EXPECT_GE(flushed.radius_at(0), 0.5);
  EXPECT_LT(flushed.radius_at(0), 4);
  // 2^-128 is no normal number: the product may be flushed.
  EXPECT_GE(sum_of({kTiny}, {kTiny}, true).radius_at(0), 0x1p-128);
  // What has no denormals is exact, and so is what no unit computes.
  EXPECT_EQ(sum_of({kOne, kOne}, {kOne, kOne}, true).radius_at(0), 0);
  EXPECT_EQ(sum_of({kOne, kDenormal}, {kOne, kLarge}, false).radius_at(0), 0);
  EXPECT_EQ(sum_of({kOne, kDenormal}, {kOne, kLarge}, true, false).radius_at(0), 0);
  EXPECT_TRUE(sum_of({kOne, kDenormal}, {kOne, kInf}, true).is_excluded(0));
}

TEST(OracleRadius, ProductsInEveryOrderStayInside) {
  const Node x = buffer(60);
  const std::vector<float> data = random_floats(60, 0.7F, 1.5F, 5);
  const OracleValue value = run(tensor_reduce(Op::kMul, x, List{0}, DType::kF32), x, data);
  float forward = 1;
  float backward = 1;
  for (size_t i = 0; i < data.size(); ++i) {
    forward *= data[i];
    backward *= data[data.size() - 1 - i];
  }
  EXPECT_GT(value.radius_at(0), 0);
  EXPECT_EQ(compare(value, bytes_of(std::vector{forward})).failed, 0);
  EXPECT_EQ(compare(value, bytes_of(std::vector{backward})).failed, 0);
  EXPECT_EQ(compare(value, bytes_of(std::vector{forward * 1.001F})).failed, 1);
}

// exp of x by a device that is off by up to 2 ulp each way, then the rest of the op exactly.
float off_by(double exact, int ulps) {
  float value = static_cast<float>(exact);
  for (int i = 0; i < std::abs(ulps); ++i)
    value = std::nextafter(value, ulps > 0 ? 1e30F : -1e30F);
  return value;
}

struct Chain {
  Op op;
  float (*device)(float);
};

TEST(OracleRadius, ErrorsWithinTheBoundStayInsideThroughEveryOp) {
  const std::vector<float> data = random_floats(2000, -3, 3, 11);
  const Node x = buffer(2000);
  const Node e = tensor_unary(Op::kExp, x);
  const Chain chains[] = {
      {Op::kNeg, [](float v) { return -v; }},
      {Op::kSqrt, [](float v) { return std::sqrt(v); }},
      {Op::kAbs, [](float v) { return std::fabs(v); }},
      {Op::kLog, [](float v) { return static_cast<float>(std::log(static_cast<double>(v))); }},
      {Op::kSin, [](float v) { return static_cast<float>(std::sin(static_cast<double>(v))); }},
      {Op::kCos, [](float v) { return static_cast<float>(std::cos(static_cast<double>(v))); }},
      {Op::kTan, [](float v) { return static_cast<float>(std::tan(static_cast<double>(v))); }},
      {Op::kTanh, [](float v) { return static_cast<float>(std::tanh(static_cast<double>(v))); }},
      {Op::kExp2, [](float v) { return static_cast<float>(std::exp2(static_cast<double>(v))); }},
  };
  for (const Chain& chain : chains) {
    const OracleValue value = run(tensor_unary(chain.op, e), x, data);
    for (int ulps = -1; ulps <= 1; ++ulps) {
      std::vector<float> got;
      for (float v : data)
        got.push_back(chain.device(off_by(std::exp(static_cast<double>(v)), ulps)));
      const Comparison comparison = compare(value, bytes_of(got));
      EXPECT_EQ(comparison.failed, 0) << op_name(chain.op) << ": " << comparison.text;
      EXPECT_LE(comparison.excluded, 20) << op_name(chain.op);
    }
  }
}

TEST(OracleRadius, BinaryOpsPropagateBothOperands) {
  const std::vector<float> data = random_floats(2000, -3, 3, 13);
  const Node x = buffer(2000);
  const Node a = tensor_unary(Op::kExp, x);
  const Node b = tensor_unary(Op::kSin, x);
  for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kMin, Op::kMax}) {
    const OracleValue value = run(tensor_binary(op, a, b), x, data);
    for (int ulps = -1; ulps <= 1; ++ulps) {
      std::vector<float> got;
      for (float v : data) {
        const float p = off_by(std::exp(static_cast<double>(v)), ulps);
        const float q = off_by(std::sin(static_cast<double>(v)), -ulps);
        float result = std::min(p, q);
        if (op == Op::kAdd) result = p + q;
        if (op == Op::kSub) result = p - q;
        if (op == Op::kMul) result = p * q;
        if (op == Op::kDiv) result = p / q;
        if (op == Op::kMax) result = std::max(p, q);
        got.push_back(result);
      }
      const Comparison comparison = compare(value, bytes_of(got));
      EXPECT_EQ(comparison.failed, 0) << op_name(op) << ": " << comparison.text;
      EXPECT_LE(comparison.excluded, 2);
      for (float& v : got)
        v *= 1.001F;
      EXPECT_GT(compare(value, bytes_of(got)).failed, 1990) << op_name(op);
    }
  }
}

TEST(OracleRadius, SoftmaxRowsKeepATightRadius) {
  const Node x = tensor_buffer(DType::kF32, Shape{4, 1000});
  const std::vector<float> data = random_floats(4000, -8, 8, 17);
  const auto spread = [](const Node& row) { return tensor_expand(row, Shape{4, 1000}); };
  const Node max = tensor_reduce(Op::kMax, x, List{1}, DType::kF32);
  const Node e = tensor_unary(Op::kExp, tensor_binary(Op::kSub, x, spread(max)));
  const Node sum = tensor_reduce(Op::kAdd, e, List{1}, DType::kF32);
  const Node one = tensor_expand(tensor_reshape(tensor_const(DType::kF32, 0x3f800000), Shape{1, 1}),
                                 Shape{4, 1});
  const Node y = tensor_binary(Op::kMul, e, spread(tensor_binary(Op::kDiv, one, sum)));
  const OracleValue value = run(y, x, data);
  for (size_t i = 0; i < value.bits.size(); ++i) {
    const double wanted = detail::oracle_value(DType::kF32, value.bits[i]);
    ASSERT_FALSE(value.is_excluded(i));
    ASSERT_GT(value.radius_at(i), 0);
    ASSERT_LT(value.radius_at(i), 1e-3 * wanted);
  }
}

TEST(OracleRadius, DiscontinuitiesExcludeWhatTheyStraddle) {
  const Node x = buffer(3);
  const std::vector<float> data{1, 2, 3};
  const Node e = tensor_unary(Op::kExp, x);
  const auto constant = [](double value) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    return tensor_expand(tensor_reshape(tensor_const(DType::kF32, bits), Shape{1}), Shape{3});
  };
  const Node near = constant(std::exp(2.0));  // equal to the middle element but for its radius
  for (const Op op : {Op::kLt, Op::kLe, Op::kEq, Op::kNe}) {
    const OracleValue value = run(tensor_binary(op, e, near), x, data);
    EXPECT_FALSE(value.is_excluded(0));
    EXPECT_TRUE(value.is_excluded(1));
    EXPECT_FALSE(value.is_excluded(2));
    EXPECT_EQ(value.bits[0], op == Op::kEq ? 0U : 1U);
    EXPECT_EQ(value.bits[2], op == Op::kNe ? 1U : 0U);
  }
  // e - near is 0 within a radius; so are its scaled forms.
  const Node zero = tensor_binary(Op::kSub, e, near);
  EXPECT_TRUE(run(tensor_unary(Op::kFloor, zero), x, data).is_excluded(1));
  EXPECT_FALSE(run(tensor_unary(Op::kRound, zero), x, data).is_excluded(1));
  EXPECT_TRUE(run(tensor_cast(zero, DType::kBool), x, data).is_excluded(1));
  EXPECT_FALSE(run(tensor_cast(zero, DType::kI32), x, data).is_excluded(1));
  EXPECT_TRUE(run(tensor_binary(Op::kDiv, e, zero), x, data).is_excluded(1));
  EXPECT_TRUE(run(tensor_unary(Op::kSqrt, zero), x, data).is_excluded(1));
  EXPECT_TRUE(run(tensor_bitcast(e, DType::kI32), x, data).is_excluded(0));
  // Exclusion spreads, but not through a selection that is sure.
  const Node condition = tensor_binary(Op::kLt, e, near);
  EXPECT_TRUE(run(tensor_where(condition, e, near), x, data).is_excluded(1));
  EXPECT_FALSE(run(tensor_where(condition, near, near), x, data).is_excluded(1));
  const Node floor = tensor_unary(Op::kFloor, zero);
  const OracleValue sum = run(tensor_reduce(Op::kAdd, floor, List{0}, DType::kF32), x, data);
  EXPECT_TRUE(sum.is_excluded(0));
  EXPECT_EQ(compare(sum, bytes_of(std::vector{123.0F})).excluded, 1);
}

TEST(OracleRadius, TheSignOfAnUncertainZeroIsFree) {
  const Node x = buffer(1);
  const std::vector<float> data{0.3F};
  const Node small = tensor_binary(
      Op::kSub, tensor_unary(Op::kExp, x),
      tensor_reshape(tensor_const(DType::kF32, std::bit_cast<uint32_t>(std::exp(0.3F))), Shape{1}));
  const OracleValue value = run(tensor_unary(Op::kRound, small), x, data);
  EXPECT_EQ(compare(value, bytes_of(std::vector{0.0F})).failed, 0);
  EXPECT_EQ(compare(value, bytes_of(std::vector{-0.0F})).failed, 0);
  EXPECT_EQ(compare(value, bytes_of(std::vector{1e-38F})).failed, 1);
}

TEST(OracleRadius, PossibleOverflowIsExcludedAndSureOverflowIsNot) {
  const Node x = buffer(4);
  const float max = std::numeric_limits<float>::max();
  const float inf = std::numeric_limits<float>::infinity();
  const Node sum = tensor_reduce(Op::kAdd, x, List{0}, DType::kF32);
  EXPECT_TRUE(run(sum, x, {max, max, -max, -max}).is_excluded(0));
  EXPECT_EQ(compare(run(sum, x, {max, max, max, max}), bytes_of(std::vector{inf})).failed, 0);
  EXPECT_EQ(compare(run(sum, x, {inf, 1, 2, 3}), bytes_of(std::vector{inf})).failed, 0);
  const Node product = tensor_reduce(Op::kMul, x, List{0}, DType::kF32);
  EXPECT_TRUE(run(product, x, {max, max, 1e-38F, 1e-38F}).is_excluded(0));
  const Node e = tensor_unary(Op::kExp, x);
  const OracleValue exp = run(e, x, {88.7F, 89, 200, -200});
  EXPECT_FALSE(exp.is_excluded(0));
  EXPECT_EQ(exp.bits[1], std::bit_cast<uint32_t>(inf));
  EXPECT_FALSE(exp.is_excluded(1));
  EXPECT_EQ(exp.radius_at(1), 0);
  EXPECT_LT(exp.radius_at(3), 1e-44);
  const auto factor = static_cast<float>(static_cast<double>(max) / std::exp(1.0));
  const Node scale = tensor_expand(
      tensor_reshape(tensor_const(DType::kF32, std::bit_cast<uint32_t>(factor)), Shape{1}),
      Shape{4});
  const OracleValue scaled = run(tensor_binary(Op::kMul, e, scale), x, {0, 1, 2, -1});
  EXPECT_FALSE(scaled.is_excluded(0));
  EXPECT_TRUE(scaled.is_excluded(1));
  EXPECT_FALSE(scaled.is_excluded(2));
}

TEST(OracleCompare, ExactElementsNeedTheirBits) {
  const OracleValue value{
      DType::kF32, {2, 2}, {0x3f800000, 0x80000000, 0x7fc00000, 0x40000000}, {}, {}};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(compare(value, bytes_of(std::vector{1.0F, -0.0F, -nan, 2.0F})).failed, 0);
  const Comparison zero = compare(value, bytes_of(std::vector{1.0F, 0.0F, nan, 2.0F}));
  EXPECT_EQ(zero.failed, 1);
  EXPECT_EQ(zero.first_wrong, 1);
  const Comparison off =
      compare(value, bytes_of(std::vector{1.0F, -0.0F, 0.0F, std::nextafter(2.0F, 3.0F)}));
  EXPECT_EQ(off.failed, 2);
  EXPECT_EQ(off.first_wrong, 2);
  EXPECT_EQ(off.compared, 4);
  EXPECT_EQ(off.max_ulp, 1);
  EXPECT_NE(off.text.find("element (1,0) of f32 (2,2): expected nan"), std::string::npos)
      << off.text;
  EXPECT_NE(off.text.find("got 0 (0x00000000)"), std::string::npos) << off.text;
  EXPECT_NE(off.text.find("2 of 4 elements are wrong"), std::string::npos) << off.text;
  EXPECT_ERROR(compare(value, bytes_of(std::vector{1.0F})), ErrorCode::kInvalidArgument, "4 bytes",
               "expected 16");
}

TEST(OracleCompare, BoolsAreZeroOrOne) {
  const OracleValue value{DType::kBool, {2}, {1, 0}, {}, {}};
  EXPECT_EQ(compare(value, bytes_of(std::vector<uint8_t>{1, 0})).failed, 0);
  EXPECT_EQ(compare(value, bytes_of(std::vector<uint8_t>{2, 0})).failed, 1);
}

TEST(OracleErrors, WrongInputsAndSizesAreRefused) {
  const Node x = buffer(3);
  EXPECT_ERROR(run(x, x, {1, 2}), ErrorCode::kInvalidArgument, "8 bytes", "expected 12");
  EXPECT_ERROR(run(buffer(3), x, {1, 2, 3}), ErrorCode::kInvalidArgument, "no data", "(3)");
  const Node wide = tensor_expand(tensor_reshape(buffer(1), Shape{1}), Shape{int64_t{1} << 29});
  EXPECT_ERROR(run(wide, wide.src(0).src(0), {1}), ErrorCode::kUnsupported, "expand", "2^28");
}

}  // namespace
}  // namespace tenon
