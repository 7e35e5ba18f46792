// The random graphs of the property tests: what 2,000 of them cover, that each is sound, prints and
// reads back and has a value on the oracle, and that failing ones shrink.
// SPDX-License-Identifier: MIT

#include "tests/support/random_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <unordered_set>

#include "tenon/conform/graph_shrink.h"
#include "tenon/conform/oracle.h"
#include "tenon/ir/graph_text.h"
#include "tests/support/graph_coverage.h"

namespace tenon::testing {
namespace {

constexpr uint64_t kNumGraphs = 2000;

RandomGraphOptions options_of(uint64_t seed) {
  RandomGraphOptions options;
  options.integer_valued = seed % 2 == 0;
  return options;
}

std::vector<OracleValue> run(const TensorGraph& graph, uint64_t seed) {
  const std::vector<std::vector<std::byte>> data = random_inputs(graph, seed);
  OracleInputs inputs = bind_inputs(graph.inputs, data);
  inputs.variable = [&](const Node& variable) { return random_variable(variable, seed); };
  return evaluate_oracle(graph.outputs, inputs);
}

bool is_zero(const OracleValue& value, uint64_t bits) {
  if (!is_float(value.dtype)) return bits == 0;
  return (bits & ~(uint64_t{1} << (dtype_bits(value.dtype) - 1))) == 0;
}

// Half or more of the elements are distinct and not zero.
bool is_telling(const OracleValue& value) {
  std::unordered_set<uint64_t> distinct;
  for (uint64_t bits : value.bits) {
    if (!is_zero(value, bits)) distinct.insert(bits);
  }
  return !value.bits.empty() && distinct.size() * 2 >= value.bits.size();
}

int64_t count_excluded(const OracleValue& value) {
  return std::ranges::count_if(value.excluded, [](uint8_t flag) { return flag != 0; });
}

TEST(RandomGraph, CoversWhatItPromises) {
  GraphCoverage coverage;
  for (uint64_t seed = 0; seed < kNumGraphs; ++seed)
    coverage.add(random_graph(seed, options_of(seed)));
  std::cout << to_text(coverage);
  EXPECT_GE(coverage.median_nodes(), 8);
  EXPECT_GE(coverage.num_broadcast_back * 10, coverage.num_graphs() * 3);
  EXPECT_GE(coverage.num_triple_movement * 10, coverage.num_graphs() * 3);
  for (const OpInfo& info : all_ops()) {
    if (!has_level(info.op, kTensorLevel)) continue;
    EXPECT_GE(coverage.nodes_of_op[info.op], 50) << info.name;
  }
  for (const int64_t dim : {0, 1, 3, 7, 31, 33, 1000})
    EXPECT_GE(coverage.graphs_with_dim[dim], 20) << dim;
  for (const DType dtype : RandomGraphOptions().dtypes)
    EXPECT_GE(coverage.nodes_of_dtype[dtype], 200) << dtype_name(dtype);
}

TEST(RandomGraph, IsSoundAndReadsBack) {
  for (uint64_t seed = 0; seed < kNumGraphs; ++seed) {
    const TensorGraph graph = random_graph(seed, options_of(seed));
    ASSERT_EQ(verify_graph(graph.outputs), std::vector<std::string>{}) << "seed " << seed;
    const std::string text = to_text(graph);
    ASSERT_EQ(to_text(parse_graph(text, "random")), text) << "seed " << seed;
    ASSERT_EQ(to_text(random_graph(seed, options_of(seed))), text) << "seed " << seed;
  }
}

TEST(RandomGraph, HasTellingValuesOnTheOracle) {
  int64_t num_telling = 0;
  int64_t num_rejected = 0;
  int64_t num_elements_in_all = 0;
  for (uint64_t seed = 0; seed < kNumGraphs; ++seed) {
    const RandomGraphOptions options = options_of(seed);
    const TensorGraph graph = random_graph(seed, options);
    int64_t total = 0;
    for (const Node& node : topological_order(graph.outputs))
      total += num_elements(node.shape());
    ASSERT_LE(total, options.max_total * 2) << "seed " << seed;
    num_elements_in_all += total;
    bool is_any_telling = false;
    bool is_any_rejected = false;
    for (const OracleValue& value : run(graph, seed)) {
      is_any_telling = is_any_telling || is_telling(value);
      is_any_rejected = is_any_rejected || count_excluded(value) * 100 > std::ssize(value.bits);
      if (!options.integer_valued) continue;
      const bool is_exact = std::ranges::none_of(value.radius, [](double r) { return r > 0; });
      ASSERT_TRUE(is_exact && count_excluded(value) == 0) << to_text(graph);
    }
    num_telling += is_any_telling ? 1 : 0;
    num_rejected += is_any_rejected ? 1 : 0;
  }
  std::cout << "telling " << num_telling << ", over 1 % excluded " << num_rejected
            << ", elements a graph " << num_elements_in_all / static_cast<int64_t>(kNumGraphs)
            << "\n";
  EXPECT_GE(num_telling * 100, static_cast<int64_t>(kNumGraphs) * 80);
  EXPECT_LT(num_rejected * 100, static_cast<int64_t>(kNumGraphs) * 5);
}

TEST(RandomGraph, LeavesOutWhatIsSwitchedOff) {
  RandomGraphOptions options;
  options.has_variables = false;
  options.has_assigns = false;
  options.has_copies = false;
  options.dtypes = {DType::kF32};
  GraphCoverage coverage;
  for (uint64_t seed = 0; seed < 200; ++seed)
    coverage.add(random_graph(seed, options));
  EXPECT_EQ(coverage.nodes_of_op[Op::kVariable], 0);
  EXPECT_EQ(coverage.nodes_of_op[Op::kAssign], 0);
  EXPECT_EQ(coverage.nodes_of_op[Op::kCopy], 0);
  EXPECT_EQ(coverage.nodes_of_dtype[DType::kBF16], 0);
}

// A fault that shows only where a sqrt meets a flip: everything else must go.
TEST(GraphShrink, KeepsOnlyWhatTheFailureNeeds) {
  const auto fails = [](const TensorGraph& graph) {
    bool has_sqrt = false;
    bool has_flip = false;
    for (const Node& node : topological_order(graph.outputs)) {
      has_sqrt = has_sqrt || node.op() == Op::kSqrt;
      has_flip = has_flip || node.op() == Op::kFlip;
    }
    return has_sqrt && has_flip;
  };
  int num_failing = 0;
  for (uint64_t seed = 0; seed < kNumGraphs; ++seed) {
    const TensorGraph graph = random_graph(seed, options_of(seed));
    if (!fails(graph)) continue;
    ++num_failing;
    const TensorGraph small = shrink_graph(graph, fails, {.suffix = "_int7"});
    ASSERT_TRUE(fails(small));
    EXPECT_EQ(verify_graph(small.outputs), std::vector<std::string>{});
    EXPECT_EQ(to_text(shrink_graph(graph, fails, {.suffix = "_int7"})), to_text(small))
        << "not the same again";
    EXPECT_LE(topological_order(small.outputs).size(), 8U) << to_text(small);
    EXPECT_LE(small.outputs.size(), 2U);
    EXPECT_EQ(run(small, seed).size(), small.outputs.size());
    int64_t largest = 0;
    for (const Node& node : topological_order(small.outputs))
      largest = std::max(largest, num_elements(node.shape()));
    EXPECT_LE(largest, 8) << to_text(small);
  }
  EXPECT_GE(num_failing, 15);
}

}  // namespace
}  // namespace tenon::testing
