// A second's look at every layer, from Tensor to machine code: the check before each commit
// (.githooks/pre-commit). SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cmath>

#include "tenon/base/error.h"
#include "tenon/rules/decompose.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/nn_ops.h"
#include "tenon/tensor/tensor.h"
#include "tests/support/expect_error.h"
#include "tests/support/tolerance.h"

namespace tenon {
namespace {

using Floats = std::vector<float>;

TEST(Smoke, ElementwiseOpsBroadcast) {
  const Tensor column = Tensor::from_data(Floats{1, 2, 3}, {3, 1});
  const Tensor row = Tensor::from_data(Floats{10, 20}, {2});
  EXPECT_EQ((column * row + 0.5F).to_vector<float>(), (Floats{10.5, 20.5, 20.5, 40.5, 30.5, 60.5}));
}

TEST(Smoke, MatmulThenSoftmaxIsWithinRounding) {
  const Tensor a = Tensor::from_data(Floats{1, 0, 2, -1}, {2, 2});
  const Floats p = softmax(a.matmul(a)).to_vector<float>();  // rows (1, 0) and (0, 1)
  const double high = 1 / (1 + std::exp(-1.0));
  // The exps of 0 and -1 are exact in their argument; two exps, the sum, reciprocal, product.
  const double roundings = 4 * bounded_ulp(Op::kExp) + 3;
  const auto allowed = [&](double value) {
    return testing::allowed_error(DType::kF32, roundings * value, value);
  };
  for (const size_t i : {size_t{0}, size_t{3}})
    EXPECT_NEAR(p[i], high, allowed(high));
  for (const size_t i : {size_t{1}, size_t{2}})
    EXPECT_NEAR(p[i], 1 - high, allowed(1 - high));
}

TEST(Smoke, MovementAndReductionsAreExact) {
  const Tensor x = arange(24).reshape({2, 3, 4});
  EXPECT_EQ(x.permute({2, 0, 1}).flip(0).sum(2).to_vector<int64_t>(),
            (std::vector<int64_t>{21, 57, 18, 54, 15, 51, 12, 48}));
  EXPECT_EQ(x.max().item<int64_t>(), 23);
}

TEST(Smoke, AMistakeIsNamed) {
  EXPECT_ERROR(ones({4, 8}).matmul(ones({16, 2})), ErrorCode::kInvalidArgument, "matmul", "(4,8)");
}

}  // namespace
}  // namespace tenon
