// Kernels that were lowered wrong, or stopped the compiler, once: every candidate Plan keeps their
// value now. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/ir/kernel_text.h"
#include "tests/codegen/candidates.h"
#include "tests/support/sanitized.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

struct Found {
  std::string_view name;
  std::string_view text;
};

// In each the dim that runs along the depth, or the columns, is moved by something else too.
constexpr Found kFound[] = {
    {"a tail of the depth in a window over bytes", R"(kernel k {
  in w: i8[16,5]  in x: i8[24,64]  out y: i32[16,20,64]  tmp t: i32[16,20,64]
  t[f,i,j] += i32(w[f,k]) * i32(x[i+k,j])  over f:16, i:20, j:64, k:5 red  start 0i32
  y[F,I,J] = t[F,I,J]  over F:16, I:20, J:64
})"},
    {"a tail of the depth in a window over halves", R"(kernel k {
  in w: bf16[16,3]  in x: bf16[24,64]  out y: f32[16,20,64]  tmp t: f32[16,20,64]
  t[f,i,j] += f32(w[f,k]) * f32(x[i+k,j])  over f:16, i:20, j:64, k:3 red  start 0f32
  y[F,I,J] = t[F,I,J]  over F:16, I:20, J:64
})"},
    {"columns that are read twice each", R"(kernel k {
  in a: bf16[16,32]  in b: bf16[32,32]  out y: f32[16,64]  tmp t: f32[16,64]
  t[i,j] += f32(a[i,k]) * f32(b[k,j // 2])  over i:16, j:64, k:32 red  start 0f32
  y[p,q] = t[p,q]  over p:16, q:64
})"},
    {"columns that are gathered", R"(kernel k {
  in a: bf16[16,32]  in b: bf16[32,40]  in at: i32[64]  out y: f32[16,64]  tmp t: f32[16,64]
  t[i,j] += f32(a[i,k]) * f32(b[k,idx(at[j]) if 0 <= idx(at[j]) & idx(at[j]) < 40 else 0bf16])  over i:16, j:64, k:32 red  start 0f32
  y[p,q] = t[p,q]  over p:16, q:64
})"},
    {"a guard that keeps an index inside", R"(kernel k {
  in a: f32[32,64]  in z: f32[64]  out y: f32[32,64]  tmp t: f32[32,64]
  t[i,j] += a[i,k] * z[k+j]  over i:32, j:64, k:64 red  start 0f32  guard k+j < 64
  y[p,q] = t[p,q]  over p:32, q:64
})"},
    {"heads that share what they multiply by", R"(kernel k {
  in q: f32[8,30,12]  in c: f32[2,33,12]  out y: f32[8,30,33]  tmp t: f32[8,30,33]
  t[h,i,j] += q[h,i,k] * c[h // 4,j,k]  over h:8, i:30, j:33, k:12 red  start 0f32
  y[H,I,J] = t[H,I,J]  over H:8, I:30, J:33
})"},
    {"a sum for each column, of as many columns as there are groups", R"(kernel k {
  in a: i8[8,16,9]  in b: i8[8,9,64]  out y: i32[8,16,8,64]  tmp t: i32[8,16,8,64]
  t[g,i,y0,j] += i32(a[g,i,k]) * i32(b[y0,k,j])  over g:8, i:16, y0:8, j:64, k:9 red  start 0i32
  y[G,I,Y,J] = t[G,I,Y,J]  over G:8, I:16, Y:8, J:64
})"},
    {"a strided convolution as wide as its vectors", R"(kernel k {
  in x: f32[3,65,129]  in z: f32[32,3,3,3]  out y: f32[32,4,64]  tmp t: f32[32,4,64]
  t[f,i,j] += x[c,2*i+u,2*j+v] * z[f,c,u,v]  over f:32, i:4, j:64, c:3 red, u:3 red, v:3 red  start 0f32
  y[F,I,J] = t[F,I,J]  over F:32, I:4, J:64
})"},
    {"a sum of halves that are loaded and no more", R"(kernel k {
  in x: bf16[17,3,40]  out y: bf16[17,40]  tmp t: bf16[17,40]
  t[i,j] += x[i,k,j]  over i:17, j:40, k:3 red  start 0bf16
  y[I,J] = t[I,J]  over I:17, J:40
})"},
    {"two axes of rows around blocks", R"(kernel k {
  in q: f32[2,3,64,16]  in c: f32[2,3,64,16]  in v: f32[2,3,64,16]  out y: f32[2,3,64,16]
  tmp s: f32[2,3,64,64]  tmp m: f32[2,3,64]  tmp o: f32[2,3,64,16]
  s[z,a,b,d] += q[z,a,b,e] * c[z,a,d,e]  over z:2, a:3, b:64, d:64, e:16 red  start 0
  m[z1,f,g] max= s[z1,f,g,h]  over z1:2, f:3, g:64, h:64 red  start -1000
  o[z2,i,j,l] += (s[z2,i,j,n] - m[z2,i,j]) * v[z2,i,n,l]  over z2:2, i:3, j:64, l:16, n:64 red  start 0
  y[z3,r,u,x] = o[z3,r,u,x]  over z3:2, r:3, u:64, x:16
})"},
};

TEST(FoundKernels, EveryCandidateKeepsTheValue) {
  constexpr size_t kNumPlans = testing::kIsSanitized ? 4 : 12;
  for (const Target& target : {unit_target(), tile_target(), vector_target()}) {
    for (const Found& found : kFound) {
      const Kernel kernel = parse_kernel(found.text, found.name);
      SCOPED_TRACE(found.name);
      EXPECT_FALSE(expect_candidates_keep_value(kernel, target, 3, kNumPlans).empty());
    }
  }
}

// A stage is zero beyond an axis only where nothing else moves along the same dim.
TEST(FoundKernels, PointsBeyondAWindowAreNotZeros) {
  const Kernel kernel = parse_kernel(
      "kernel k {\n  in b: i32[10]  out y: i32[8]  tmp t: i32[8]\n"
      "  t[i] += b[i+k] * 3i32  over i:8, k:3 red  start 0i32\n  y[j] = t[j]  over j:8\n}",
      "test");
  constexpr std::string_view kPlan =
      "plan k {\n  0 t root i@seq 1, k@seq 2, k@unroll 1; acc 1; stage b at 1\n"
      "  1 y after 0 at 1\n}";
  expect_value_kept(kernel, vector_target(), parse_plan(kPlan, kernel), 3);
}

TEST(FoundKernels, AStageOfManyElementsIsRefused) {
  const Kernel kernel = parse_kernel(
      "kernel k {\n  in b: f32[10]  out y: f32[8]  tmp t: f32[8]\n"
      "  t[i] += b[i+k]  over i:8, k:3 red  start 0f32\n  y[j] = t[j]  over j:8\n}",
      "test");
  const Plan plan = parse_plan(
      "plan k {\n  0 t root i@seq 1, k@seq 1; acc 1; stage b at 1 layout 0:4611686018427387904\n"
      "  1 y after 0 at 1\n}",
      kernel);
  EXPECT_NE(check_plan(kernel, plan, vector_target()).value_or("").find("of group memory"),
            std::string::npos);
}

}  // namespace
}  // namespace tenon::test
