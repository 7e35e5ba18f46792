// Operands that stay the same are read in panels where that is faster, and give the same values.
// SPDX-License-Identifier: MIT

#include "tenon/codegen/relayout_constants.h"

#include <gtest/gtest.h>

#include <random>

#include "tenon/base/integer.h"
#include "tenon/base/text.h"
#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/ir/eval_kernel.h"
#include "tenon/ir/eval_linear.h"
#include "tenon/ir/kernel_text.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

// Some rows times a matrix, which lies as (k,n), or as (n,k) if `is_transposed`.
Kernel product(int64_t rows, int64_t columns, int64_t depth, bool is_transposed = false) {
  const std::string w = is_transposed ? concat("w: f32[", columns, ",", depth, "]")
                                      : concat("w: f32[", depth, ",", columns, "]");
  return parse_kernel(
      concat("kernel k {\n  out y: f32[", rows, ",", columns, "]  in x: f32[", rows, ",", depth,
             "]  in ", w, "  tmp t: f32[", rows, ",", columns, "]\n  t[i,j] += x[i,k] * ",
             is_transposed ? "w[j,k]" : "w[k,j]", "  over i:", rows, ", j:", columns, ", k:", depth,
             " red  start 0f32\n  y[p,q] = t[p,q]  over p:", rows, ", q:", columns, "\n}"),
      "test");
}

const std::vector<bool> kWeights{false, false, true, false};

std::string layout_of(const Kernel& kernel) {
  std::string text;
  for (const LayoutPart& part : kernel.buffers[2].layout)
    text += concat("[d", part.dim, ":", part.extent, "]");
  return text;
}

TEST(RelayoutConstants, AMatrixThatFewRowsReadLiesInPanels) {
  for (const int64_t rows : {4, 16}) {
    for (const bool is_transposed : {false, true}) {
      const Kernel kernel = product(rows, 4096, 2048, is_transposed);
      const Kernel laid_out = relayout_constants(kernel, kWeights, vector_target());
      const std::vector<LayoutPart>& layout = laid_out.buffers[2].layout;
      ASSERT_EQ(layout.size(), 3U) << rows << ": " << layout_of(laid_out);
      const int columns = is_transposed ? 0 : 1;
      EXPECT_EQ(layout[0].dim, columns);
      EXPECT_EQ(layout[1].dim, 1 - columns);
      EXPECT_EQ(layout[1].extent, 2048);
      EXPECT_EQ(layout[2].dim, columns);
      EXPECT_EQ(layout[0].extent * layout[2].extent, 4096);
      const auto seconds = [](const Kernel& one) {
        return choose_plans(prepare_kernel(one, vector_target()), vector_target(), 1)
            .front()
            .cost.seconds;
      };
      EXPECT_LE(seconds(laid_out), 0.9 * seconds(kernel));
      // Nothing else is changed.
      Kernel without = laid_out;
      without.buffers[2].layout.clear();
      EXPECT_EQ(to_text(without), to_text(kernel));
    }
  }
}

TEST(RelayoutConstants, WhatIsNotFasterStays) {
  const Target target = vector_target();
  const auto expect_same = [&](const Kernel& kernel, const std::vector<bool>& is_constant) {
    EXPECT_EQ(layout_of(relayout_constants(kernel, is_constant, target)), "") << to_text(kernel);
  };
  expect_same(product(4, 4096, 2048), {false, false, false, false});
  expect_same(product(4, 4096, 2048), {false, true, false, false});  // the rows
  expect_same(product(4, 4093, 2048), kWeights);                     // no panel divides it
  expect_same(product(4, 64, 64), kWeights);                         // it stays in the first level
  // A matrix that is read twice, and one with a gate.
  expect_same(parse_kernel(R"(kernel k {
  out y: f32[4,4096]  in x: f32[4,2048]  in w: f32[2048,4096]  tmp t: f32[4,4096]
  t[i,j] += x[i,k] * (w[k,j] + w[k,4095-j])  over i:4, j:4096, k:2048 red  start 0f32
  y[p,q] = t[p,q]  over p:4, q:4096
})",
                           "test"),
              kWeights);
  expect_same(parse_kernel(R"(kernel k {
  out y: f32[4,4096]  in x: f32[4,2048]  in w: f32[2048,4096]  tmp t: f32[4,4096]
  t[i,j] += x[i,k] * w[k,j if k < 2000 else 0f32]  over i:4, j:4096, k:2048 red  start 0f32
  y[p,q] = t[p,q]  over p:4, q:4096
})",
                           "test"),
              kWeights);
}

/// Floats as kernels want them: at a whole line.
class Array {
 public:
  explicit Array(int64_t count)
      : count_(count), lines_(static_cast<size_t>(ceil_div(count, int64_t{16}))) {}
  float& at(int64_t i) { return lines_[static_cast<size_t>(i / 16)].values[i % 16]; }
  int64_t size_bytes() const { return count_ * int64_t{sizeof(float)}; }
  KernelArgument kernel_argument() {
    return {.data = reinterpret_cast<std::byte*>(&at(0)), .size_bytes = size_bytes()};
  }
  ArgumentValue value() {
    return {.is_buffer = true, .dtype = DType::kF32, .address = &at(0), .size_bytes = size_bytes()};
  }
  std::vector<float> values() {
    std::vector<float> result;
    for (int64_t i = 0; i < count_; ++i)
      result.push_back(at(i));
    return result;
  }

 private:
  struct alignas(64) Line {
    float values[16] = {};
  };
  int64_t count_;
  std::vector<Line> lines_;
};

Array numbers(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Array array(count);
  for (int64_t i = 0; i < count; ++i)
    array.at(i) = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 64;
  return array;
}

Array poisoned(int64_t count) {
  Array array(count);
  for (int64_t i = 0; i < count; ++i)
    array.at(i) = -12345;
  return array;
}

// The (k,n) or (n,k) matrix in panels of columns.
Array packed(Array& w, int64_t columns, int64_t depth, int64_t panel, bool is_transposed) {
  Array result(columns * depth);
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t k = 0; k < depth; ++k) {
      result.at((j / panel * depth + k) * panel + j % panel) =
          w.at(is_transposed ? j * depth + k : k * columns + j);
    }
  }
  return result;
}

// Every candidate Plan of the kernel in panels, run on a matrix that is packed here, gives what
// eval_kernel makes of the plain one: their sums run in one order.
TEST(RelayoutConstants, PanelsKeepTheValue) {
  constexpr int64_t kColumns = 192;
  constexpr int64_t kDepth = 70;
  const Target target = vector_target();
  size_t num_plans = 0;
  for (const int64_t rows : {1, 5, 16, 33}) {
    for (const bool is_transposed : {false, true}) {
      const Kernel kernel = product(rows, kColumns, kDepth, is_transposed);
      Array x = numbers(rows * kDepth, 1);
      Array w = numbers(kDepth * kColumns, 2);
      Array expected = poisoned(rows * kColumns);
      const KernelArgument arguments[] = {expected.kernel_argument(), x.kernel_argument(),
                                          w.kernel_argument()};
      eval_kernel(kernel, arguments);
      for (const int64_t panel : {16, 32, 48, 64}) {
        Kernel laid_out = kernel;
        const int columns = is_transposed ? 0 : 1;
        laid_out.buffers[2].layout = {
            {columns, kColumns / panel, 0}, {1 - columns, kDepth, 0}, {columns, panel, 0}};
        Array panels = packed(w, kColumns, kDepth, panel, is_transposed);
        const Kernel prepared = prepare_kernel(laid_out, target);
        for (const PlanChoice& choice : choose_plans(prepared, target, 6)) {
          const LinearProgram program =
              lower_kernel(laid_out, target, {.verify = true, .plan = choice.plan});
          Array found = poisoned(rows * kColumns);
          const ArgumentValue values[] = {found.value(), x.value(), panels.value()};
          eval_linear(program, values);
          EXPECT_EQ(found.values(), expected.values())
              << rows << " rows, panels of " << panel << ", " << choice.family;
          num_plans += choice.family == "tile" ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GE(num_plans, 64U);
}

// Panels are read in vectors: no gather, no division in the innermost loop.
TEST(RelayoutConstants, PanelsAreReadInVectors) {
  const Target target = vector_target();
  const Kernel laid_out = relayout_constants(product(4, 4096, 2048), kWeights, target);
  const LinearProgram program = lower_kernel(laid_out, target, {.verify = true});
  int loads = 0;
  for (const Inst& inst : program.insts) {
    EXPECT_NE(inst.op, Op::kFloorDiv);
    EXPECT_NE(inst.op, Op::kFloorMod);
    loads += inst.op == Op::kLoad && inst.type.lanes == 16 ? 1 : 0;
  }
  EXPECT_GE(loads, 2);
}

}  // namespace
}  // namespace tenon::test
