// Register buffers as SSA values: what is carried by loops and branches, and that reading one that
// was not written is an error of ours. SPDX-License-Identifier: MIT

#include "tenon/codegen/emit_linear.h"

#include <gtest/gtest.h>

#include <array>

#include "tenon/codegen/choose_index_width.h"
#include "tenon/interp/interpret.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

LinearProgram emitted(std::string_view body) {
  const std::string text =
      concat("nest k grid() lanes() { in x: i32[4] out y: i32[4] alloc r: i32[2] reg ", body, " }");
  return emit_linear(give_indices_width(parse_kernel(text, "test"), DType::kI32), DType::kI32);
}

void expect_refused(std::string_view body, std::string_view element) {
  EXPECT_ERROR(emitted(body), ErrorCode::kInternal, concat("element ", element), "'r' of 'k'",
               "is read before it is written");
}

/// y after the nest ran on x = 3, 5, 7, 11.
std::array<int32_t, 4> result_of(std::string_view body) {
  const LinearProgram program = emitted(body);
  std::array<int32_t, 4> x = {3, 5, 7, 11};
  std::array<int32_t, 4> y = {-99, -99, -99, -99};
  const std::array<ArgumentValue, 2> arguments = {
      ArgumentValue{.dtype = DType::kI32, .address = x.data(), .size_bytes = sizeof x},
      ArgumentValue{.dtype = DType::kI32, .address = y.data(), .size_bytes = sizeof y}};
  interpret(program, arguments);
  return y;
}

TEST(EmitLinear, ReadingAnUnwrittenRegisterIsABug) {
  expect_refused("y[0] = r[0]", "0");
  expect_refused("r[0] = x[0] y[0] = r[0] + r[1]", "1");
  expect_refused("r[1] += x[0]", "1");
  expect_refused("for i:4 { y[i] = r[0] r[0] = x[i] }", "0");
  expect_refused("for i:4 { r[1] = r[1] + x[i] } y[0] = r[1]", "1");
  expect_refused("if x[0] < 4 { y[0] = r[0] }", "0");
  expect_refused("if x[0] < 4 { r[0] = x[1] } else { y[0] = r[0] }", "0");
  expect_refused("r[0] = x[0] combine r[0] = add r[i] over i:2 unroll", "1");
}

TEST(EmitLinear, RegistersAreCarriedOutOfLoopsAndBranches) {
  using Values = std::array<int32_t, 4>;
  EXPECT_EQ(result_of("for i:4 { r[0] = x[i] y[i] = r[0] * 2 } y[0] = r[0]"),
            (Values{11, 10, 14, 22}));
  EXPECT_EQ(result_of("r[1] = 100 for i:4 { y[i] = r[1] r[1] += x[i] } y[0] = r[1]"),
            (Values{126, 103, 108, 115}));
  const std::string branch = "{ r[0] = x[1] r[1] = x[3] } else { r[0] = x[2] } y[0] = r[0] ";
  EXPECT_EQ(result_of(concat("if x[0] < 4 ", branch, "y[1] = r[1]")), (Values{5, 11, -99, -99}));
  // The side that wrote nothing gives 0, not what the other wrote.
  EXPECT_EQ(result_of(concat("if x[0] > 4 ", branch, "y[1] = r[1]")), (Values{7, 0, -99, -99}));
}

}  // namespace
}  // namespace tenon
