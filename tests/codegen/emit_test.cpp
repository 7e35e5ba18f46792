// emit_linear on nests written by hand: vectors, masks, registers, folds, transposes. Each nest has
// one value whether eval_kernel, the interpreter or clang's code runs it.
// SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tests/codegen/linear_counts.h"
#include "tests/codegen/nest_runs.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_target.h"

namespace tenon::test {
namespace {

using ::testing::HasSubstr;

struct Nest {
  std::string_view what;
  std::string_view text;
};

// Tiles of 6x64 with two blocks of k.
constexpr std::string_view kTile = R"(
nest tile grid(g:2) lanes() {
  in a: f32[12,32]  in b: f32[32,128]  out y: f32[12,128]
  for kc:2 red { for i0:2 {
    alloc acc: f32[6,4,16] reg
    if kc == 0 { acc[i,j,v] = 0 over i:6 unroll, j:4 unroll, v:16 vec }
    else { acc[i,j,v] = y[6*i0+i, 64*g+16*j+v] over i, j, v }
    for k0:16 red { acc[i,j,v] += a[6*i0+i, 16*kc+k0] * b[16*kc+k0, 64*g+16*j+v] over i, j, v }
    y[6*i0+i, 64*g+16*j+v] = acc[i,j,v] over i, j, v
  } }
})";

// 13 rows: the last tile reads clamped rows and stores gated ones.
constexpr std::string_view kClampedTile = R"(
nest clamped_tile grid(g:2) lanes() {
  in a: f32[13,32]  in b: f32[32,128]  in bias: f32[13]  out y: f32[13,128]
  for i0:3 {
    alloc acc: f32[6,4,16] reg
    acc[i,j,v] = 0 over i:6 unroll, j:4 unroll, v:16 vec
    for k:32 red { acc[i,j,v] += a[min(6*i0+i, 12), k] * b[k, 64*g+16*j+v] over i, j, v }
    y[6*i0+i, 64*g+16*j+v] = max(acc[i,j,v] + bias[6*i0+i], 0) over i, j, v guard 6*i0+i < 13
  }
})";

constexpr std::string_view kTail = R"(
nest tail grid(g:4) lanes() {
  in a: f32[1000]  in b: f32[1000]  out y: f32[1000]
  for i:4 { y[256*g+64*i+16*u+v] = a[256*g+64*i+16*u+v] * b[256*g+64*i+16*u+v] + 2
            over u:4 unroll, v:16 vec guard 256*g+64*i+16*u+v < 1000 }
})";

const Nest kNests[] = {
    {"tile", kTile},
    {"clamped tile", kClampedTile},
    {"masked tail", kTail},
    {"row sum with a vec and an unroll red axis", R"(
nest row_sum grid(r:5) lanes() {
  in x: f32[5,200]  out y: f32[5]
  alloc t: f32[3,16] reg  alloc s: f32[] reg
  t[u,v] = 0 over u:3 unroll, v:16 vec
  for c:4 { t[u,v] += x[r, 48*c+16*u+v] over u, v }
  t[u,v] += x[r, 192+16*u+v] over u, v guard 16*u+v < 8
  combine s = sum t[u,v] over u, v
  y[r] = s[]
})"},
    {"fold of unroll axes only, a vector remains", R"(
nest column_sum grid(g:1) lanes() {
  in x: f32[50,16]  out y: f32[16]
  alloc t: f32[5,16] reg  alloc s: f32[16] reg
  t[u,v] = 0 over u:5 unroll, v:16 vec
  for c:10 { t[u,v] += x[5*c+u, v] over u, v }
  combine s[v] = sum t[u,v] over u, v
  y[v] = s[v] over v
})"},
    {"scalar registers, odd counts, max and mul", R"(
nest scalars grid(g:3) lanes() {
  in x: f64[3,35]  out y: f64[3,2]
  alloc t: f64[7] reg  alloc p: f64[3] reg  alloc m: f64[] reg  alloc q: f64[] reg
  t[u] = -inf_f64 over u:7 unroll  p[w] = 1f64 over w:3 unroll
  for c:5 { t[u] max= x[g, 7*c+u] over u  p[w] *= x[g, 7*c+w] over w }
  combine m = max t[u] over u  combine q = mul p[w] over w
  y[g,0] = m[]  y[g,1] = q[]
})"},
    {"registers read with stride 0", R"(
nest lanes_read grid(g:2) lanes() {
  in x: f32[2,4,8]  in w: f32[4,8]  out y: f32[2,4,8]
  alloc r: f32[4,8] reg  alloc s: f32[4] reg
  r[u,v] = x[g,u,v] over u:4 unroll, v:8 vec
  s[u] = w[u,u] over u
  y[g,u,v] = r[u,3] * s[u] + r[u,v] over u, v
})"},
    {"broadcast rows and columns", R"(
nest broadcast grid(g:3) lanes() {
  in a: f32[3,4]  in b: f32[64]  out y: f32[3,4,64]
  y[g,i,16*j+v] = (a[g,i] + 1) * b[16*j+v] over i:4 unroll, j:4 unroll, v:16 vec
})"},
    {"gather, scatter, reverse and stride", R"(
nest gather grid(g:2) lanes() {
  in x: f32[100]  in at: i32[64]  out y: f32[64]  out z: f32[128]  out w: f32[64]
  y[32*g+8*u+v] = x[min(max(idx(at[32*g+8*u+v]), 0), 99)] over u:4 unroll, v:8 vec
  z[2*(32*g+8*u+v)+1] = x[99-32*g-8*u-v] over u, v
  z[2*(32*g+8*u+v)] = x[3*(8*u+v)+g] over u, v
  w[63-(32*g+8*u+v)] = x[(32*g+8*u+v)*7 // 5] over u, v
})"},
    {"gates of loads: padding", R"(
nest padding grid(g:3) lanes() {
  in x: f32[3,50]  out y: f32[3,64]  out z: f32[3,64]
  y[g,16*u+v] = x[g, 16*u+v-5 if (5 <= 16*u+v) & (16*u+v < 55) else 7] over u:4 unroll, v:16 vec
  z[g,16*u+v] = x[g, u*13 if 16*u+v < 37 else -1] * 3 over u, v
})"},
    {"positions as values, conditions on them", R"(
nest positions grid(g:2) lanes() {
  in x: f32[2,48]  out y: f32[2,48]  out z: i32[2,48]
  y[g,16*u+v] = where(v < 16*u-3*g, x[g,16*u+v], where(v <= 2*g+u, f32(16*u+v), 3)) over u:3 unroll, v:16 vec
  z[g,16*u+v] = where(2*v < u+11, i32(v*v) + 5, i32(x[g,16*u+v])) over u, v
})"},
    {"16x16 transpose", R"(
nest transpose grid(g:2) lanes() {
  in x: f32[32,48]  out y: f32[48,32]
  for c:3 { y[16*c+u, 16*g+v] = x[16*g+v, 16*c+u] over u:16 unroll, v:16 vec }
})"},
    {"transposes with edges and a second use", R"(
nest ragged grid(g:3) lanes() {
  in x: i16[21,19]  out y: i16[19,21]
  for c:3 { y[8*c+u, 8*g+v] = x[8*g+v, 8*c+u] + x[8*g+v, 0] over u:8 unroll, v:8 vec
            guard 8*c+u < 19, 8*g+v < 21 }
})"},
    {"bools transposed; one element read under a mask of two conditions", R"(
nest masks grid(g:2) lanes() {
  in p: bool[16,16]  in x: f32[2,8]  out q: bool[16,16]  out y: f32[2,2,8]
  alloc t: f32[8] group
  q[8*g+u, w] = p[w, 8*g+u] | (u < w) over u:8 unroll, w:16 vec
  t[v] = x[g,v] over v:8 vec
  y[g,e,v] = -1 over e:2 unroll, v
  y[g,e,v] = t[e] + t[v] over e, v guard v < 3+2*e, 3*e < v
})"},
    {"one element for all lanes that is not there if none of them is wanted", R"(
nest edge grid(g:2) lanes() {
  in t: f32[3]  in x: f32[2,33]  out y: f32[2,33]
  y[g,16*u+v] = 0 over u:4 unroll, v:16 vec guard 16*u+v < 33
  y[g,16*u+v] = t[u] * x[g,16*u+v] over u, v guard 16*u+v < 17+16*g
})"},
    {"bool squares", R"(
nest bool_square grid(g:2) lanes() {
  in p: bool[16,16]  out q: bool[16,16]
  for c:2 { q[8*g+u, 8*c+w] = p[8*c+w, 8*g+u] over u:8 unroll, w:8 vec }
})"},
    {"f16", R"(
nest halves grid(g:2) lanes() {
  in x: f16[100]  in w: f16[1]  out y: f16[100]
  for i:4 { y[50*g+16*i+v] = x[50*g+16*i+v] * w[0] + x[50*g+16*i+v] over v:16 vec guard 16*i+v < 50 }
})"},
    {"bf16 and f8", R"(
nest brains grid(g:2) lanes() {
  in x: bf16[100]  in w: f8e4m3[100]  out y: bf16[100]
  for i:4 { y[50*g+16*i+v] = x[50*g+16*i+v] * bf16(w[50*g+16*i+v]) over v:16 vec guard 16*i+v < 50 }
})"},
    {"i8, u8, i64 and bool", R"(
nest bytes grid(g:2) lanes() {
  in x: i8[70]  in p: bool[70]  in q: i64[70]  out y: i8[70]  out b: bool[70]  out c: i64[70]
  for i:3 {
    y[35*g+16*i+v] = where(p[35*g+16*i+v], x[35*g+16*i+v] * 3, -x[35*g+16*i+v])
                     over v:16 vec guard 16*i+v < 35
    b[35*g+16*i+v] = p[35*g+16*i+v] | (x[35*g+16*i+v] < 4) over v guard 16*i+v < 35
  }
  for h:5 { c[35*g+8*h+w] = q[35*g+8*h+w] * q[35*g+8*h+w] - 100 over w:8 vec guard 8*h+w < 35 }
})"},
    {"f64, in place, and a reduction in memory", R"(
nest doubles grid(g:2) lanes() {
  inout x: f64[2,24]  inout s: f64[2,8]
  x[g,8*u+v] = x[g,8*u+v] * 0.5 over u:3 unroll, v:8 vec
  s[g,v] += x[g,8*r+v] over r:3 red unroll, v guard 8*r+v < 19
})"},
    {"a copy with seq axes, a panel in group memory", R"(
nest panel grid(g:2) lanes() {
  in b: f32[10,64]  out y: f32[64,10]
  alloc bp: f32[n:32,k:10] group [n/16][k][n:16]
  bp[16*j+v, k] = b[k, 32*g+16*j+v] over k:10 seq, j:2 unroll, v:16 vec
  y[32*g+n, k] = bp[n, k] over n:32 seq, k:10 unroll
})"},
    {"a mask of two conditions on a register", R"(
nest both grid(g:3) lanes() {
  in x: f32[3,5,16]  out y: f32[3,16]
  alloc m: f32[16] reg
  m[v] = -1 over v:16 vec
  for r:5 { m[v] max= x[g,r,v] over v guard v < 3*r+g, r < v }
  y[g,v] = m[v] over v
})"},
};

std::vector<Kernel> all_nests() {
  std::vector<Kernel> nests;
  for (const Nest& nest : kNests)
    nests.push_back(parse_kernel(nest.text, nest.what));
  nests.push_back(golden_nest("matmul_nest.tk"));
  nests.push_back(golden_nest("softmax_nest.tk"));
  for (size_t i = 0; i < nests.size(); ++i)
    nests[i].name = concat(nests[i].name, '_', i);
  return nests;
}

std::string_view text_of(std::string_view what) {
  for (const Nest& nest : kNests) {
    if (nest.what == what) return nest.text;
  }
  ADD_FAILURE() << "no nest " << what;
  return "";
}

TEST(EmitLinear, ProgramsHaveTheValueOfTheirNest) {
  for (const Kernel& nest : all_nests()) {
    SCOPED_TRACE(nest.name);
    for (const uint64_t seed : {1U, 2U}) {
      EXPECT_EQ(evaluate_nest(lower_nest(nest, scalar_target()), seed), "");
    }
  }
}

TEST(EmitLinear, CompiledProgramsHaveTheSameValue) {
  EXPECT_EQ(run_compiled(all_nests()), "");
}

TEST(EmitLinear, TheInnerLoopOfATileHasNothingButItsTile) {
  const LinearProgram program = lower_nest(kTile, scalar_target()).cleaned;
  const RegionId loop = innermost_loop_with(program, Op::kMulAcc);
  int vector_loads = 0;
  int scalar_loads = 0;
  int others = 0;
  for (const InstId id : program.regions[loop].insts) {
    const Inst& inst = program.insts[id];
    if (inst.op == Op::kLoad) {
      (inst.type.lanes == 16 ? vector_loads : scalar_loads) += 1;
    } else if (inst.op != Op::kMulAcc && inst.op != Op::kSplat && inst.op != Op::kYield) {
      others += 1;
    }
  }
  EXPECT_EQ(vector_loads, 4);
  EXPECT_EQ(scalar_loads, 6);
  EXPECT_EQ(count_ops(program, loop, Op::kSplat), 6);
  EXPECT_EQ(count_ops(program, loop, Op::kMulAcc), 24);
  EXPECT_LE(others, 4) << to_text(program);
}

// Loads and stores with a vector of indices.
int count_scattered(const LinearProgram& program) {
  int count = 0;
  for (const InstId id : program_order(program)) {
    const Inst& inst = program.insts[id];
    if (inst.op != Op::kLoad && inst.op != Op::kStore) continue;
    count += program.type_of(program.operands_of(inst)[1]).lanes > 1 ? 1 : 0;
  }
  return count;
}

TEST(EmitLinear, ATransposeIsRowsAndShuffles) {
  const LinearProgram program = lower_nest(text_of("16x16 transpose"), scalar_target()).cleaned;
  EXPECT_EQ(count_ops(program, 0, Op::kLoad), 16);
  EXPECT_EQ(count_ops(program, 0, Op::kStore), 16);
  EXPECT_EQ(count_ops(program, 0, Op::kShuffle), 16 * 4);
  EXPECT_EQ(count_scattered(program), 0) << to_text(program);
  const LinearProgram ragged =
      lower_nest(text_of("transposes with edges and a second use"), scalar_target()).cleaned;
  EXPECT_EQ(count_ops(ragged, 0, Op::kShuffle), 8 * 3);
}

TEST(EmitLinear, MasksStandOutsideOfLoopsThatTheyDoNotDependOn) {
  const LinearProgram program = lower_nest(R"(
nest rows grid(g:4) lanes() {
  in x: f32[4,50,40]  out y: f32[4,50,40]
  for r:50 { for c:2 { y[g,r,16*c+v] = x[g,r,16*c+v] + 1 over v:16 vec }
    y[g,r,32+v] = x[g,r,32+v] + 1 over v guard 32+v < 40 } })",
                                           scalar_target())
                                    .cleaned;
  EXPECT_EQ(count_ops(program, 0, Op::kFirstN), 1);
  EXPECT_EQ(innermost_loop_with(program, Op::kFirstN), kNoId) << to_text(program);
}

TEST(EmitLinear, PiecesOfATailThatAreFullOrEmptyHaveNoMask) {
  // Of 4 vectors of 16, 40 elements fill two, reach into the third and miss the last.
  const LinearProgram program = lower_nest(R"(
nest pieces grid(g:4) lanes() {
  in x: f32[4,40]  out y: f32[4,40]
  y[g,16*u+v] = x[g,16*u+v] over u:4 unroll, v:16 vec guard 16*u+v < 40 })",
                                           scalar_target())
                                    .cleaned;
  EXPECT_EQ(count_ops(program, 0, Op::kStore), 3);
  EXPECT_EQ(count_ops(program, 0, Op::kFirstN), 1) << to_text(program);
}

TEST(EmitLinear, WhatDoesNotVaryIsComputedOnce) {
  // 1/s once per row as a scalar; 4 vectors share one address.
  const LinearProgram program = lower_nest(R"(
nest shared grid(g:4) lanes() {
  in x: f32[64,64]  in s: f32[64]  out y: f32[64,64]
  for r:16 { y[16*g+r,16*u+v] = x[16*g+r,16*u+v] * (1 / s[16*g+r]) over u:4 unroll, v:16 vec } })",
                                           scalar_target())
                                    .cleaned;
  EXPECT_EQ(count_ops(program, 0, Op::kDiv), 1);
  EXPECT_EQ(count_ops(program, 0, Op::kSplat), 1);
  const RegionId loop = innermost_loop_with(program, Op::kStore);
  EXPECT_EQ(count_ops(program, loop, Op::kAdd) + count_ops(program, loop, Op::kMul), 3 + 4)
      << to_text(program);
  EXPECT_THAT(to_text(program), HasSubstr(" + 48] align 64"));
}

TEST(EmitLinear, NonTemporalStoresStayThat) {
  const std::string text = to_text(lower_nest(R"(
nest streams grid(g:4) lanes() {
  in x: f32[64]  out y: f32[64]
  y[16*g+v] = x[16*g+v] over v:16 vec nt })",
                                              scalar_target())
                                       .cleaned);
  EXPECT_THAT(text, HasSubstr("align 64 nt"));
}

TEST(EmitLinear, RegistersThatNoProgramCanHoldAreRefused) {
  const auto refuses = [](std::string_view body, std::initializer_list<std::string_view> words) {
    const std::string text = concat(
        "nest bad grid(g:2) lanes() { in x: f32[2,64]  out y: f32[2,64]  alloc r: f32[64] reg\n",
        body, "}");
    EXPECT_TRUE(testing::throws_error([&] { emit_unverified(text); }, ErrorCode::kInternal, words))
        << text;
  };
  refuses("y[g,v] = r[v] over v:16 vec", {"'r' of 'bad'", "element 0", "before it is written"});
  refuses("r[v] = x[g,v] over v:16 vec  r[w] = x[g,w] over w:8 vec",
          {"'r'", "vectors of 16 and of 8"});
  refuses("r[2*v] = x[g,v] over v:16 vec", {"stride 2"});
  refuses("r[v] = x[g,v] over v:16 vec  r[0] = x[g,0]", {"'r'", "written as 1 lanes", "16"});
  refuses("r[v+8] = x[g,v] over v:16 vec", {"'r'", "element 8 as vectors of 16"});
  refuses("r[v] = x[g,v] over v:16 vec  y[g,v] = r[v+1] over v", {"element 1", "vector of 16"});
  refuses("r[0] = 0  r[0] += x[g,v] over v:16 red vec", {"use an element for each and a combine"});
  refuses("y[g,3] = x[g,v] over v:16 vec", {"writes one element of 'y'"});
  refuses("y[g,8*w+v] = x[g,v] over w:8 vec, v:8 vec", {"two vec axes"});
  refuses("for i:2 { r[i] = 0 }", {"'bad'", "indexed by a loop"});
}

}  // namespace
}  // namespace tenon::test
