// Whole programs through each renderer and through the interpreter: loops, branches, masks, memory,
// vectors, arguments and names. All buffers are compared byte for byte.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <map>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/interp/interpret.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"
#include "tests/render/kernel_library.h"
#include "tests/render/random_program.h"
#include "tests/render/text_lint.h"

namespace tenon::testing {
namespace {

// Index buffers hold numbers below 64, and every other buffer at least 64 elements.
constexpr const char* kPrograms[] = {
    // Carried values that trade places, some of them dead, from loops that may not run at all.
    R"(tir 1 func rotate grid(1) lanes(1) scratch 0 {
      arg 0 x i32[64] read; arg 1 y i32[64] write; arg 2 n i32 in 0..7; arg 3 none i32 in 0..0
      %x = param 0; %y = param 1; %n = param 2; %none = param 3; %z = const i32 0
      %p = load i32 %x[%z]; %q = load i32 %x[%z + 1]; %r = load i32 %x[%z + 2]
      %s0, %s1, %s2, %dead = for %k = %z..%n carry %a = %p, %b = %q, %c = %r, %d = %p {
        %e = add i32 %a, %k; %f = mul i32 %d, %e; yield %b, %c, %e, %f }
      store %y[%z], %s0; store %y[%z + 1], %s1; store %y[%z + 2], %s2
      %t0, %t1 = for %k2 = %z..%n carry %u = %p, %v = %q { yield %v, %u }
      store %y[%z + 3], %t0; store %y[%z + 4], %t1
      %w0, %w1 = for %k3 = %z..%none carry %g = %p, %h = %q { yield %h, %g }
      store %y[%z + 5], %w0; store %y[%z + 6], %w1
      %o0, %o1 = for %i = %z..%n carry %oa = %p, %ob = %q {
        %i0, %i1 = for %j = %i..%n carry %ia = %ob, %ib = %oa {
          %sum = add i32 %ia, %ib; yield %sum, %ia }
        yield %i1, %i0 }
      store %y[%z + 7], %o0; store %y[%z + 8], %o1
      %back = for %m = %n..%z carry %l = %r { yield %z }
      store %y[%z + 9], %back
      %kept0, %kept1 = for %m2 = %z..%n carry %ka = %p, %kb = %q { yield %ka, %ka }
      store %y[%z + 10], %kept0; store %y[%z + 11], %kept1
    })",
    R"(tir 1 func branches grid(1) lanes(1) scratch 0 {
      arg 0 x i32[64] read; arg 1 y i32[128] write
      %x = param 0; %y = param 1; %z = const i32 0; %n = const i32 64; %three = const i32 3
      %last, %low = for %k = %z..%n carry %c = %z, %d = %n {
        %v = load i32 %x[%k]; %neg = lt i32 %v, %z; %odd = lt i32 %k, %three
        %r0, %r1 = if %neg -> i32, i32 {
          %s = if %odd -> i32 { yield %d } else { %w = add i32 %c, %d; yield %w }
          yield %s, %c
        } else { yield %v, %k }
        if %odd { store %y[%k + 64], %r1 } else { if %neg { store %y[%k + 64], %v }
          else { store %y[%k + 64], %z } }
        store %y[%k], %r0
        %both = and i1 %neg, %odd
        %m = if %both -> i1 { yield %odd } else { yield %neg }
        %t = where i32 %m, %r0, %r1
        yield %t, %r1 }
      store %y[%z], %last; store %y[%z + 1], %low
    })",
    R"(tir 1 func arguments grid(1) lanes(1) scratch 0 {
      arg 0 a i1; arg 1 y0 i8[64] write; arg 2 b i8 in -128..127; arg 3 c u8 in 0..255
      arg 4 y1 f64[64] write; arg 5 d i16 in -300..300; arg 6 e f32; arg 7 f u16 in 0..60000
      arg 8 g i32 in -5..70000; arg 9 h u32 in 0..4000000000; arg 10 i f64
      arg 11 j i64 in -5..5000000000; arg 12 y2 i64[64] write; arg 13 k u64 in 0..99
      arg 14 y3 i1[64] write; arg 15 unused f32[64] read
      %y0 = param 1; %y1 = param 4; %y2 = param 12; %y3 = param 14; %z = const i64 0
      %a = param 0; store %y3[%z], %a; %b = param 2; store %y0[%z], %b
      %c = param 3; %c1 = bitcast i8 %c; store %y0[%z + 1], %c1
      %d = param 5; %d1 = cast i64 %d; store %y2[%z], %d1
      %e = param 6; %e1 = cast f64 %e; store %y1[%z], %e1
      %f = param 7; %f1 = cast i64 %f; store %y2[%z + 1], %f1
      %g = param 8; %g1 = cast i64 %g; store %y2[%z + 2], %g1
      %h = param 9; %h1 = cast i64 %h; store %y2[%z + 3], %h1
      %i = param 10; store %y1[%z + 1], %i
      %j = param 11; store %y2[%z + 4], %j
      %k = param 13; %k1 = bitcast i64 %k; store %y2[%z + 5], %k1
    })",
    R"(tir 1 func groups grid(3,2,5) lanes(1) scratch 0 {
      arg 0 y i32[120] write
      %y = param 0; %a = grid_id 0 i32; %b = grid_id 1 i64; %c = grid_id 2 i32; %l = lane_id 0 i32
      %three = const i32 3; %two = const i32 2; %four = const i32 4; %b1 = cast i32 %b
      %s = mul i32 %c, %two; %t = add i32 %s, %b1; %u = mul i32 %t, %three; %v = add i32 %u, %a
      %at = mul i32 %v, %four
      store %y[%at], %a; store %y[%at + 1], %b1; store %y[%at + 2], %c; store %y[%at + 3], %l
    })",
    R"(tir 1 func masks grid(1) lanes(1) scratch 0 {
      arg 0 x f32[64] read; arg 1 y f32[256] readwrite; arg 2 n i32 in 0..15; arg 3 b i1[64] read
      arg 4 c i1[128] readwrite; arg 5 u i8[64] read; arg 6 w i8[256] readwrite; arg 7 on i1
      %x = param 0; %y = param 1; %n = param 2; %b = param 3; %c = param 4; %u = param 5; %w = param 6
      %on = param 7; %z = const i32 0; %alt = const f32x16 2.5; %m = first_n i1x16 %n
      %n64 = cast i64 %n; %m64 = first_n i1x16 %n64; %big = const i64 5000000000
      %all = first_n i1x16 %big; %minus = const i64 -5000000000; %nothing = first_n i1x16 %minus
      %v = load f32x16 %x[%z] gate %m alt %alt; store %y[%z], %v
      store %y[%z + 16], %v gate %m64; store %y[%z + 32], %v gate %all
      store %y[%z + 48], %v gate %nothing
      %bm = load i1x16 %b[%z + 3]; store %c[%z], %bm gate %m; %not = not i1x16 %bm
      %am = and i1x16 %not, %m; store %c[%z + 16], %am; store %y[%z + 64], %v gate %am
      %gm = load i1x16 %b[%z + 1] gate %m alt %bm; store %c[%z + 32], %gm
      %ualt = const i8x16 -7; %uv = load i8x16 %u[%z] gate %am alt %ualt; store %w[%z], %uv
      store %w[%z + 16], %uv gate %bm
      %sv = load f32x16 %x[%z + 2] gate %on alt %alt; store %y[%z + 80], %sv
      store %y[%z + 96], %sv gate %on
      %s = extract f32 %v, 3; %ss = load f32 %x[%z + 7] gate %on alt %s; store %y[%z + 112], %ss
      %off = not i1 %on; store %y[%z + 113], %ss gate %off
      %sb = load i1 %b[%z + 7] gate %off alt %on; store %c[%z + 48], %sb
      %m3 = first_n i1x3 %n; %alt3 = const f32x3 1.5
      %v3 = load f32x3 %x[%z + 5] gate %m3 alt %alt3; store %y[%z + 120], %v3
      store %y[%z + 124], %v3 gate %m3
      %m32 = first_n i1x32 %n; %u32 = const i8x32 9; %uv32 = load i8x32 %u[%z] gate %m32 alt %u32
      store %w[%z + 64], %uv32; store %w[%z + 96], %uv32 gate %m32
      %sel = where i1x16 %bm, %m, %am; store %c[%z + 64], %sel
      %eqm = xor i1x16 %bm, %m; store %c[%z + 80], %eqm
      %splat = splat i1x16 %on; store %c[%z + 96], %splat; %e1 = extract i1 %bm, 5
      store %c[%z + 112], %e1
    })",
    R"(tir 1 func gathers grid(1) lanes(1) scratch 0 {
      arg 0 x f32[80] read; arg 1 i index_i32[64] read; arg 2 y f32[256] readwrite
      arg 3 b i1[80] read; arg 4 c i1[128] readwrite; arg 5 d f64[80] read; arg 6 e f64[128] readwrite
      arg 7 u u8[80] read; arg 8 w u8[128] readwrite; arg 9 n i32 in 0..15
      %x = param 0; %i = param 1; %y = param 2; %b = param 3; %c = param 4; %d = param 5
      %e = param 6; %u = param 7; %w = param 8; %n = param 9; %z = const i32 0
      %iv = load i32x16 %i[%z]; %i64 = cast i64x16 %iv; %m = first_n i1x16 %n
      %alt = const f32x16 -1.5
      %v = load f32x16 %x[%iv + 3]; store %y[%z], %v; %vl = load f32x16 %x[%i64 + 16]
      store %y[%z + 16], %vl; %vm = load f32x16 %x[%iv] gate %m alt %alt; store %y[%z + 32], %vm
      store %y[%iv + 64], %v; store %y[%i64 + 128], %vl gate %m; store %y[%iv + 192], %alt gate %m
      %bv = load i1x16 %b[%iv]; store %c[%z], %bv; store %c[%iv + 16], %bv gate %m
      %i8 = load i32x8 %i[%z + 4]; %m8 = first_n i1x8 %n; %dalt = const f64x8 0.125
      %dv = load f64x8 %d[%i8] gate %m8 alt %dalt; store %e[%z], %dv; store %e[%i8 + 16], %dv gate %m8
      %i3 = load i32x3 %i[%z + 9]; %v3 = load f32x3 %x[%i3]; store %y[%z + 48], %v3
      store %y[%i3 + 64], %v3
      %uv = load u8x16 %u[%iv]; store %w[%z], %uv; store %w[%iv + 32], %uv
      %ualt = const u8x16 200; %um = load u8x16 %u[%i64] gate %m alt %ualt; store %w[%z + 16], %um
    })",
    R"(tir 1 func vectors grid(1) lanes(1) scratch 0 {
      arg 0 x f32[64] read; arg 1 y f32[512] write; arg 2 i i32[64] read; arg 3 j i32[512] write
      arg 4 c i1[64] write
      %x = param 0; %y = param 1; %i = param 2; %j = param 3; %c = param 4; %z = const i64 0
      %a = load f32x4 %x[%z] align 16; %b = load f32x4 %x[%z + 4] align 16
      %r = shuffle f32x4 %a, %b [3, 2, 1, 0]; store %y[%z], %r align 16
      %w = shuffle f32x8 %a, %b [0, 4, 1, 5, 2, 6, 3, 7]; store %y[%z + 4], %w align 16
      %two = shuffle f32x2 %a, %b [6, 6]; store %y[%z + 12], %two
      %one = shuffle f32 %a, %b [5]; store %y[%z + 14], %one
      %s = extract f32 %b, 2; %t = extract f32 %a, 0; %st = shuffle f32x3 %s, %t [1, 0, 1]
      store %y[%z + 16], %st
      %sp = splat f32x16 %s; store %y[%z + 64], %sp align 64
      %k = load i32 %i[%z]; %l = load i32 %i[%z + 1]; %ra = ramp i32x16 %k, %l; store %j[%z], %ra
      %ra3 = ramp i32x3 %k, %l; store %j[%z + 16], %ra3; %kk = cast i64 %k; %ll = cast i64 %l
      %ra64 = ramp i64x8 %kk, %ll; %ra32 = cast i32x8 %ra64; store %j[%z + 20], %ra32
      %lt = lt i32x16 %ra, %ra; %k16 = splat i32x16 %k; %le = le i32x16 %k16, %ra
      %mix = shuffle i1x16 %lt, %le [0, 16, 1, 17, 2, 18, 3, 19, 31, 30, 29, 28, 27, 26, 25, 24]
      store %c[%z], %mix
      %bits = bitcast i32x4 %a; store %j[%z + 64], %bits; %f = bitcast f32x4 %bits
      store %y[%z + 80], %f; %sb = bitcast i32 %s; store %j[%z + 70], %sb
      %half = load f32x32 %x[%z] align 64; store %y[%z + 128], %half align 64 nt
      %q = load f32x16 %x[%z + 1]; store %y[%z + 161], %q nt
      prefetch %x[%z + 32]; barrier
      %un = load f32 %x[%z + 16] align 64; store %y[%z + 208], %un align 8
    })",
    R"(tir 1 func scratch grid(4) lanes(1) scratch 390 {
      arg 0 x f32[64] read; arg 1 y f32[64] write
      %x = param 0; %y = param 1; %flags = alloc i1 5 group; %p = alloc f32 64 group align 64
      %q = alloc u8 70 group; %t = alloc f32 16 reg align 64; %u = alloc i1 4 reg; %dead = alloc f32 9 reg
      %g = grid_id 0 i64; %w = const i64 16; %at = mul i64 %g, %w; %z = const i64 0
      %v = load f32x16 %x[%at] align 64; store %p[%z + 48], %v align 64; store %t[%z], %v align 64
      %e = extract f32 %v, 1; %zero = const f32 0; %neg = lt f32 %e, %zero
      store %flags[%z + 4], %neg; store %u[%z + 3], %neg
      %b = cast u8 %g; store %q[%z + 69], %b; store %q[%z + 0], %b; barrier
      %k = const i64 3; %r = load f32x16 %p[%z + 48]; %s = load f32 %t[%k + 2]; %s16 = splat f32x16 %s
      %f0 = load i1 %flags[%z + 4]; %f1 = load i1 %u[%k]; %f = and i1 %f0, %f1
      %f16 = splat i1x16 %f; %o = where f32x16 %f16, %r, %s16; store %y[%at], %o align 64
      %b1 = load u8 %q[%z + 69]; %bf = cast f32 %b1; store %y[%at + 7], %bf
    })",
    R"(tir 1 func atomics grid(1) lanes(1) scratch 0 {
      arg 0 x i32[64] readwrite; arg 1 u u8[64] readwrite; arg 2 l i64[64] readwrite
      arg 3 v i32[64] read; arg 4 y i32[64] write
      %x = param 0; %u = param 1; %l = param 2; %v = param 3; %y = param 4; %z = const i32 0
      %n = const i32 64; %seven = const i32 7
      for %k = %z..%n {
        %w = load i32 %v[%k]; %at = and i32 %k, %seven; %w8 = cast u8 %w; %w64 = cast i64 %w
        %o = atomic add %x[%at], %w; store %y[%k], %o; %mi = atomic min %x[%at], %w
        %ma = atomic max %u[%at], %w8; %an = atomic and %u[%k], %w8; %or = atomic or %l[%at], %w64
        %xo = atomic xor %l[%k], %w64; %ad = atomic add %u[%at], %w8 }
    })",
    // Names that are words of C, of the renderer, or each other's.
    R"(tir 1 func main grid(1) lanes(1) scratch 0 {
      arg 0 int i32[64] read; arg 1 args i32[64] write
      %int = param 0; %args = param 1; %group = const i32 0; %f32 = load i32 %int[%group]
      %add_i32 = add i32 %f32, %f32; %f32_v = load i32 %int[%group + 1]
      %scratch = add i32 %add_i32, %f32_v; %v9 = mul i32 %scratch, %f32_v
      store %args[%group], %scratch; store %args[%group + 1], %v9; store %args[%group + 2], %f32
    })",
};

std::string with_index_dtype(std::string text) {
  for (size_t at; (at = text.find("index_i32")) != std::string::npos;)
    text.replace(at, 9, "i32");
  return text;
}

class Programs : public ::testing::TestWithParam<RendererCase> {
 protected:
  const CpuLevel& level() const { return *GetParam().level; }
  void SetUp() override {
    if (const auto why = why_not_compiled(*GetParam().renderer)) GTEST_SKIP() << *why;
  }
};

/// Runs the groups in two pieces, the later one first, and compares all buffers with the
/// interpreter's.
void run_beside_eval(const LinearProgram& program, const RenderedSource& source,
                     const KernelLibrary& library, const ArgumentOptions& options) {
  SCOPED_TRACE(program.name);
  const Arguments want = make_arguments(program, options);
  const Arguments got = make_arguments(program, options);
  interpret(program, want.values, {.fuses_mulacc = library.target().fuses_mulacc});
  const auto args = pack_arguments(program.signature, got.packed);
  const HostBuffer scratch(DType::kU8, static_cast<size_t>(program.scratch_bytes) + 1);
  const int64_t middle = num_groups(program) / 3;
  const CpuKernelFunction kernel = library.kernel(source.entry);
  kernel(args.data(), middle, num_groups(program), scratch.data());
  kernel(args.data(), 0, middle, scratch.data());
  size_t number = 0;
  for (const Argument& argument : program.signature.arguments) {
    if (!argument.is_buffer) continue;
    const HostBuffer& ours = got.buffers[number];
    const HostBuffer& theirs = want.buffers[number];
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(same_value(argument.dtype, ours.get(i), theirs.get(i)))
          << "buffer " << number << " of " << dtype_name(argument.dtype) << ", element " << i
          << ": got " << ours.get(i) << ", want " << theirs.get(i);
    }
    ++number;
  }
}

TEST_P(Programs, DoWhatEvalLinearDoes) {
  std::vector<LinearProgram> programs;
  std::vector<RenderedSource> sources;
  for (const char* text : kPrograms) {
    programs.push_back(parse_linear(with_index_dtype(text)));
    check_linear(programs.back(), nullptr, ErrorCode::kInvalidArgument);
    sources.push_back(GetParam().renderer->render(programs.back(), level().target));
  }
  const KernelLibrary library(sources, GetParam());
  ASSERT_EQ(library.problems(), "") << library.text();
  EXPECT_EQ(lint_text(*GetParam().renderer, library.text()), std::vector<std::string>{});
  if (!level().is_here) GTEST_SKIP() << "compiled only: this machine has no " << level().name;
  for (size_t p = 0; p < programs.size(); ++p) {
    run_beside_eval(programs[p], sources[p], library, {.indices = "i"});
    if (HasFailure()) FAIL() << sources[p].text;
  }
}

TEST_P(Programs, RandomOnesDoWhatEvalLinearDoes) {
  constexpr uint64_t kNumPrograms = 40;  // many to a unit
  std::vector<LinearProgram> programs;
  std::vector<RenderedSource> sources;
  std::map<std::string, int> counts;  // by kind
  const uint64_t first = static_cast<uint64_t>(setting_int(Setting::kSeed)) * 1000;
  for (uint64_t seed = first; seed < first + kNumPrograms; ++seed) {
    programs.push_back(random_program(seed, level().target));
    sources.push_back(GetParam().renderer->render(programs.back(), level().target));
    for (const InstId id : program_order(programs.back())) {
      const Inst& inst = programs.back().insts[id];
      ++counts[std::string(op_name(inst.op)) + (inst.type.lanes > 1 ? " of vectors" : "")];
    }
  }
  for (const char* kind :
       {"for", "if", "load", "load of vectors", "store of vectors", "shuffle of vectors",
        "ramp of vectors", "first_n of vectors", "cast of vectors", "where of vectors",
        "div of vectors", "shl of vectors", "min of vectors"}) {
    EXPECT_GE(counts[kind], 1) << kind;
  }
  const KernelLibrary library(sources, GetParam());
  ASSERT_EQ(library.problems(), "");
  EXPECT_EQ(lint_text(*GetParam().renderer, library.text()), std::vector<std::string>{});
  if (!level().is_here) GTEST_SKIP() << "compiled only: this machine has no " << level().name;
  for (size_t p = 0; p < programs.size(); ++p) {
    run_beside_eval(programs[p], sources[p], library,
                    {.indices = "at", .has_special_values = true, .seed = first + p});
    if (HasFailure()) FAIL() << to_text(programs[p]) << sources[p].text;
  }
}

// A memory plan may put an output where an input of another dtype was.
TEST_P(Programs, BuffersOfTwoDtypesMayBeOneMemory) {
  const LinearProgram program = parse_linear(R"(tir 1 func alias grid(1) lanes(1) scratch 0 {
    arg 0 x f32[8] read; arg 1 y i32[8] write
    %x = param 0; %y = param 1; %z = const i32 0; %seven = const i32 7
    %a = load f32 %x[%z]; store %y[%z], %seven; %b = load f32 %x[%z]
    %c = bitcast i32 %a; %d = bitcast i32 %b; store %y[%z + 1], %c; store %y[%z + 2], %d
    %v = load f32x4 %x[%z]; %w = bitcast i32x4 %v; store %y[%z + 4], %w
  })");
  const RenderedSource source = GetParam().renderer->render(program, level().target);
  const KernelLibrary library({source}, GetParam());
  ASSERT_EQ(library.problems(), "") << source.text;
  if (!level().is_here) GTEST_SKIP() << "compiled only: this machine has no " << level().name;
  HostBuffer memory(DType::kI32, 8);
  memory.set(0, 0x3f800000);
  const auto args =
      pack_arguments(program.signature, std::array{memory.address(), memory.address()});
  library.kernel(source.entry)(args.data(), 0, 1, nullptr);
  const std::array<uint64_t, 3> want{7, 0x3f800000, 7};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(memory.get(i), want[i]) << i;
    EXPECT_EQ(memory.get(4 + i), want[i]) << i;
  }
}

/// Elements that end where a page ends; the next page must not be touched.
class GuardedMemory {
 public:
  GuardedMemory() : page_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))) {
    memory_ = static_cast<std::byte*>(
        ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(memory_ + page_, page_, PROT_NONE);
  }
  ~GuardedMemory() { ::munmap(memory_, 2 * page_); }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  std::byte* before_end(size_t size_bytes) { return memory_ + page_ - size_bytes; }

 private:
  size_t page_;
  std::byte* memory_;
};

/// y[0..n) = x[0..n) through one masked vector, and by gather and scatter.
LinearProgram masked_copy(DType dtype, int lanes, bool is_gather) {
  LinearProgram program;
  program.name = concat(is_gather ? "gather_" : "copy_", dtype_name(dtype), '_', lanes);
  program.grid = {1};
  program.lanes = {1};
  Argument count{.name = "n", .dtype = DType::kI32, .is_buffer = false, .max = lanes};
  program.signature.arguments = {buffer_argument("x", dtype, ArgumentAccess::kRead),
                                 buffer_argument("y", dtype, ArgumentAccess::kWrite), count};
  LinearBuilder builder(program);
  const ValueId x = builder.param(0);
  const ValueId y = builder.param(1);
  const ValueId mask = builder.first_n(builder.param(2), lanes);
  const ValueId zero = builder.constant(value_type(DType::kI32), 0);
  const ValueId one = builder.constant(value_type(DType::kI32), 1);
  const ValueId index = is_gather ? builder.ramp(zero, one, lanes) : zero;
  const ValueId alt = builder.constant(value_type(dtype, lanes), 1);
  const ValueId value = builder.gated_load(value_type(dtype, lanes), x, index, mask, alt);
  builder.store(y, index, value, 0, mask);
  return program;
}

TEST_P(Programs, TouchNoMemoryOfInactiveLanes) {
  struct Case {
    DType dtype;
    int lanes;
    bool is_gather;
  };
  std::vector<Case> cases;
  std::vector<RenderedSource> sources;
  for (const DType dtype : {DType::kBool, DType::kI8, DType::kU16, DType::kF16, DType::kI32,
                            DType::kF32, DType::kI64, DType::kF64}) {
    for (const int lanes : {3, 4, 16, 64}) {
      for (const bool is_gather : {false, true}) {
        cases.push_back({dtype, lanes, is_gather});
        sources.push_back(
            GetParam().renderer->render(masked_copy(dtype, lanes, is_gather), level().target));
      }
    }
  }
  const KernelLibrary library(sources, GetParam());
  ASSERT_EQ(library.problems(), "") << library.text().substr(0, 20000);
  EXPECT_EQ(lint_text(*GetParam().renderer, library.text()), std::vector<std::string>{});
  if (!level().is_here) GTEST_SKIP() << "compiled only: this machine has no " << level().name;
  GuardedMemory from;
  GuardedMemory to;
  for (size_t k = 0; k < cases.size(); ++k) {
    for (int n = 0; n <= cases[k].lanes; ++n) {
      const auto size = static_cast<size_t>(n * dtype_size_bytes(cases[k].dtype));
      std::byte* x = from.before_end(size);
      std::byte* y = to.before_end(size);
      for (size_t i = 0; i < size; ++i)
        x[i] = static_cast<std::byte>(cases[k].dtype == DType::kBool ? i % 3 == 0 : 17 * i + 1);
      ::memset(y - 8, 0xa5, size + 8);
      const LinearProgram program = masked_copy(cases[k].dtype, cases[k].lanes, cases[k].is_gather);
      const auto args = pack_arguments(
          program.signature, std::array{reinterpret_cast<uint64_t>(x),
                                        reinterpret_cast<uint64_t>(y), static_cast<uint64_t>(n)});
      library.kernel(sources[k].entry)(args.data(), 0, 1, nullptr);
      EXPECT_EQ(::memcmp(x, y, size), 0) << sources[k].entry << " n = " << n;
      EXPECT_EQ(y[-1], std::byte{0xa5}) << sources[k].entry << " n = " << n;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Renderers, Programs, ::testing::ValuesIn(renderer_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon::testing
