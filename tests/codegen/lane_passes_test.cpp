// Folds over lanes and the barriers between lanes, in nests written by hand.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "tenon/base/file.h"
#include "tenon/codegen/choose_index_width.h"
#include "tenon/codegen/emit_linear.h"
#include "tenon/codegen/expand_combine.h"
#include "tenon/codegen/flatten_indices.h"
#include "tenon/codegen/insert_barriers.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/kernel_walk.h"
#include "tests/codegen/lane_runs.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

// --- folds ---------------------------------------------------------------------------------------

// h = ceil(n/2), item i takes item i + h for i < n - h, repeat.
float halving_sum(std::vector<float> items) {
  for (size_t n = items.size(); n > 1; n = (n + 1) / 2) {
    const size_t half = (n + 1) / 2;
    for (size_t i = 0; i + half < n; ++i)
      items[i] += items[i + half];
  }
  return items[0];
}

// Position-coded, with rounded sums.
float item(int64_t group, int64_t lane) {
  return static_cast<float>(group + 1) * 1.37F + static_cast<float>(lane * lane % 97) * 0.731F;
}

TEST(LaneFolds, SumsOfAnyNumberOfLanesFollowTheTree) {
  for (const int64_t lanes : {1, 3, 25, 31, 33, 63, 65, 127, 255, 256}) {
    const std::string text =
        concat("nest sums grid(g:3) lanes(l:", lanes, ") { in x: f32[3,", lanes, "] out y: f32[3,",
               lanes, "] alloc own: f32[] reg alloc sum: f32[] reg alloc part: ", "f32[", lanes,
               "] group own[] = x[g,l] combine sum[] = add own[] over l via part ",
               "y[g,l] = sum[] * x[g,l] combine sum[] = max own[] over l via part ",
               "y[g,l] = y[g,l] + sum[] }");
    const Kernel nest = parse_kernel(text, "test");
    std::vector<float> x(static_cast<size_t>(3 * lanes));
    std::vector<float> expected(x.size());
    for (int64_t group = 0; group < 3; ++group) {
      std::vector<float> row;
      for (int64_t lane = 0; lane < lanes; ++lane)
        row.push_back(x[static_cast<size_t>(group * lanes + lane)] = item(group, lane));
      const float sum = halving_sum(row);
      const float most = *std::ranges::max_element(row);
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const auto at = static_cast<size_t>(group * lanes + lane);
        expected[at] = sum * x[at] + most;
      }
    }
    KernelMemory memory(nest, 1);
    memory.fill(0, std::as_bytes(std::span(x)));
    std::vector<std::byte> bytes(expected.size() * sizeof(float));
    std::memcpy(bytes.data(), expected.data(), bytes.size());
    EXPECT_EQ(first_wrong_pass(nest, lane_target(), memory, bytes), "") << lanes;
  }
}

// Over one or two of three lane dims, beside unroll and vec axes that are folded or stay.
TEST(LaneFolds, SomeLanesAndSomeInstancesAreFolded) {
  const std::string head =
      "nest k grid(g:2) lanes(a:2, b:3, c:5) { in x: f32[2,2,3,5,4,4] out y: f32[2,2,3,5,4] "
      "alloc p: f32[4,4] reg alloc s: f32[4] reg ";
  const std::string load = "p[i,v] = x[g,a,b,c,i,v] over i:4 unroll, v:4 vec ";
  const std::string store = "y[g,a,b,c,v] = s[v] over v }";
  struct Case {
    std::string via;
    std::string over;
  };
  for (const auto& [via, over] : {Case{"f32[5,6,4]", "a, b"},
                                  {"f32[6,5,4]", "c"},
                                  {"f32[3,10,4]", "c, a"},
                                  {"f32[30,4]", "b, a, c"}}) {
    for (const bool folds : {true, false}) {
      const std::string text =
          concat(head, "alloc part: ", via, " group ", load,
                 folds ? concat("combine s[v] = add p[i,v] over i, v, ", over, " via part ")
                       : concat("combine s[v] = add p[2,v] over v, ", over, " via part "),
                 store);
      const Kernel nest = parse_kernel(text, "test");
      KernelMemory memory(nest, 5);
      const std::vector<std::byte> expected = outputs_of(nest, memory);
      EXPECT_EQ(first_wrong_pass(nest, lane_vector_target(), memory, expected), "") << text;
    }
  }
}

TEST(LaneFolds, RefusesBuffersThatAreTooSmall) {
  const auto expand = [](std::string_view via, std::string_view how) {
    expand_combine(parse_kernel(
        concat("nest k grid() lanes(l:9) { in x: f32[9] out y: f32[9] alloc s: f32[] reg ",
               "alloc part: ", via, " group s[] = x[l] combine s[] = add s[] over l ", how,
               " y[l] = s[] }"),
        "test"));
  };
  expand("f32[9]", "via part");
  EXPECT_ERROR(expand("f32[8]", "via part"), ErrorCode::kUnsupported, "'part' does not hold", "9");
  EXPECT_ERROR(expand("f32[9,1]", "via part"), ErrorCode::kUnsupported, "'part' does not hold",
               "9");
  EXPECT_ERROR(expand("i32[9]", "via part"), ErrorCode::kUnsupported, "'part' does not hold",
               "f32");
  EXPECT_ERROR(expand("f32[9]", ""), ErrorCode::kUnsupported, "fold into 's'", "via no buffer");
}

// --- barriers ------------------------------------------------------------------------------------

int num_barriers(const Kernel& nest) {
  int count = 0;
  for_each_stmt(nest.body,
                [&](const Stmt& stmt) { count += std::holds_alternative<Barrier>(stmt.node); });
  return count;
}

// NOLINTNEXTLINE(misc-no-recursion): statement depth is at most 64
void remove_barrier(Body& body, int& number) {
  for (size_t i = 0; i < body.size(); ++i) {
    for (const Body* inner : bodies_of(body[i]))
      remove_barrier(const_cast<Body&>(*inner), number);
    if (!std::holds_alternative<Barrier>(body[i].node) || number-- != 0) continue;
    body.erase(body.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
}

LinearProgram emitted(const Kernel& nest) {
  const Kernel flat = flatten_indices(nest);
  return emit_linear(give_indices_width(flat, DType::kI32), DType::kI32);
}

// The nest with its barriers runs right, without any one of them it does not.
void expect_barriers(std::string_view text, int count) {
  const Kernel nest = insert_barriers(expand_combine(parse_kernel(text, "test")));
  EXPECT_EQ(num_barriers(nest), count) << to_text(nest);
  KernelMemory memory(nest, 3);
  const std::vector<std::byte> expected = outputs_of(nest, memory);
  EXPECT_EQ(run_lanes(emitted(nest), memory, expected), "") << to_text(nest);
  for (int i = 0; i < num_barriers(nest); ++i) {
    Kernel without = nest;
    int number = i;
    remove_barrier(without.body, number);
    EXPECT_NE(run_lanes(emitted(without), memory, expected), "")
        << "barrier " << i << " is not needed\n"
        << to_text(nest);
  }
}

const std::string kHead =
    "nest k grid(g:2) lanes(l:8) { in x: i32[2,64] out y: i32[2,64] "
    "alloc a: i32[64] group alloc b: i32[64] group ";

TEST(Barriers, StandWhereLanesMeetAndNowhereElse) {
  // A lane's own places.
  expect_barriers(kHead + "a[l] = x[g,l] y[g,l] = a[l] }", 0);
  expect_barriers(kHead +
                      "a[8*i+l] = x[g,8*i+l] over i:8 unroll "
                      "y[g,8*j+l] = a[8*j+l] over j:8 unroll }",
                  0);
  expect_barriers(kHead +
                      "for i:8 { a[8*l+i] = x[g,8*l+i] } "
                      "for j:8 { y[g,8*l+j] = a[8*l+j] } }",
                  0);
  // Another lane's: write then read, read then write, write then write.
  expect_barriers(kHead + "a[l] = x[g,l] y[g,l] = a[7-l] }", 1);
  expect_barriers(kHead + "a[l] = x[g,l] y[g,l] = a[7-l] a[l] = x[g,l+8] y[g,l+8] = a[l] }", 2);
  expect_barriers(kHead + "a[l] = x[g,l] a[7-l] = x[g,l+8] y[g,l] = a[l] }", 2);
  // Other places, and places of other buffers.
  expect_barriers(kHead +
                      "a[l] = x[g,l] a[l+8] = x[g,l+8] b[l] = x[g,l+16] "
                      "y[g,l] = a[l] y[g,l+8] = b[l] }",
                  0);
  expect_barriers(kHead +
                      "a[l] = x[g,l] guard l < 4 y[g,l] = x[g,l] "
                      "y[g,l] = a[l-4] guard 3 < l }",
                  1);
  expect_barriers(kHead +
                      "a[l] = x[g,l] guard l < 4 a[l] = x[g,l+1] guard 3 < l "
                      "y[g,l] = a[l] }",
                  0);
  // What the kernel writes is shared too; one barrier serves both.
  expect_barriers(kHead + "y[g,l] = x[g,l] y[g,l+8] = y[g,7-l] }", 1);
  expect_barriers(kHead + "y[g,l] = x[g,l] a[l] = x[g,l] y[g,l+8] = y[g,7-l] + a[7-l] }", 1);
}

TEST(Barriers, SeparateRunsOfLoops) {
  // Between write and read in each run, and between the read and the next run's write.
  expect_barriers(kHead + "for k:4 { a[l] = x[g,8*k+l] y[g,8*k+l] = a[7-l] } }", 2);
  // Only between runs.
  expect_barriers(kHead + "for k:4 { a[l+k] = x[g,8*k+l] } y[g,l] = a[7-l] }", 2);
  // Steps that are shorter than the lanes reach.
  expect_barriers(kHead + "for i:8 { a[4*i+l] = x[g,8*i+l] } y[g,l] = a[35-l] }", 2);
  // Only in front of the loop.
  expect_barriers(kHead + "a[l] = x[g,l] for k:4 { y[g,8*k+l] = a[7-l] } }", 1);
  // Each run has a place of its own.
  expect_barriers(kHead +
                      "for k:4 { a[8*k+l] = x[g,8*k+l] } "
                      "for k:4 { y[g,8*k+l] = a[8*k+7-l] } }",
                  1);
  // An inner loop's reads meet the outer loop's next write.
  expect_barriers(kHead +
                      "for k:2 { a[l] = x[g,8*k+l] for j:2 { "
                      "y[g,16*k+8*j+l] = a[7-l] + i32(j) } } }",
                  2);
  // What was written first needs no barrier of its own: that between runs separates it as well.
  expect_barriers(kHead +
                      "a[l] = x[g,l] for k:4 { b[l] = x[g,8*k+l] y[g,8*k+l] = a[7-l] + b[7-l] "
                      "a[l] = x[g,8*k+l] }  }",
                  2);
}

TEST(Barriers, StandUnderConditionsThatAllLanesShare) {
  expect_barriers(kHead +
                      "for k:4 { if k < 2 { a[l] = x[g,8*k+l] y[g,8*k+l] = a[7-l] } else { "
                      "y[g,8*k+l] = x[g,8*k+l] } } }",
                  2);
  expect_barriers(kHead + "a[l] = x[g,l] if l < 3 { y[g,l] = a[7-l] } else { y[g,l] = x[g,l] } }",
                  1);
  EXPECT_ERROR(
      insert_barriers(parse_kernel(kHead + "if l < 3 { a[l] = x[g,l] y[g,l] = a[2-l] } }", "test")),
      ErrorCode::kUnsupported, "not all of them take", "no barrier can stand");
}

TEST(Barriers, OfFoldsSeparateTheirSteps) {
  const auto fold = [](int lanes, std::string_view rest) {
    return concat("nest k grid(g:2) lanes(l:", lanes, ") { in x: i32[2,64] out y: i32[2,64] ",
                  "alloc s: i32[] reg alloc part: i32[", lanes,
                  "] group s[] = x[g,l] combine s[] = add s[] over l via part ", rest, " }");
  };
  const std::string store = "y[g,l] = s[]";
  expect_barriers(fold(2, store), 2);
  expect_barriers(fold(7, store), 4);
  expect_barriers(fold(64, store), 7);
  // The buffer is used again.
  expect_barriers(fold(7, "s[] = s[] * 2 + i32(l) combine s[] = add s[] over l via part " + store),
                  9);
}

TEST(Barriers, OfWholeNestsAreThoseWrittenByHand) {
  for (const auto& [name, count] : {std::pair("matmul_lanes.tk", 2), {"softmax_lanes.tk", 11}}) {
    const std::string path = concat(TENON_SOURCE_DIR "/tests/golden/kernel/", name);
    Kernel nest = parse_kernel(read_file(path), name);
    KernelMemory memory(nest, 2);
    const std::vector<std::byte> expected = outputs_of(nest, memory);
    const bool is_exact = nest.name != "softmax";  // exp is decomposed, hence rounded
    const std::string wrong =
        is_exact ? first_wrong_pass(nest, lane_target(), memory, expected) : "";
    EXPECT_EQ(wrong, "");
    for (int number = 0; num_barriers(nest) > 0; number = 0)
      remove_barrier(nest.body, number);
    EXPECT_EQ(num_barriers(insert_barriers(expand_combine(nest))), count);
  }
}

}  // namespace
}  // namespace tenon::test
