// Which axes become one before a Plan is chosen. That values stay is what the random kernels show.
// SPDX-License-Identifier: MIT

#include "tenon/codegen/merge_axes.h"

#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_text.h"

namespace tenon::test {
namespace {

// Of `kernel k { declarations  statement }`, as it is printed behind the declarations.
std::string merged(std::string_view declarations, std::string_view statement) {
  const Kernel kernel =
      merge_axes(parse_kernel(concat("kernel k {\n", declarations, "\n", statement, "\n}"), "k"));
  const std::string text = to_text(renumber_axes(kernel));
  const size_t last = text.rfind("\n  ") + 3;
  return text.substr(last, text.rfind("\n}") - last);
}

TEST(MergeAxes, WhatAllOperandsWalkAsOneIsOne) {
  EXPECT_EQ(merged("in x: f32[4,5,6]  in z: f32[4,5,6]  out y: f32[4,5,6]",
                   "y[i,j,k] = x[i,j,k] * z[i,j,k]  over i:4, j:5, k:6"),
            "y[i_j_k] = x[i_j_k] * z[i_j_k]  over i_j_k:120");
  // A row that is the same for all, an element for each row.
  EXPECT_EQ(merged("in x: f32[4,5,6]  in b: f32[6]  out y: f32[4,5,6]",
                   "y[i,j,k] = x[i,j,k] + b[k]  over i:4, j:5, k:6"),
            "y[k+i_j*6] = x[k+i_j*6] + b[k]  over i_j:20, k:6");
  EXPECT_EQ(merged("in x: f32[4,5,6]  in b: f32[4]  out y: f32[4,5,6]",
                   "y[i,j,k] = x[i,j,k] + b[i]  over i:4, j:5, k:6"),
            "y[i*30+j_k] = x[i*30+j_k] + b[i]  over i:4, j_k:30");
  // A part of larger rows; a step; the same backwards.
  EXPECT_EQ(
      merged("in x: f32[4,5,9]  out y: f32[4,5,6]", "y[i,j,k] = x[i,j,k+2]  over i:4, j:5, k:6"),
      "y[k+i_j*6] = x[k+i_j*9+2]  over i_j:20, k:6");
  EXPECT_EQ(merged("in x: f32[4,12]  out y: f32[4,6]", "y[i,j] = x[i,j*2+1]  over i:4, j:6"),
            "y[i_j] = x[i_j*2+1]  over i_j:24");
  EXPECT_EQ(merged("in x: f32[4,6]  out y: f32[4,6]", "y[i,j] = x[3-i,5-j]  over i:4, j:6"),
            "y[i_j] = x[23-i_j]  over i_j:24");
}

TEST(MergeAxes, WhatCountsApartStays) {
  const auto stays = [](std::string_view declarations, const std::string& statement) {
    EXPECT_EQ(merged(declarations, statement), statement);
  };
  stays("in x: f32[6,4]  out y: f32[4,6]", "y[i,j] = x[j,i]  over i:4, j:6");
  stays("in x: f32[4,6]  out y: f32[4,6]", "y[i,j] = x[3-i,j]  over i:4, j:6");
  stays("out y: f32[4,6]", "y[i,j] = f32(j)  over i:4, j:6");
  stays("in x: f32[4,4]  out y: f32[4,6]", "y[i,j] = x[i,j if j < 4 else 0f32]  over i:4, j:6");
  stays("in x: f32[9]  in at: i32[4,6]  out y: f32[4,6]",
        "y[i,j] = x[idx(at[i,j])%9]  over i:4, j:6");
  // Boxes of tmps go by their dims.
  const std::string root = "y[i,j] = t[i,j]  over i:4, j:6";
  EXPECT_EQ(merged("in x: f32[4,6]  out y: f32[4,6]  tmp t: f32[4,6]",
                   "t[a,b] = x[a,b] over a:4, b:6\n" + root),
            root);
}

}  // namespace
}  // namespace tenon::test
