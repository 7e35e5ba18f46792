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
#include "tenon/interp/interpret.h"
#include "tenon/ir/eval_kernel.h"
#include "tenon/ir/kernel_text.h"
#include "tests/codegen/candidates.h"
#include "tests/codegen/linear_counts.h"
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
      if (rows == 4 && !is_transposed) {
        EXPECT_EQ(layout_of(laid_out), "[d1:64][d0:2048][d1:64]");
      }
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
  expect_same(product(64, 4096, 2048), {false, true, false, false});  // the rows
  expect_same(product(4, 4093, 2048), kWeights);                      // no panel divides it
  expect_same(product(4, 64, 64), kWeights);                          // it stays in the first level
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
          interpret(program, values);
          EXPECT_EQ(found.values(), expected.values())
              << rows << " rows, panels of " << panel << ", " << choice.family;
          num_plans += choice.family == "tile" ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GE(num_plans, 64U);
}

// In the loop that adds up there are whole vectors of the matrix, and no address is computed by
// dividing.
TEST(RelayoutConstants, PanelsAreReadInVectors) {
  const Target target = vector_target();
  const Kernel laid_out = relayout_constants(product(4, 4096, 2048), kWeights, target);
  ASSERT_NE(layout_of(laid_out), "");
  const LinearProgram program = lower_kernel(laid_out, target, {.verify = true});
  const RegionId loop = innermost_loop_with(program, Op::kMulAcc);
  EXPECT_GE(count_ops(program, loop, Op::kMulAcc), 16);
  EXPECT_EQ(count_ops(program, loop, Op::kLoad), 4 + 4);  // rows of x, vectors of w
  for (const Op op : {Op::kDiv, Op::kMod, Op::kShr, Op::kAnd})
    EXPECT_EQ(count_ops(program, loop, op), 0) << op_name(op);
}

/// Kernels with a parameter in panels that relayout_constants would not make, or not here: each is
/// right under every Plan, in loops of scalars too.
constexpr std::string_view kPacked[] = {
    R"(kernel k {
  out y: f32[3,48]  in x: bf16[3,10]  in w: bf16[10,48] [d1:3][d0:10][d1:16]  tmp t: f32[3,48]
  t[i,j] += f32(x[i,k]) * f32(w[k,j])  over i:3, j:48, k:10 red  start 0f32
  y[p,q] = t[p,q]  over p:3, q:48
})",
    R"(kernel k {
  out y: i32[9,64]  in x: i8[9,12]  in w: i8[12,64] [d1:2][d0:12][d1:32]  tmp t: i32[9,64]
  t[i,j] += i32(x[i,k]) * i32(w[k,j])  over i:9, j:64, k:12 red  start 0i32
  y[p,q] = t[p,q]  over p:9, q:64
})",
    R"(kernel k {
  out y: f32[4,3,32]  in x: f32[4,3,7]  in w: f32[4,7,32] [d2:2][d0:4][d1:7][d2:16]  tmp t: f32[4,3,32]
  t[b,i,j] += x[b,i,k] * w[b,k,j]  over b:4, i:3, j:32, k:7 red  start 0f32
  y[c,p,q] = t[c,p,q]  over c:4, p:3, q:32
})",
    R"(kernel k {
  out y: f32[2,32,6,9]  in x: f32[2,5,8,11]  in w: f32[32,5,3,3] [d0:2][d1:5][d2:3][d3:3][d0:16]  tmp t: f32[2,32,6,9]
  t[n,f,i,j] += x[n,c,i+u,j+v] * w[f,c,u,v]  over n:2, f:32, i:6, j:9, c:5 red, u:3 red, v:3 red  start 0f32
  y[N,F,I,J] = t[N,F,I,J]  over N:2, F:32, I:6, J:9
})",
    R"(kernel k {
  out y: f32[32,32]  in x: f32[32,32]  in w: f32[32,32] [d1:2][d0:32][d1:16]  tmp t: f32[32,32]
  t[i,j] += x[i,k] * w[k,j]  over i:32, j:32, k:32 red  start 0f32
  y[p,q] = t[p,q] + w[q,p] * w[31-p,q]  over p:32, q:32
})",
    R"(kernel k {
  out y: f32[32,5]  in w: f32[32,6] [d0:2][d1:6][d0:16]  in x: f32[6,5]  tmp t: f32[32,5]
  t[i,j] += w[i,k] * x[k,j]  over i:32, j:5, k:6 red  start 0f32
  y[p,q] = t[p,q]  over p:32, q:5
})",
    R"(kernel k {
  out y: i8[48,4]  in w: i8[48,4] [d0:3][d1:4][d0:16]
  y[i,j] = w[i,j] + 1i8  over i:48, j:4
})",
    R"(kernel k {
  out y: i8[90]  in w: i8[90] [d0:5][d0:24+8]
  y[i] = w[i] + 1i8  over i:90
})"};

TEST(RelayoutConstants, AnyKernelMayReadPanels) {
  for (const Target& target : {unit_target(), tile_target(), vector_target(), scalar_target()}) {
    for (const std::string_view text : kPacked) {
      SCOPED_TRACE(text);
      expect_candidates_keep_value(parse_kernel(text, "test"), target, 5, 8);
    }
  }
}

// Eight points are a reduction like any other.
TEST(RelayoutConstants, ATileMayBeEightPointsDeep) {
  const Kernel kernel = product(32, 64, 8);
  EXPECT_EQ(choose_plans(prepare_kernel(kernel, vector_target()), vector_target(), 1)[0].family,
            "tile");
}

}  // namespace
}  // namespace tenon::test
