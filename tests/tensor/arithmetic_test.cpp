// Elementwise methods and operators against NumPy, and their errors. SPDX-License-Identifier: MIT

#include <limits>

#include "tenon/base/text.h"
#include "tenon/rules/decompose.h"
#include "tenon/tensor/creation.h"
#include "tests/support/expect_error.h"
#include "tests/tensor/array_tables.h"

namespace tenon {
namespace {

using testing::array_of;
using testing::expect_array;
using testing::expect_table;
using testing::table_array;
using testing::table_tensor;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Arithmetic, OfIntegersBroadcastsAsNumpy) {
  const Tensor a = table_tensor("a");
  const Tensor b = table_tensor("b");
  const Tensor nonzero = table_tensor("nonzero");
  expect_table(a + b, "a_add_b");
  expect_table(a - b, "a_sub_b");
  expect_table(a * b, "a_mul_b");
  expect_table(a / nonzero, "a_div");
  expect_table(a.floor_divide(nonzero), "a_floordiv");
  expect_table(a % nonzero, "a_remainder");
  expect_table(a.remainder(nonzero), "a_remainder");
  expect_table(a.trunc_divide(nonzero), "a_truncdiv");
  expect_table(a.fmod(nonzero), "a_fmod");
  expect_table(a.minimum(b), "a_minimum");
  expect_table(a.maximum(b), "a_maximum");
  expect_table(a.clip(-3, 7), "a_clip");
  expect_table(a.square(), "a_square");
  expect_table(a.sign(), "a_sign");
}

TEST(Arithmetic, BitsAndShiftsAsNumpy) {
  const Tensor a = table_tensor("a");
  const Tensor b = table_tensor("b");
  expect_table(a & b, "a_and");
  expect_table(a | b, "a_or");
  expect_table(a ^ b, "a_xor");
  expect_table(~a, "a_invert");
  expect_table(a << b.abs(), "a_shl");
  expect_table(a >> b.abs(), "a_shr");
}

TEST(Arithmetic, ComparisonsAndSelectionAsNumpy) {
  const Tensor a = table_tensor("a");
  const Tensor b = table_tensor("b");
  expect_table(a < b, "a_less");
  expect_table(b > a, "a_less");
  expect_table(a >= b, "a_greater_equal");
  expect_table(b <= a, "a_greater_equal");
  expect_table(a == b, "a_equal");
  expect_table(a != b, "a_not_equal");
  expect_table(where(a > b, a, b), "a_where");
}

TEST(Arithmetic, IntegerLaws) {
  const Tensor x({-2147483647 - 1, 7, -7});
  expect_array(x.floor_divide(0), array_of({3}, {0, 0, 0}));
  expect_array(x % 0, array_of({3}, {0, 0, 0}));
  expect_array(x.floor_divide(-1), array_of({3}, {-2147483647 - 1, -7, 7}));
  expect_array(x.floor_divide(2), array_of({3}, {-1073741824, 3, -4}));
  expect_array(x.trunc_divide(2), array_of({3}, {-1073741824, 3, -3}));
  expect_array(x % 4, array_of({3}, {0, 3, 1}));
  expect_array(x.fmod(4), array_of({3}, {0, 3, -3}));
  expect_array(x << 32, array_of({3}, {0, 0, 0}));
  expect_array(x >> 40, array_of({3}, {-1, 0, -1}));
  expect_table(-table_tensor("u8"), "u8_neg");
}

TEST(Arithmetic, RoundingAndSpecialValuesAsNumpy) {
  const Tensor y = table_tensor("y");
  expect_table(y.floor(), "y_floor");
  expect_table(y.ceil(), "y_ceil");
  expect_table(y.trunc(), "y_trunc");
  expect_table(y.round(), "y_round");
  expect_table(y.abs(), "y_abs");
  expect_table(-y, "y_neg");
  expect_table(y.relu(), "y_relu");
  const Tensor special = table_tensor("special");
  expect_table(special.isnan(), "special_isnan");
  expect_table(special.isinf(), "special_isinf");
  expect_table(special.isfinite(), "special_isfinite");
  expect_table(special.sign(), "special_sign");
}

TEST(Arithmetic, RoundingOfIntegersIsIdentity) {
  const Tensor x({-5, 7});
  EXPECT_EQ(x.floor().node(), x.node());
  EXPECT_EQ(x.ceil().node(), x.node());
  EXPECT_EQ(x.trunc().node(), x.node());
  EXPECT_EQ(x.round().node(), x.node());
  expect_array(x.isnan(), array_of({2}, {false, false}));
  expect_array(x.isinf(), array_of({2}, {false, false}));
  expect_array(x.isfinite(), array_of({2}, {true, true}));
}

TEST(Arithmetic, FunctionsAreNearNumpy) {
  const Tensor p = table_tensor("p");
  expect_table(p.sqrt(), "p_sqrt");
  expect_table(p.reciprocal(), "p_reciprocal");
  expect_table(p.rsqrt(), "p_rsqrt");
  expect_table(p.exp(), "p_exp");
  expect_table(p.exp2(), "p_exp2");
  expect_table(p.log(), "p_log");
  expect_table(p.log2(), "p_log2");
  expect_table(p.log10(), "p_log10");
  expect_table(p.sin(), "p_sin");
  expect_table(p.cos(), "p_cos");
  expect_table(p.tan(), "p_tan");
  expect_table(p.tanh(), "p_tanh");
  expect_table(p.sigmoid(), "p_sigmoid");
}

// What the tables allow of an op is what it declares.
TEST(Arithmetic, TablesAllowTheDeclaredUlp) {
  for (const Op op : {Op::kExp, Op::kExp2, Op::kLog, Op::kLog2, Op::kSin, Op::kCos, Op::kTan,
                      Op::kTanh, Op::kSigmoid}) {
    const std::string name = concat("ulp_", op_name(op));
    const double bound = bounded_ulp(op);
    EXPECT_EQ(table_array(name).bits, std::vector{std::bit_cast<uint64_t>(bound)}) << name;
  }
}

TEST(Arithmetic, FunctionsOfIntegersAreFloat32) {
  EXPECT_EQ(Tensor({1, 2}).exp().dtype(), DType::kF32);
  EXPECT_EQ(Tensor({true}).sqrt().dtype(), DType::kF32);
  EXPECT_EQ(Tensor({1.0}).exp().dtype(), DType::kF64);
  expect_array(Tensor({4, 9}).sqrt(), array_of({2}, {2.0F, 3.0F}));
  expect_array(Tensor({4, 8}).reciprocal(), array_of({2}, {0.25F, 0.125F}));
  expect_array(Tensor({3, 1}) / 2, array_of({2}, {1.5F, 0.5F}));
  expect_array(1 / Tensor({4, 8}), array_of({2}, {0.25F, 0.125F}));
}

TEST(Arithmetic, OfBoolIsLogic) {
  const Tensor a({false, false, true, true});
  const Tensor b({false, true, false, true});
  expect_array(a + b, array_of({4}, {false, true, true, true}));
  expect_array(a * b, array_of({4}, {false, false, false, true}));
  expect_array(a ^ b, array_of({4}, {false, true, true, false}));
  expect_array(~a, array_of({4}, {true, true, false, false}));
  expect_array(a < b, array_of({4}, {false, true, false, false}));
  expect_array(a.maximum(b), array_of({4}, {false, true, true, true}));
  EXPECT_ERROR(a - b, kInvalid, "sub", "bool");
  EXPECT_ERROR(-a, kInvalid, "neg", "bool");
  EXPECT_ERROR(a.sign(), kInvalid, "sign", "bool");
  EXPECT_ERROR(a.floor_divide(b), kInvalid, "floor_divide", "bool");
}

TEST(Arithmetic, LogicalOpsTakeAnyDtype) {
  const Tensor a({0.0F, -0.0F, 0.5F, -3.0F});
  const Tensor b({0, 1, 0, 256});
  expect_array(a.logical_and(b), array_of({4}, {false, false, false, true}));
  expect_array(a.logical_or(b), array_of({4}, {false, true, true, true}));
  expect_array(a.logical_xor(b), array_of({4}, {false, true, true, false}));
  expect_array(a.logical_not(), array_of({4}, {true, true, false, false}));
  expect_array(a.logical_and(2), array_of({4}, {false, false, true, true}));
}

TEST(Arithmetic, NanAndInfinity) {
  const Tensor zero({0.0F, -0.0F, 0.0F});
  const Tensor x({1.0F, 1.0F, 0.0F});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect_array(x / zero, array_of({3}, {kInf, -kInf, nan}));
  expect_array(Tensor({nan, 1.0F}).maximum(Tensor({0.0F, nan})), array_of({2}, {nan, nan}));
  expect_array(Tensor({-0.0F}).maximum(0.0), array_of({1}, {0.0F}));
  expect_array(where(zero == 0, x, x / zero), array_of({3}, {1.0F, 1.0F, 0.0F}));
  expect_array(Tensor({nan, -2.0F, 0.5F, 9.0F}).clip(0, 1), array_of({4}, {nan, 0.0F, 0.5F, 1.0F}));
}

TEST(Arithmetic, InPlaceKeepsShapeAndDtype) {
  Tensor x = {1.0F, 2.0F};
  const Tensor before = x;
  x += 1;
  x *= x;
  x -= 0.5;
  x /= 2;
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1.75F, 4.25F}));
  EXPECT_EQ(before.to_vector<float>(), (std::vector<float>{1, 2}));
  Tensor i = {1, 2};
  EXPECT_ERROR(i /= 2, kInvalid, "int32", "float32");
  EXPECT_ERROR(i += Tensor({{1, 2}, {3, 4}}), kInvalid, "(2)", "(2,2)");
}

TEST(Arithmetic, ErrorsNameWhatDiffers) {
  const Tensor a = zeros({2, 3});
  const Tensor b = zeros({4});
  EXPECT_ERROR(a + b, kInvalid, "(2,3)", "(4)");
  EXPECT_ERROR(a.maximum(b), kInvalid, "maximum", "(4)");
  EXPECT_ERROR(where(b == 0, a, a), kInvalid, "(4)", "(2,3)");
  EXPECT_ERROR(where(a, a, a), kInvalid, "condition", "float32");
  EXPECT_ERROR(a.floor_divide(2), ErrorCode::kUnsupported, "floor_divide", "float32");
  EXPECT_ERROR(a % 2, ErrorCode::kUnsupported, "remainder", "float32");
  EXPECT_ERROR(a & a, kInvalid, "bitwise_and", "float32");
  EXPECT_ERROR(~a, kInvalid, "bitwise_invert", "float32");
  EXPECT_ERROR(a << 1, ErrorCode::kUnsupported, "bitwise_left_shift", "float32");
}

}  // namespace
}  // namespace tenon
