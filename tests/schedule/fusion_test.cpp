// Row reductions and what follows them, and contractions with their epilogues, are one kernel each,
// however they are written; what would not fit the group's memory, or would be computed by one
// group, is not. The Target is pinned. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <numeric>
#include <unordered_set>

#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/ir/graph_text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_verify.h"
#include "tenon/ir/kernel_walk.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/schedule/schedule.h"
#include "tests/support/random.h"
#include "tests/support/row_graphs.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

using testing::attention_block;
using testing::conv_bias_relu;
using testing::matmul_bias_relu;
using testing::named_row_graphs;
using testing::Random;
using testing::random_attention;
using testing::random_movement_chain;
using testing::random_row_graph;
using testing::RowGraph;
using testing::summed_product;

Node input(ShapeView shape) {
  return tensor_buffer(DType::kF32, shape);
}

std::vector<ScheduledCall> calls_of(std::span<const Node> outputs) {
  const Target target = vector_target();
  return schedule_graph(outputs, schedule_options(target)).calls;
}

std::vector<ScheduledCall> calls_of(const Node& output) {
  return calls_of(std::span(&output, 1));
}

std::string text_of(const std::vector<ScheduledCall>& calls) {
  std::string text;
  for (const ScheduledCall& call : calls)
    text += to_text(call.kernel);
  return text;
}

// One kernel, sound, with a plan that fits the target.
Kernel only_kernel(const std::vector<ScheduledCall>& calls) {
  EXPECT_EQ(calls.size(), 1U) << text_of(calls);
  const Kernel kernel = calls.at(0).kernel;
  check_kernel(kernel, KernelStage::kComps);
  for (const Target& target : {vector_target(), scalar_target()}) {
    const auto reason = check_plan(kernel, choose_plan(kernel, target), target);
    EXPECT_EQ(reason.value_or(""), "") << to_text(kernel);
  }
  return kernel;
}

bool has_vectors(const Kernel& kernel) {
  const Plan plan = choose_plan(kernel, vector_target());
  return std::all_of(plan.comps.begin(), plan.comps.end(), [](const CompPlan& entry) {
    const bool has_vec = std::any_of(entry.parts.begin(), entry.parts.end(),
                                     [](const Part& part) { return part.role == Role::kVec; });
    return has_vec || entry.parts.empty();
  });
}

// The graph with its values called and listed in another way: as text, shuffled and read back.
TensorGraph renamed(const Node& output, Random& random) {
  TensorGraph graph;
  graph.name = "rows";
  for (const Node& node : topological_order(std::span(&output, 1))) {
    if (node.op() != Op::kBuffer) continue;
    graph.inputs.push_back(node);
    graph.input_names.push_back(concat("in", graph.inputs.size()));
  }
  std::vector<size_t> order(graph.inputs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[static_cast<size_t>(random.below(static_cast<int64_t>(i)))]);
  std::vector<Node> inputs;
  for (const size_t number : order)
    inputs.push_back(graph.inputs[number]);
  graph.inputs = std::move(inputs);
  graph.outputs = {output};
  graph.output_names = {"out"};
  const std::string text = to_text(graph);
  // Each number of a value becomes another one.
  std::string shuffled;
  const auto key = static_cast<uint64_t>(random.between(1, 1000));
  for (size_t i = 0; i < text.size(); ++i) {
    shuffled += text[i];
    if (text[i] != '%' || i + 1 == text.size() || text[i + 1] < '0' || text[i + 1] > '9') continue;
    uint64_t number = 0;
    while (i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9')
      number = number * 10 + static_cast<uint64_t>(text[++i] - '0');
    append(shuffled, "v", number ^ key);
  }
  return parse_graph(shuffled, "renamed");
}

TEST(Fusion, RowsAreOneKernel) {
  Random random(1);
  for (const auto& [rows, columns] : {std::pair{4096, 1024}, {1000, 1000}, {37, 67}, {4, 10}}) {
    for (const RowGraph& graph : named_row_graphs(input, rows, columns)) {
      SCOPED_TRACE(concat(graph.name, " ", rows, "x", columns));
      only_kernel(calls_of(graph.node));
      only_kernel(calls_of(renamed(graph.node, random).outputs));
    }
  }
}

TEST(Fusion, RowsAreWalkedByVectors) {
  for (const RowGraph& graph : named_row_graphs(input, 4096, 1024)) {
    if (graph.name.find(" of ") != std::string::npos) continue;
    if (graph.name.find("axis 0") != std::string::npos) continue;
    EXPECT_TRUE(has_vectors(only_kernel(calls_of(graph.node)))) << graph.name;
  }
}

TEST(Fusion, GeneratedRowsAreOneKernel) {
  constexpr uint64_t kNumGraphs = 400;
  for (uint64_t seed = 0; seed < kNumGraphs; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    Random random(seed + 1000);
    const Node output = random_row_graph(input, seed, seed % 2 == 1);
    only_kernel(calls_of(renamed(output, random).outputs));
  }
  std::cout << "seeds 0 to " << kNumGraphs - 1 << "\n";
}

TEST(Fusion, ContractionsTakeTheirEpilogues) {
  Random random(2);
  const auto kernel_of = [&](const Node& output) {
    only_kernel(calls_of(renamed(output, random).outputs));
    return only_kernel(calls_of(output));
  };
  for (const bool is_turned : {false, true}) {
    for (const auto& [m, n, k] : {std::array{1024, 1024, 1024}, {5, 3, 7}, {96, 80, 64}}) {
      const Node product = matmul_bias_relu(input, m, n, k, is_turned);
      kernel_of(product);
      const Node residual = input(product.shape());
      kernel_of(is_turned ? tensor_binary(Op::kAdd, residual, product)
                          : tensor_binary(Op::kAdd, product, residual));
      // Matrices that lie the other way round: one of the two, or both.
      for (const int which : {0, 1, 2}) {
        int number = 0;
        const auto transposed = [&](ShapeView shape) {
          const bool is_other = shape.size() != 2 || (which < 2 && number++ != which);
          if (is_other) return input(shape);
          return tensor_permute(input(Shape{shape[1], shape[0]}), std::vector<int64_t>{1, 0});
        };
        kernel_of(matmul_bias_relu(transposed, m, n, k, is_turned));
      }
    }
    // Images and filters as they are, and with their channels last.
    for (const bool is_last : {false, true}) {
      const auto images = [&](ShapeView shape) {
        if (shape.size() != 4 || !is_last) return input(shape);
        const Shape stored{shape[0], shape[2], shape[3], shape[1]};
        return tensor_permute(input(stored), std::vector<int64_t>{0, 3, 1, 2});
      };
      const Kernel conv = kernel_of(conv_bias_relu(images, 64, 56, is_turned));
      EXPECT_EQ(conv.buffers.size(), 5U) << "out, in, weights, bias and the sum: no im2col";
    }
  }
}

TEST(Fusion, AMatmulsNestHasFewNodes) {
  const Node product = matmul_bias_relu(input, 1024, 1024, 1024, false);
  std::unordered_set<const void*> nodes;
  CodegenOptions options;
  options.on_kernel = [&](std::string_view, const Kernel& nest) {
    nodes.clear();  // the last nest counts
    for_each_stmt(nest.body, [&](const Stmt& stmt) {
      for_each_expr(stmt, [&](const Node& expr) {
        for (const Node& node : topological_order(std::span(&expr, 1)))
          nodes.insert(node.id());
      });
    });
  };
  lower_kernel(only_kernel(calls_of(product)), vector_target(), options);
  EXPECT_GT(nodes.size(), 20U);
  EXPECT_LE(nodes.size(), 200U);
}

// The first comp, and the root where there are two of them, are products in register tiles: rows by
// vectors of what is not reduced.
void expect_tiles(const Kernel& kernel, int count) {
  const Plan plan = choose_plan(kernel, vector_target());
  int first = 0;  // reduction
  while (!std::get<Comp>(kernel.body[static_cast<size_t>(first)].node).combine)
    ++first;
  for (const CompPlan& entry : plan.comps) {
    const Comp& comp = std::get<Comp>(kernel.body[static_cast<size_t>(entry.comp)].node);
    const bool is_product = entry.comp == first || (count > 1 && entry.how == How::kRoot);
    if (!is_product) continue;
    const Node vec = comp.axes[static_cast<size_t>(entry.parts.back().axis)].axis;
    EXPECT_EQ(axis_kind(vec), AxisKind::kPar) << to_text(plan, kernel);
    EXPECT_TRUE(comp.combine) << to_text(plan, kernel);
    const bool has_rows = std::any_of(entry.parts.begin(), entry.parts.end(), [](const Part& part) {
      return part.role == Role::kUnroll && part.step == 1;
    });
    EXPECT_TRUE(has_rows) << to_text(plan, kernel);
  }
}

// The scores of a block of rows stay in group memory.
TEST(Fusion, AttentionIsOneKernelOfBlocks) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    Random random(seed);
    const bool is_long = seed % 2 == 0;
    const Node output = is_long ? random_attention(input, seed, 16, 1024, 64)
                                : random_attention(input, seed, 6, 512, 80);
    const Kernel kernel = only_kernel(calls_of(renamed(output, random).outputs));
    EXPECT_TRUE(has_vectors(kernel));
    expect_tiles(kernel, 2);
    for (const BufferDecl& buffer : kernel.buffers) {
      const bool is_scores = num_elements(buffer.dims) > 6 * 512 * 512;
      EXPECT_TRUE(!is_scores || buffer.access == BufferAccess::kTmp) << buffer.name;
    }
  }
}

// What blocks of rows share is widened as they load it; a row of its own is a tmp.
TEST(Fusion, AttentionOfNarrowFloatsIsOneKernel) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const auto narrow = [&](ShapeView shape) {
      return tensor_cast(tensor_buffer(dtype, shape), DType::kF32);
    };
    for (uint64_t seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE(concat(dtype_name(dtype), ", seed ", seed));
      const Node output = seed % 2 == 0 ? random_attention(narrow, seed, 16, 1024, 64)
                                        : random_attention(narrow, seed, 6, 512, 80);
      const Kernel kernel = only_kernel(calls_of(output));
      expect_tiles(kernel, 2);
      for (const BufferDecl& buffer : kernel.buffers)
        EXPECT_TRUE(buffer.access != BufferAccess::kIn || buffer.dtype == dtype) << buffer.name;
    }
  }
}

// Queries that are scaled first are made row by row, keys and values that are take kernels of their
// own: all rows read them. So do casts that other products than those of blocks read.
TEST(Fusion, WhatAllRowsReadIsComputedOnce) {
  for (const auto& [scaled, num_kernels] : {std::pair(0, 1U), {1, 2U}, {2, 2U}}) {
    int number = 0;
    const auto operands = [&](ShapeView shape) {
      const Node x = input(shape);
      return number++ == scaled ? tensor_binary(Op::kMul, x, x) : x;
    };
    const std::vector<ScheduledCall> calls = calls_of(random_attention(operands, 3, 16, 1024, 64));
    EXPECT_EQ(calls.size(), num_kernels) << scaled << text_of(calls);
  }
  const auto narrow = [](ShapeView dims) {
    return tensor_cast(tensor_buffer(DType::kF16, dims), DType::kF32);
  };
  EXPECT_EQ(calls_of(matmul_bias_relu(narrow, 512, 512, 512, false)).size(), 4U);
}

TEST(Fusion, ProductsThatNarrowToLittleKeepTheirTiles) {
  expect_tiles(only_kernel(calls_of(random_attention(input, 3, 4, 1024, 8))), 2);
  expect_tiles(only_kernel(calls_of(summed_product(input, 1000, 24))), 1);
}

// The norm, three products for q, k and v, attention, the product with what is added to it.
TEST(Fusion, AttentionBlockIsSixKernels) {
  const std::vector<ScheduledCall> calls = calls_of(attention_block(input, 8, 1024, 64));
  EXPECT_EQ(calls.size(), 6U) << text_of(calls);
}

// Short rows are no larger than the operands, long ones do not fit the cache: two products and what
// is between them.
TEST(Fusion, AttentionThatGainsNothingIsSeparateKernels) {
  for (const int64_t size : {64, 1 << 17}) {
    const std::vector<ScheduledCall> calls = calls_of(random_attention(input, 5, 2, size, 64));
    EXPECT_GE(calls.size(), 3U) << text_of(calls);
  }
}

// One index for the whole chain.
TEST(Fusion, MovementChainsHaveNoDivision) {
  constexpr uint64_t kNumGraphs = 300;
  for (uint64_t seed = 0; seed < kNumGraphs; ++seed) {
    SCOPED_TRACE(concat("seed ", seed));
    Random random(seed);
    const Node output = random_movement_chain(input, seed);
    const Kernel kernel = only_kernel(calls_of(renamed(output, random).outputs));
    const std::string text = to_text(kernel);
    EXPECT_EQ(text.find("//"), std::string::npos) << text;
    EXPECT_EQ(text.find('%'), std::string::npos) << text;
    const LinearProgram program = lower_kernel(kernel, vector_target());
    for (const Inst& inst : program.insts) {
      EXPECT_TRUE(inst.op != Op::kDiv && inst.op != Op::kMod) << to_text(program);
    }
  }
}

// A contraction keeps the loops that make it fast: its rows are reduced by a kernel apart.
TEST(Fusion, ContractionsAreNotComputedRowByRow) {
  const Node product = matmul_bias_relu(input, 256, 512, 128, false);
  const Node sum = tensor_reduce(Op::kAdd, product, std::vector<int64_t>{1}, DType::kF32);
  const Node output = tensor_binary(Op::kSub, product, tensor_expand(sum, product.shape()));
  const std::vector<ScheduledCall> calls = calls_of(output);
  ASSERT_EQ(calls.size(), 2U) << text_of(calls);
  EXPECT_EQ(calls[0].kernel.body.size(), 2U);
}

TEST(Fusion, RowsThatDoNotFitAreStored) {
  const Target target = vector_target();
  const int64_t columns = target.max_local_bytes;  // of 4 bytes each
  const std::vector<RowGraph> graphs = named_row_graphs(input, 8, columns);
  EXPECT_EQ(graphs[0].name, "softmax");
  EXPECT_GT(calls_of(graphs[0].node).size(), 1U);
}

TEST(Fusion, OneLargeRowIsNotOneGroup) {
  const Node x = input(Shape{1, 100000});
  const Node sum = tensor_reduce(Op::kAdd, x, std::vector<int64_t>{1}, DType::kF32);
  EXPECT_EQ(calls_of(tensor_binary(Op::kSub, x, tensor_expand(sum, x.shape()))).size(), 2U);
}

// Each is computed once for a row of the other: there are no rows in common.
TEST(Fusion, ReductionsAcrossEachOtherAreStored) {
  const Node x = input(Shape{300, 400});
  Node y = x;
  for (const int64_t axis : {0, 1}) {
    const Node sum = tensor_reduce(Op::kAdd, x, std::vector<int64_t>{axis}, DType::kF32);
    y = tensor_binary(Op::kSub, y, tensor_expand(sum, x.shape()));
  }
  EXPECT_EQ(calls_of(y).size(), 2U);
}

}  // namespace
}  // namespace tenon::test
