// Row reductions that are fused with what follows them have the oracle's values.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <bit>

#include "tenon/base/text.h"
#include "tenon/ir/tensor_ops.h"
#include "tests/conform/graph_batch.h"
#include "tests/support/random.h"
#include "tests/support/row_graphs.h"

namespace tenon::testing {
namespace {

// Inputs between -2 and 2, no two rows alike.
MakeInput inputs_of(GraphBatch& batch, Random& random) {
  return [&](ShapeView shape) {
    std::vector<uint64_t> bits;
    for (int64_t i = 0; i < num_elements(shape); ++i) {
      const auto value = static_cast<float>(random.between(-2000, 2000)) / 1000.0F;
      bits.push_back(std::bit_cast<uint32_t>(value));
    }
    return batch.buffer(DType::kF32, bits, shape);
  };
}

TEST(RowValues, NamedGraphs) {
  GraphBatch batch;
  Random random(7);
  const MakeInput input = inputs_of(batch, random);
  for (const auto& [rows, columns] : {std::pair{37, 67}, {5, 10}, {64, 256}, {3, 1}, {1, 33}}) {
    for (const RowGraph& graph : named_row_graphs(input, rows, columns))
      batch.add(concat(graph.name, " ", rows, "x", columns), graph.node);
  }
  for (const bool is_turned : {false, true}) {
    batch.add("matmul", matmul_bias_relu(input, 37, 45, 29, is_turned));
    batch.add("conv", conv_bias_relu(input, 5, 9, is_turned));
  }
  batch.check("named row graphs");
}

TEST(RowValues, GeneratedGraphs) {
  GraphBatch batch;
  Random random(8);
  const MakeInput input = inputs_of(batch, random);
  constexpr uint64_t kNumGraphs = 120;
  for (uint64_t seed = 0; seed < kNumGraphs; ++seed)
    batch.add(concat("seed ", seed), random_row_graph(input, seed, seed % 8 == 1));
  batch.check("generated row graphs");
}

// Blocks of rows in one kernel, whole and with tails, and separate kernels.
TEST(RowValues, Attention) {
  GraphBatch batch;
  Random random(9);
  const MakeInput input = inputs_of(batch, random);
  for (uint64_t seed = 0; seed < 24; ++seed) {
    const int64_t size = random.pick({96, 131, 256});
    const int64_t width = random.pick({16, 20, 24});
    batch.add(concat("seed ", seed, ", size ", size, ", width ", width),
              random_attention(input, seed, 2, size, width));
  }
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const MakeInput rounded = [&](ShapeView shape) {
      return tensor_cast(tensor_contiguous(tensor_cast(input(shape), dtype)), DType::kF32);
    };
    for (uint64_t seed = 0; seed < 8; ++seed) {
      batch.add(concat(dtype_name(dtype), " ", seed),
                random_attention(rounded, seed, 2, seed % 2 == 0 ? 256 : 131, 20));
    }
  }
  batch.add("narrow", random_attention(input, 3, 2, 99, 8));
  batch.add("summed", summed_product(input, 133, 12));
  batch.add("block", attention_block(input, 2, 160, 16));
  batch.check("attention");
}

TEST(RowValues, MovementChains) {
  GraphBatch batch;
  Random random(10);
  const MakeInput input = inputs_of(batch, random);
  for (uint64_t seed = 0; seed < 60; ++seed)
    batch.add(concat("seed ", seed), random_movement_chain(input, seed));
  batch.check("movement chains");
}

// Long reductions to few results, which the schedule cuts: several axes, lengths that nothing
// divides, short lines, narrow dtypes.
TEST(RowValues, LongReductions) {
  GraphBatch batch;
  Random random(11);
  const MakeInput input = inputs_of(batch, random);
  const std::pair<Shape, std::vector<int64_t>> cases[] = {
      {{1 << 18}, {0}},        {{300007}, {0}},
      {{521, 523}, {0, 1}},    {{3, 90001}, {1}},
      {{87400, 3}, {0}},       {{17500, 15}, {0}},
      {{4099, 1, 64}, {0}},    {{2, 65536, 2}, {0, 1}},
      {{2, 3, 43717}, {0, 2}}, {{5, 7, 11, 13, 59}, {0, 2, 3, 4}}};
  for (const auto& [shape, axes] : cases) {
    const Node x = input(shape);
    const std::string where = format_shape(shape);
    for (const Op op : {Op::kAdd, Op::kMax, Op::kMin})
      batch.add(concat(op_name(op), " of ", where), tensor_reduce(op, x, axes, DType::kF32));
    const Node turned =
        tensor_unary(Op::kAbs, tensor_flip(x, std::vector<int64_t>(shape.size(), 1)));
    const Node sum = tensor_reduce(Op::kAdd, turned, axes, DType::kF32);
    batch.add(concat("sum and more of ", where), tensor_unary(Op::kSqrt, sum));
    const Node numbers = tensor_cast(x, DType::kI16);
    batch.add(concat("integers of ", where), tensor_reduce(Op::kAdd, numbers, axes, DType::kI32));
    batch.add(concat("products of ", where), tensor_reduce(Op::kMul, numbers, axes, DType::kI16));
    const Node halves = tensor_cast(x, DType::kF16);
    batch.add(concat("f16 of ", where), tensor_reduce(Op::kMax, halves, axes, DType::kF32));
    const Node signs = tensor_binary(Op::kLt, x, turned);
    batch.add(concat("all of ", where), tensor_reduce(Op::kAnd, signs, axes, DType::kBool));
  }
  batch.check("long reductions");
}

}  // namespace
}  // namespace tenon::testing
