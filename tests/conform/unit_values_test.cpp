// Sums of products of narrow operands, which a Target's matrix units compute where it has them,
// have the oracle's values: shapes with tails of every kind, operands turned and behind views,
// batches, convolutions. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "tenon/base/text.h"
#include "tenon/engine/engine.h"
#include "tenon/engine/engine_device.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/schedule/schedule.h"
#include "tests/conform/graph_batch.h"
#include "tests/support/random.h"

namespace tenon::testing {
namespace {

struct Dtypes {
  DType operand;
  DType acc;
  DType result;
};
constexpr Dtypes kBF16{DType::kBF16, DType::kF32, DType::kBF16};
constexpr Dtypes kBF16ToF32{DType::kBF16, DType::kF32, DType::kF32};
constexpr Dtypes kI8{DType::kI8, DType::kI32, DType::kI32};
constexpr Dtypes kU8I8{DType::kU8, DType::kI32, DType::kI32};

class Inputs {
 public:
  explicit Inputs(GraphBatch& batch) : batch_(batch) {}

  // Floats: with fractions, or whole so that sums are exact. Whole numbers: of their whole range.
  Node make(DType dtype, ShapeView shape, bool is_whole = false) {
    std::vector<uint64_t> bits;
    for (int64_t i = 0; i < num_elements(shape); ++i) {
      const auto number = static_cast<int64_t>(random_.between(-2000, 2000));
      const double value =
          is_whole ? static_cast<double>(number % 8) : static_cast<double>(number) / 1000.0;
      bits.push_back(is_float(dtype) ? double_to_float(value, dtype)
                                     : canonical_bits(dtype, static_cast<uint64_t>(number)));
    }
    return batch_.buffer(dtype, bits, shape);
  }

 private:
  GraphBatch& batch_;
  Random random_{11};
};

// a (batch, M, K) and b (batch, N, K) -> (batch, M, N).
Node product(const Node& a, const Node& b, const Dtypes& dtypes) {
  const int64_t batch = a.shape()[0];
  const int64_t m = a.shape()[1];
  const int64_t k = a.shape()[2];
  const int64_t n = b.shape()[1];
  const Shape box{batch, m, n, k};
  const auto side = [&](const Node& x, const Shape& shape) {
    return tensor_expand(tensor_reshape(tensor_cast(x, dtypes.acc), shape), box);
  };
  const Node products =
      tensor_binary(Op::kMul, side(a, Shape{batch, m, 1, k}), side(b, Shape{batch, 1, n, k}));
  const std::vector<int64_t> axes{3};
  const Node sum =
      tensor_reshape(tensor_reduce(Op::kAdd, products, axes, dtypes.acc), Shape{batch, m, n});
  return tensor_cast(sum, dtypes.result);
}

Node swapped(const Node& x) {
  const std::vector<int64_t> axes{0, 2, 1};
  return tensor_permute(x, axes);
}

struct Size {
  int64_t batch;
  int64_t m;
  int64_t n;
  int64_t k;
};
// Whole tiles; tails of rows, columns and depth; fewer columns than a vector; few rows; batches.
constexpr Size kSizes[] = {{1, 24, 128, 64}, {1, 31, 70, 33},  {1, 12, 17, 5},  {1, 64, 16, 1},
                           {1, 9, 9, 9},     {1, 100, 65, 47}, {3, 16, 33, 18}, {1, 3, 40, 70},
                           {2, 1, 20, 30},   {1, 50, 1, 21},   {5, 40, 8, 3}};

void add_products(GraphBatch& batch, Inputs& inputs, const Dtypes& dtypes, bool is_whole) {
  const DType second = dtypes.operand == DType::kU8 ? DType::kI8 : dtypes.operand;
  for (const Size& size : kSizes) {
    for (const int turns : {0, 1, 2, 3}) {
      const auto side = [&](DType dtype, int64_t rows, bool is_turned) {
        if (!is_turned) return inputs.make(dtype, Shape{size.batch, rows, size.k}, is_whole);
        return swapped(inputs.make(dtype, Shape{size.batch, size.k, rows}, is_whole));
      };
      const Node a = side(dtypes.operand, size.m, (turns & 1) != 0);
      const Node b = side(second, size.n, (turns & 2) == 0);
      batch.add(concat(dtype_name(dtypes.operand), " ", size.batch, "x", size.m, "x", size.n, "x",
                       size.k, turns),
                product(a, b, dtypes));
    }
  }
}

TEST(UnitValues, ProductsOfFractions) {
  GraphBatch batch;
  Inputs inputs(batch);
  add_products(batch, inputs, kBF16, false);
  add_products(batch, inputs, kBF16ToF32, false);
  batch.check("bf16 products");
}

TEST(UnitValues, WholeNumbersAreExact) {
  GraphBatch batch;
  Inputs inputs(batch);
  add_products(batch, inputs, kBF16ToF32, true);
  add_products(batch, inputs, kI8, true);
  add_products(batch, inputs, kU8I8, true);
  batch.check("whole products");
}

// Exponents at which products and sums meet the denormals, and infinities.
TEST(UnitValues, SmallAndSpecialFactors) {
  GraphBatch batch;
  Random random(3);
  const auto make = [&](ShapeView shape, int64_t centre, bool is_special) {
    std::vector<uint64_t> bits;
    for (int64_t i = 0; i < num_elements(shape); ++i) {
      const auto exponent =
          static_cast<uint64_t>(std::max<int64_t>(centre + random.below(6) - 3, 0));
      const bool is_inf = is_special && random.below(40) == 0;
      bits.push_back((random.next() & 1) << 15 | (is_inf ? 255 : exponent) << 7 |
                     (is_inf ? 0 : random.next() & 127));
    }
    return batch.buffer(DType::kBF16, bits, shape);
  };
  for (const int64_t centre : {0, 1, 20, 62, 63, 64, 66, 127}) {
    const Node a = make(Shape{1, 20, 12}, centre, centre > 60);
    batch.add(concat("small ", centre),
              product(a, make(Shape{1, 24, 12}, centre, false), kBF16ToF32));
    batch.add(concat("small and one ", centre),
              product(a, make(Shape{1, 24, 12}, 127, false), kBF16ToF32));
  }
  batch.check("products near denormals");
}

TEST(UnitValues, BlocksOfTheDepth) {
  GraphBatch batch;
  Inputs inputs(batch);
  for (const Dtypes& dtypes : {kBF16ToF32, kI8}) {
    const int64_t depth = dtypes.operand == DType::kI8 ? 9001 : 4100;
    batch.add("deep", product(inputs.make(dtypes.operand, Shape{1, 13, depth}, true),
                              inputs.make(dtypes.operand, Shape{1, 35, depth}, true), dtypes));
  }
  batch.check("deep products");
}

TEST(UnitValues, OperandsBehindOpsAndViews) {
  GraphBatch batch;
  Inputs inputs(batch);
  for (const Dtypes& dtypes : {kBF16, kI8, kU8I8}) {
    const DType second = dtypes.operand == DType::kU8 ? DType::kI8 : dtypes.operand;
    const Node a = inputs.make(dtypes.operand, Shape{1, 20, 30});
    const Node b = inputs.make(second, Shape{1, 40, 30});
    const Node doubled = tensor_binary(Op::kAdd, a, a);
    const std::vector<int64_t> before{0, 2, 1};
    const std::vector<int64_t> after{0, 1, 4};
    const Node padded = tensor_pad(a, before, after, 0);
    const std::vector<int64_t> begin{0, 1, 2};
    const std::vector<int64_t> end{1, 18, 27};
    const std::vector<int64_t> flags{0, 0, 1};
    const Node tall = inputs.make(second, Shape{1, 40, 35});
    batch.add("computed a", product(doubled, b, dtypes));
    batch.add("padded a", product(padded, tall, dtypes));
    batch.add("cut a",
              product(tensor_shrink(a, begin, end), inputs.make(second, Shape{1, 40, 25}), dtypes));
    batch.add("flipped a", product(tensor_flip(a, flags), b, dtypes));
    batch.add("flipped b", product(a, tensor_flip(b, flags), dtypes));
    batch.add("one operand", product(a, inputs.make(dtypes.operand, Shape{1, 16, 30}), dtypes));
    batch.add("with itself", product(a, a, dtypes));
    const Node y = product(a, b, dtypes);
    batch.add("used twice", tensor_binary(Op::kMul, y, tensor_binary(Op::kAdd, y, y)));
  }
  batch.check("products of views");
}

// Windows of an image by 3x3 kernels: the sum runs over three axes.
TEST(UnitValues, Convolutions) {
  GraphBatch batch;
  Inputs inputs(batch);
  for (const Dtypes& dtypes : {kBF16, kI8}) {
    const int64_t channels = 20;
    const Shape shape{2, channels, 9, 9};
    const std::vector<int64_t> edge{0, 0, 1, 1};
    const Node padded = tensor_pad(inputs.make(dtypes.operand, shape), edge, edge, 0);
    const Node windows = tensor_window(tensor_window(padded, 2, 3, 1, 1), 3, 3, 1, 1);
    const Shape box{2, channels, channels, 9, 9, 3, 3};
    const auto wide = [&](const Node& x, const Shape& narrow) {
      return tensor_expand(tensor_reshape(tensor_cast(x, dtypes.acc), narrow), box);
    };
    const Node x = wide(windows, Shape{2, 1, channels, 9, 9, 3, 3});
    const Node w = wide(inputs.make(dtypes.operand, Shape{channels, channels, 3, 3}),
                        Shape{1, channels, channels, 1, 1, 3, 3});
    const std::vector<int64_t> axes{2, 5, 6};
    const Node sum = tensor_reduce(Op::kAdd, tensor_binary(Op::kMul, x, w), axes, dtypes.acc);
    batch.add("conv", tensor_cast(tensor_reshape(sum, shape), dtypes.result));
  }
  batch.check("narrow convolutions");
}

// One kernel, where the Target has a unit; its casts are part of it.
TEST(UnitValues, AProductIsOneKernelWhereThereIsAUnit) {
  GraphBatch batch;
  Inputs inputs(batch);
  const std::vector<MatrixUnit>& units = engine_device(Device::get_default()).target().units;
  for (const Dtypes& dtypes : {kBF16, kI8}) {
    const Node y = product(inputs.make(dtypes.operand, Shape{1, 64, 64}),
                           inputs.make(dtypes.operand, Shape{1, 64, 64}), dtypes);
    const size_t num_calls = schedule_graph(std::span(&y, 1), {.units = units}).calls.size();
    const bool has_unit = has_product_unit(units, dtypes.operand, dtypes.operand, dtypes.acc);
    EXPECT_EQ(num_calls, has_unit ? 1U : 3U) << dtype_name(dtypes.operand);
  }
}

}  // namespace
}  // namespace tenon::testing
