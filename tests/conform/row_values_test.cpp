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

}  // namespace
}  // namespace tenon::testing
