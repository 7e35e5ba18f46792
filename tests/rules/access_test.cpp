// How comps walk memory: strides by axis, what is irregular, what lies in panels. Expected values
// are counted by hand. SPDX-License-Identifier: MIT

#include "tenon/rules/access.h"

#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_text.h"

namespace tenon {
namespace {

using Strides = std::vector<int64_t>;

// "store y 40,1,0; x 0,1,20 gated; w 40!,.." : a "!" marks an irregular axis.
std::string walk(std::string_view declarations, std::string_view comp) {
  const Kernel kernel =
      parse_kernel(concat("kernel k {\n  ", declarations, "\n  ", comp, "\n}"), "test");
  std::string text;
  for (const Access& access : analyze_access(kernel, std::get<Comp>(kernel.body[0].node))) {
    if (!text.empty()) text += "; ";
    if (access.is_store) text += "store ";
    text += kernel.buffers[static_cast<size_t>(access.buffer)].name;
    for (size_t i = 0; i < access.strides.size(); ++i) {
      append(text, i == 0 ? " " : ",", access.strides[i], access.is_irregular[i] ? "!" : "");
    }
    if (access.is_gated) text += " gated";
    if (access.is_packed) text += " packed";
  }
  return text;
}

TEST(AnalyzeAccess, StridesAreThoseOfTheArray) {
  EXPECT_EQ(walk("out y: f32[3,4,5]  in x: f32[5,3,4]", "y[i,j,k] = x[k,i,j]  over i:3, j:4, k:5"),
            "store y 20,5,1; x 4,1,12");
  EXPECT_EQ(walk("out y: f32[3,4]  in x: f32[10]", "y[i,j] = x[2*i+j]  over i:3, j:4"),
            "store y 4,1; x 2,1");
  EXPECT_EQ(walk("out y: f32[7]  in x: f32[7]", "y[i] = x[6-i]  over i:7"), "store y 1; x -1");
}

TEST(AnalyzeAccess, EachLoadIsThereOnce) {
  EXPECT_EQ(walk("out y: f32[3,4]  in x: f32[3,4]  in z: f32[4]",
                 "y[i,j] = x[i,j] * x[i,j] + x[i,3-j] * z[j]  over i:3, j:4"),
            "store y 4,1; x 4,1; x 4,-1; z 0,1");
}

TEST(AnalyzeAccess, WhatIsNotAStepIsIrregular) {
  EXPECT_EQ(walk("out y: f32[3,8]  in x: f32[3,4]", "y[i,j] = x[i,j // 2]  over i:3, j:8"),
            "store y 8,1; x 4,0!");
  EXPECT_EQ(walk("out y: f32[3,8]  in x: f32[3,9]  in at: i32[8]",
                 "y[i,j] = x[i,idx(at[j]) if 0 <= idx(at[j]) & idx(at[j]) < 9 else 0f32]  "
                 "over i:3, j:8"),
            "store y 8,1; at 0,1; x 9,0! gated");
}

TEST(AnalyzeAccess, PanelsHaveTheStridesWithinOne) {
  constexpr std::string_view kBuffers =
      "out y: f32[2,64,6]  in w: f32[6,64] [d1:4][d0:6][d1:16]  in p: f32[6,64] [d1:64][d0:6+2]";
  EXPECT_EQ(walk(kBuffers, "y[h,i,k] = w[k,i]  over h:2, i:64, k:6"),
            "store y 384,6,1; w 0,1,16 packed");
  // Backwards through panels, and a layout without any.
  EXPECT_EQ(walk(kBuffers, "y[h,i,k] = w[k,63-i]  over h:2, i:64, k:6"),
            "store y 384,6,1; w 0,0!,16");
  EXPECT_EQ(walk(kBuffers, "y[h,i,k] = p[k,i]  over h:2, i:64, k:6"), "store y 384,6,1; p 0,8,1");
}

}  // namespace
}  // namespace tenon
