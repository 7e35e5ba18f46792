// The text that the C renderer makes: readable, the same every time, joined without repetition,
// free of undefined C, and refused where it would be wrong. SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "tenon/base/text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/render/c.h"
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

constexpr const char* kScale = R"(tir 1 func scale_rows grid(4,2) lanes(1) scratch 0 {
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
})";

TEST(CText, ReadsLikeAProgram) {
  const RenderedSource source = c_renderer().render(parse_linear(kScale), avx512());
  EXPECT_EQ(source.entry, "scale_rows");
  EXPECT_EQ(source.text, R"(#pragma clang diagnostic ignored "-Wtautological-compare"
#define HELPER static inline __attribute__((always_inline))
typedef long long i64;
typedef unsigned char u8;
typedef float f32;
typedef f32 mem_f32 __attribute__((may_alias));
typedef int i32;
typedef i32 mem_i32 __attribute__((may_alias));
typedef unsigned int u32;
typedef _Bool i1;
typedef i1 i1x8 __attribute__((ext_vector_type(8)));
typedef i32 i32x8 __attribute__((ext_vector_type(8)));
typedef f32 f32x8 __attribute__((ext_vector_type(8)));
typedef f32 a4_f32 __attribute__((may_alias, aligned(4)));

HELPER i64 div_i64(i64 a, i64 b) {
  const i64 d = b == 0 || (a == (-9223372036854775807ll - 1) && b == -1) ? 1 : b;
  return b == 0 ? 0 : a / d;
}

HELPER i64 mod_i64(i64 a, i64 b) {
  const i64 d = b == 0 || b == -1 ? 1 : b;
  return a % d;
}

HELPER i32 mul_i32(i32 a, i32 b) {
  return (i32)((u32)a * (u32)b);
}

HELPER i32 add_i32(i32 a, i32 b) {
  return (i32)((u32)a + (u32)b);
}

HELPER i1x8 first_n_i32_i1x8(i32 n) {
  return __builtin_convertvector((i32x8){0, 1, 2, 3, 4, 5, 6, 7} < (i32x8)n, i1x8);
}

HELPER f32x8 masked_load_a4_f32x8(const mem_f32 *p, i1x8 mask, f32x8 alt) {
  return __builtin_masked_load(mask, (const a4_f32 *)p, alt);
}

HELPER void masked_store_a4_f32x8(mem_f32 *p, i1x8 mask, f32x8 value) {
  __builtin_masked_store(mask, value, (a4_f32 *)p);
}

void scale_rows(const void *arguments, i64 group_begin, i64 group_end, void *scratch) {
  const u8 *const args = arguments;
  (void)scratch;
  mem_f32 *const x = *(mem_f32 *const *)(args + 0);
  mem_f32 *const y = *(mem_f32 *const *)(args + 8);
  const i32 n = *(const mem_i32 *)(args + 16);
  for (i64 group = group_begin; group < group_end; ++group) {
    const i32 row = (i32)div_i64(group, 4ll);
    const i32 column = (i32)mod_i64(group, 4ll);
    const i32 w = mul_i32(row, 4);
    const i32 r = add_i32(w, column);
    const i32 at = mul_i32(r, 12);
    const i1x8 ok = first_n_i32_i1x8(n);
    f32x8 s = (f32x8)0.0f;
    for (i32 i = 0; i < 4; ++i) {
      const f32x8 v = masked_load_a4_f32x8(&x[at + 4ll], ok, (f32x8)0.0f);
      const f32x8 p = v * (f32x8)0x1.99999ap-4f;
      const f32x8 t = s + p;
      s = t;
    }
    masked_store_a4_f32x8(&y[at], ok, s);
  }
}
)");
}

TEST(CText, IsTheSameEveryTime) {
  const LinearProgram program = parse_linear(kScale);
  const std::string first = c_renderer().render(program, avx512()).text;
  const LinearProgram copy = parse_linear(to_text(program));
  EXPECT_EQ(c_renderer().render(program, avx512()).text, first);
  EXPECT_EQ(c_renderer().render(copy, avx512()).text, first);
}

RenderedSource render_text(const std::string& body, const std::string& name = "k",
                           const Target& target = avx512(), const std::string& lanes = "1") {
  return c_renderer().render(
      parse_linear(concat("tir 1 func ", name, " grid(1) lanes(", lanes,
                          ") scratch 0 { arg 0 x f32[64] readwrite; arg 1 i i32[64] readwrite; "
                          "arg 2 h f16[64] readwrite; %x = param 0; %i = param 1; %h = param 2; "
                          "%z = const i32 0; ",
                          body, " }")),
      target);
}

size_t count_of(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST(CText, JoinedKernelsShareTheirPrelude) {
  const std::string add = "%a = load i32 %i[%z]; %b = add i32 %a, %a; store %i[%z], %b";
  const std::string mul =
      "%a = load i32 %i[%z]; %b = mul i32 %a, %a; %c = add i32 %b, %a; "
      "store %i[%z], %c";
  const std::vector<RenderedSource> sources{render_text(add, "one"), render_text(mul, "two"),
                                            render_text(add, "one")};
  const std::string text = c_renderer().join(sources);
  EXPECT_EQ(count_of(text, "HELPER i32 add_i32"), 1U);
  EXPECT_EQ(count_of(text, "HELPER i32 mul_i32"), 1U);
  EXPECT_EQ(count_of(text, "typedef int i32;"), 1U);
  EXPECT_EQ(count_of(text, "void one("), 1U);
  EXPECT_EQ(count_of(text, "void two("), 1U);
  EXPECT_EQ(c_renderer().join(std::span(sources).first(1)), sources[0].text);
  EXPECT_EQ(c_renderer().join({}), "");
  EXPECT_ERROR(c_renderer().join(std::vector{render_text(add, "one"), render_text(mul, "one")}),
               ErrorCode::kInvalidArgument, "one");
}

TEST(CText, UnusedValuesAreNotPrinted) {
  const std::string text =
      render_text("%a = load i32 %i[%z]; %b = add i32 %a, %a; %c = mul i32 %b, %b").text;
  EXPECT_EQ(count_of(text, "mul_i32"), 0U);
  EXPECT_EQ(count_of(text, "args"), 0U) << text;
}

TEST(CText, RefusesWhatItCannotDo) {
  constexpr auto kUnsupported = ErrorCode::kUnsupported;
  EXPECT_ERROR(render_text("", "k", avx512(), "8,2"), kUnsupported, "kernel k", "16 lanes");
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

TEST(CText, HasNoUndefinedCOutsideTheHelpers) {
  const std::string all =
      "%a = load f32 %x[%z]; %b = load i32 %i[%z]; %v = load f32x8 %x[%z]; %w = load i32x8 %i[%z]; "
      "%d = div i32 %b, %b; %m = mod i32 %d, %b; %s = shl i32 %m, %b; %r = shr i32 %s, %b; "
      "%q = div f32 %a, %a; %c = cast i32 %q; %e = add i32 %c, %r; store %i[%z], %e; "
      "%dv = div i32x8 %w, %w; %mv = mod i32x8 %dv, %w; %sv = shl i32x8 %mv, %w; "
      "%rv = shr i32x8 %sv, %w; %cv = cast i32x8 %v; %ev = add i32x8 %cv, %rv; "
      "store %i[%z], %ev; %bv = bitcast i32x8 %v; store %i[%z + 8], %bv; "
      "%tv = cast i1x8 %v; %uv = where i32x8 %tv, %bv, %ev; store %i[%z + 16], %uv";
  EXPECT_EQ(lint_c(render_text(all).text), std::vector<std::string>{});
  EXPECT_EQ(lint_c(render_text(all, "k", baseline()).text), std::vector<std::string>{});
}

TEST(CText, LintFindsUndefinedC) {
  const auto findings = [](const std::string& line) {
    return lint_c(
               "typedef float f32;\nvoid k(const void *arguments) {\n  const f32 x = a[0];\n  "
               "f32x8 v = b;\n  " +
               line + "\n}\n")
        .size();
  };
  EXPECT_EQ(findings("const i32 q = a / b;"), 1U);
  EXPECT_EQ(findings("const i32 q = a % b;"), 1U);
  EXPECT_EQ(findings("const i32 q = a << b;"), 1U);
  EXPECT_EQ(findings("const i32 q = a >> b;"), 1U);
  EXPECT_EQ(findings("const i32 q = (i32)x;"), 1U);
  EXPECT_EQ(findings("const i32x8 q = __builtin_convertvector(v, i32x8);"), 1U);
  EXPECT_EQ(findings("const i32 q = a + b;"), 1U);
  EXPECT_EQ(findings("const i64 q = a - 4ll;"), 1U);
  EXPECT_EQ(findings("i32 q = c[a] * b;"), 1U);
  EXPECT_EQ(findings("const i32 q = (i32)((u32)a + (u32)b);"), 0U);
  EXPECT_EQ(findings("const u32 q = a + b;"), 0U);
  EXPECT_EQ(findings("const i32 q = c[a + 16ll];"), 0U);
  EXPECT_EQ(findings("const f32 q = x / x;"), 0U);
  EXPECT_EQ(findings("const i32 q = (i32)c;"), 0U);
  EXPECT_EQ(findings("const i1x8 q = __builtin_convertvector(v, i1x8);"), 0U);
  EXPECT_EQ(lint_c("HELPER i32 add_i32(i32 a, i32 b) {\n  return a / b;\n}\n").size(), 1U);
  EXPECT_EQ(lint_c("HELPER i32 add_i32(i32 a, i32 b) {\n  return a + b;\n}\n").size(), 1U);
  EXPECT_EQ(lint_c("HELPER i32 div_i32(i32 a, i32 b) {\n  return a / b;\n}\n").size(), 0U);
}

}  // namespace
}  // namespace tenon::testing
