// The text that the LLVM renderer makes: readable, the same every time, joined without repetition,
// free of undefined results, and refused where it would be wrong. SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/render/llvm.h"
#include "tests/render/kernel_library.h"
#include "tests/render/text_lint.h"
#include "tests/support/expect_error.h"

namespace tenon::testing {
namespace {

const Target& baseline() {
  return cpu_levels()[0].target;
}
const Target& avx512() {
  return cpu_levels()[2].target;
}

/// A program of these instructions with pointers x, y, h, i and the constant z.
RenderedSource render_text(const std::string& body, const std::string& name = "k",
                           const Target& target = avx512(), const std::string& lanes = "1") {
  return llvm_renderer().render(
      parse_linear(concat("tir 1 func ", name, " grid(2) lanes(", lanes, R"() scratch 0 {
        arg 0 x f32[64] readwrite; arg 1 y f32[64] readwrite; arg 2 h f16[64] readwrite
        arg 3 i i32[64] readwrite; arg 4 n i32 in 0..7
        %x = param 0; %y = param 1; %h = param 2; %i = param 3; %n = param 4; %z = const i32 0; )",
                          body, "\n}")),
      target);
}

size_t count_of(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string_view::npos; ++at)
    ++count;
  return count;
}

TEST(LlvmText, ReadsLikeAProgram) {
  const RenderedSource source = llvm_renderer().render(parse_linear(R"(
    tir 1 func scale_rows grid(4,2) lanes(1) scratch 0 {
      arg 0 x f32[96] read; arg 1 y f32[96] write; arg 2 n i32 in 0..12
      %x = param 0; %y = param 1; %n = param 2
      %row = grid_id 1 i32; %column = grid_id 0 i32; %four = const i32 4; %width = const i32 12
      %zero = const i32 0; %none = const f32x8 0
      %w = mul i32 %row, %four; %r = add i32 %w, %column; %at = mul i32 %r, %width
      %half = const f32x8 0.1; %ok = first_n i1x8 %n
      %sum = for %i = %zero..%four carry %s = %none {
        %v = load f32x8 %x[%at + 4] gate %ok alt %none; %p = mul f32x8 %v, %half
        %t = add f32x8 %s, %p; yield %t }
      store %y[%at], %sum gate %ok
    })"),
                                                       avx512());
  EXPECT_EQ(source.entry, "scale_rows");
  EXPECT_EQ(
      source.text,
      R"(define void @scale_rows(ptr %args, i64 %group_begin, i64 %group_end, ptr %scratch) #0 {
group.entry:
  %x.a = getelementptr i8, ptr %args, i64 0
  %x = load ptr, ptr %x.a
  %y.a = getelementptr i8, ptr %args, i64 8
  %y = load ptr, ptr %y.a
  %n.a = getelementptr i8, ptr %args, i64 16
  %n = load i32, ptr %n.a
  %group.any = icmp slt i64 %group_begin, %group_end
  br i1 %group.any, label %group.body, label %group.done
group.body:
  %group = phi i64 [ %group_begin, %group.entry ], [ %group.next, %group.latch ]
  %row.q = udiv i64 %group, 4
  %row = trunc i64 %row.q to i32
  %column.r = urem i64 %group, 4
  %column = trunc i64 %column.r to i32
  %w = mul i32 %row, 4
  %r = add i32 %w, %column
  %at = mul i32 %r, 12
  %ok.e = insertelement <8 x i32> poison, i32 %n, i64 0
  %ok.v = shufflevector <8 x i32> %ok.e, <8 x i32> poison, <8 x i32> zeroinitializer
  %ok = icmp slt <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %ok.v
  br label %for.14.body
for.14.body:
  %i = phi i32 [ 0, %group.body ], [ %for.14.next, %for.14.latch ]
  %s = phi <8 x float> [ zeroinitializer, %group.body ], [ %t, %for.14.latch ]
  %v.a = getelementptr float, ptr %x, i32 %at
  %v.o = getelementptr float, ptr %v.a, i64 4
  %v = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %v.o, <8 x i1> %ok, <8 x float> zeroinitializer)
  %p = fmul <8 x float> %v, splat (float 0x3FB99999A0000000)
  %t = fadd <8 x float> %s, %p
  br label %for.14.latch
for.14.latch:
  %for.14.next = add i32 %i, 1
  %for.14.more = icmp slt i32 %for.14.next, 4
  br i1 %for.14.more, label %for.14.body, label %for.14.end
for.14.end:
  %sum = phi <8 x float> [ %t, %for.14.latch ]
  %at.19.a = getelementptr float, ptr %y, i32 %at
  call void @llvm.masked.store.v8f32.p0(<8 x float> %sum, ptr align 4 %at.19.a, <8 x i1> %ok)
  br label %group.latch
group.latch:
  %group.next = add i64 %group, 1
  %group.more = icmp slt i64 %group.next, %group_end
  br i1 %group.more, label %group.body, label %group.done
group.done:
  ret void
}

attributes #0 = { nounwind "no-builtins" "no-jump-tables"="true" "prefer-vector-width"="512" }
)");
}

TEST(LlvmText, ConstantsAreExact) {
  const std::string text =
      render_text(
          "%a = load f32 %x[%z]; %t = const f32 0.1; %b = mul f32 %a, %t; %c = const f32 3; "
          "%d = add f32 %b, %c; %inf = const f32 -inf; %e = add f32 %d, %inf; store %x[%z], %e; "
          "%v = load i32x4 %i[%z]; %m = const i32x4 -2147483648; %w = xor i32x4 %v, %m; "
          "store %i[%z], %w")
          .text;
  EXPECT_EQ(count_of(text, "fmul float %a, 0x3FB99999A0000000"), 1U) << text;
  EXPECT_EQ(count_of(text, "fadd float %b, 3.0"), 1U) << text;
  EXPECT_EQ(count_of(text, "fadd float %d, 0xFFF0000000000000"), 1U) << text;
  EXPECT_EQ(count_of(text, "xor <4 x i32> %v, splat (i32 -2147483648)"), 1U) << text;
}

TEST(LlvmText, JoinedKernelsShareWhatTheyCan) {
  const std::string stream =
      "%v = load f32x16 %x[%z]; store %y[%z], %v align 64 nt; store %x[%z], %v";
  const std::vector sources{render_text(stream, "one"), render_text(stream, "two")};
  const std::string text = llvm_renderer().join(sources);
  EXPECT_EQ(count_of(text, "define void @"), 2U);
  EXPECT_EQ(count_of(text, "attributes #0"), 1U);
  EXPECT_EQ(count_of(text, "!0 = "), 1U);
  EXPECT_EQ(count_of(text, "!nontemporal"), 2U);
  EXPECT_EQ(count_of(text, "sfence"), 2U);
  EXPECT_EQ(text, llvm_renderer().join(sources));
  EXPECT_ERROR(llvm_renderer().join(std::vector{render_text("", "one"), sources[0]}),
               ErrorCode::kInvalidArgument, "one");
}

TEST(LlvmText, RefusesWhatItCannotDo) {
  constexpr auto kUnsupported = ErrorCode::kUnsupported;
  EXPECT_ERROR(render_text("", "k", avx512(), "8,2"), kUnsupported, "LLVM, kernel k", "16 lanes");
  const std::string load = "%a = load f32 %x[%z]; ";
  EXPECT_ERROR(render_text(load + "%b = exp2 f32 %a; store %x[%z], %b"), kUnsupported, "exp2",
               "f32", "native");
  EXPECT_ERROR(render_text(load + "%b = trunc f32 %a; store %x[%z], %b", "k", baseline()),
               kUnsupported, "trunc", "native");
  EXPECT_ERROR(render_text(load + "%b = fma f32 %a, %a, %a; store %x[%z], %b", "k", baseline()),
               kUnsupported, "fma", "native");
  EXPECT_ERROR(render_text(load + "%b = cast f16 %a; store %h[%z], %b", "k", baseline()),
               kUnsupported, "cast from f32 to f16", "lower_dtypes");
  EXPECT_ERROR(render_text("%a = load f16 %h[%z]; %b = add f16 %a, %a; store %h[%z], %b"),
               kUnsupported, "add of f16", "lower_dtypes");
  EXPECT_ERROR(render_text("unit_setup 0"), kUnsupported, "no matrix unit 0");
}

TEST(LlvmText, GuardsWhatWouldBeUndefined) {
  const std::string all =
      "%a = load f32 %x[%z]; %b = load i32 %i[%z]; %v = load f32x8 %x[%z]; %w = load i32x8 %i[%z]; "
      "%d = div i32 %b, %b; %m = mod i32 %d, %b; %s = shl i32 %m, %b; %r = shr i32 %s, %b; "
      "%q = div f32 %a, %a; %c = cast i32 %q; %e = add i32 %c, %r; store %i[%z], %e; "
      "%dv = div i32x8 %w, %w; %mv = mod i32x8 %dv, %w; %sv = shl i32x8 %mv, %w; "
      "%rv = shr i32x8 %sv, %w; %cv = cast i32x8 %v; %ev = add i32x8 %cv, %rv; "
      "store %i[%z], %ev; %bv = bitcast i32x8 %v; store %i[%z + 8], %bv; "
      "%k = const i32 7; %dk = div i32 %b, %k; %sk = shl i32 %dk, %k; store %i[%z + 40], %sk; "
      "%far = const i32 32; %sf = shl i32 %dk, %far; store %i[%z + 41], %sf; "
      "%minus = const i32 -1; %dm = div i32 %b, %minus; store %i[%z + 42], %dm; "
      "%tv = cast i1x8 %v; %uv = where i32x8 %tv, %bv, %ev; store %i[%z + 16], %uv";
  const std::string text = render_text(all).text;
  EXPECT_EQ(lint_llvm(text), std::vector<std::string>{});
  // With a safe constant there is nothing to guard.
  EXPECT_EQ(count_of(text, "%dk = sdiv i32 %b, 7"), 1U) << text;
  EXPECT_EQ(count_of(text, "%sk = shl i32 %dk, 7"), 1U) << text;
}

TEST(LlvmText, LintFindsWhatIsUndefined) {
  const auto findings = [](const std::string& line) {
    return lint_llvm(
               "define void @k(ptr %args) #0 {\nentry:\n"
               "  %one = select i1 %c, i32 1, i32 %b\n  %two = select i1 %c, i32 2, i32 %b\n"
               "  %n = and i32 %b, 31\n  %far = and i32 %b, 63\n"
               "  %u = call i32 @llvm.umin.i32(i32 %b, i32 31)\n"
               "  %in = select i1 %c, float 0.0, float %x\n" +
               line + "}\n")
        .size();
  };
  for (const char* bad :
       {"  %q = sdiv i32 %a, %b\n", "  %q = urem i32 %a, 0\n", "  %q = sdiv i32 %a, %two\n",
        "  %q = srem i32 %a, -1\n", "  %q = shl i32 %a, %b\n", "  %q = ashr i32 %a, 32\n",
        "  %q = lshr i32 %a, %far\n", "  %q = fptosi float %x to i32\n",
        "  %q = add nsw i32 %a, %b\n", "  %q = fadd fast float %x, %x\n",
        "  %q = fmul contract float %x, %x\n",
        "  %q = getelementptr inbounds i8, ptr %args, i64 8\n", "  %q = add i32 undef, %a\n",
        "  %q = add i32 poison, %a\n", "  %q = call float @expf(float %x)\n",
        "  %q = call i8 asm \"nop\", \"=r,0\"(i8 0)\n",
        "  %q = call float @llvm.fmuladd.f32(float %x, float %x, float %x)\n"}) {
    EXPECT_EQ(findings(bad), 1U) << bad;
  }
  for (const char* good :
       {"  %q = sdiv i32 %a, %one\n", "  %q = urem i32 %a, 7\n", "  %q = udiv i32 %a, -1\n",
        "  %q = shl i32 %a, %n\n", "  %q = lshr i32 %a, %u\n",
        "  %q = ashr <4 x i32> %v, splat (i32 31)\n", "  %q = fdiv float %x, %x\n",
        "  %q = fptoui float %in to i32\n", "  %fast = add i32 %nsw, %a\n",
        "  %q = call float @llvm.sqrt.f32(float %x)\n",
        "  %q = call i8 asm \"\", \"=r,0\"(i8 0)\n"}) {
    EXPECT_EQ(findings(good), 0U) << good;
  }
}

}  // namespace
}  // namespace tenon::testing
