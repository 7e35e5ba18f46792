// Kernel text: print -> parse -> print, canonical numbers and names, errors with their place, and
// hostile text. SPDX-License-Identifier: MIT

#include "tenon/ir/kernel_text.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/ir/kernel_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::golden_kernel;
using testing::golden_text;

constexpr std::array kGoldens{"matmul_bias_relu.tk", "matmul_nest.tk",  "matmul_lanes.tk",
                              "softmax.tk",          "softmax_nest.tk", "softmax_lanes.tk",
                              "features.tk"};

Kernel parse(const std::string& text) {
  return parse_kernel(text, "t");
}

TEST(KernelText, PrintParsePrintIsTheIdentity) {
  for (const char* file : kGoldens) {
    const Kernel kernel = golden_kernel(file);
    const std::string text = to_text(kernel);
    const Kernel again = parse_kernel(text, file);
    EXPECT_EQ(to_text(again), text) << file;
    EXPECT_TRUE(equal_kernels(again, renumber_axes(kernel))) << text;
    EXPECT_TRUE(equal_kernels(kernel, renumber_axes(kernel))) << file;  // parsed: numbered already
  }
}

TEST(KernelText, LooksLikeThis) {
  EXPECT_EQ(to_text(golden_kernel("matmul_bias_relu.tk")),
            "kernel mm_bias_relu {\n"
            "  in a: f32[13,17]\n"
            "  in b: f32[17,11]\n"
            "  in bias: f32[11]\n"
            "  out y: f32[13,11]\n"
            "  tmp c: f32[13,11]\n"
            "  c[m,n] += a[m,k] * b[k,n]  over m:13, n:11, k:17 red  start 0f32\n"
            "  y[m,n] = max(c[m,n] + bias[n], 0f32)  over m, n\n"
            "}\n");
  EXPECT_EQ(to_text(parse("nest k grid(g:3) lanes(l:4, m:2) { in x: f32[96] out y: f32[96] "
                          "scalar n: i64 in 1..12 "
                          "alloc t: f16[n:12,k:8] group [n/4][k+2][n:4] align 64 "
                          "for i:4 to min(n//3, 4) { if i == 0 & n < 5 { barrier } else { "
                          "t[i,v] max= f16(x[i*8+v if i*8 < 90-v else -inf_f32]) "
                          "over v:8 vec guard v < n nt } } "
                          "combine t[0,0] = sum t[0,v] over v, l }")),
            "nest k grid(g:3) lanes(l:4, m:2) {\n"
            "  in x: f32[96]\n"
            "  out y: f32[96]\n"
            "  scalar n: i64 in 1..12\n"
            "  alloc t: f16[12,8] group [d0/4][d1+2][d0:4] align 64\n"
            "  for i:4 to min(n//3, 4) {\n"
            "    if i == 0 & n < 5 {\n"
            "      barrier\n"
            "    } else {\n"
            "      t[i,v] max= f16(x[i*8+v if i*8 < 90-v else -inf_f32])  over v:8 vec  guard v < n"
            "  nt\n"
            "    }\n"
            "  }\n"
            "  combine t[0,0] = add t[0,v]  over v, l\n"
            "}\n");
}

TEST(KernelText, PrecedenceIsKept) {
  const std::string head = "kernel k { in a: i32[4] out y: i32[4] y[i] = ";
  const auto printed = [&](const std::string& expr) {
    const Kernel kernel = parse(head + expr + " over i:4 }");
    return to_text(std::get<Comp>(kernel.body.at(0).node).value, kernel);
  };
  EXPECT_EQ(printed("a[i] - (a[0] - 1) - 2"), "a[i] - (a[0] - 1i32) - 2i32");
  EXPECT_EQ(printed("(a[i] + 1) * a[i] // (2 * a[0])"), "(a[i] + 1i32) * a[i] // (2i32 * a[0])");
  EXPECT_EQ(printed("a[i] << 1 + a[1] | a[0] & 3"), "a[i] << 1i32 + a[1] | a[0] & 3i32");
  EXPECT_EQ(printed("i32((a[0] < a[1]) == (a[1] > a[0]))"), "i32((a[0] < a[1]) == (a[0] < a[1]))");
  EXPECT_EQ(printed("a[i] - -2147483648"), "a[i] - -2147483648i32");
  EXPECT_EQ(printed("-a[i]"), "neg(a[i])");
  EXPECT_EQ(printed("a[(i+1)*2-i%3//-2]"), "a[(i+1)*2-i%3//-2]");
}

TEST(KernelText, ConstantsReadBackBitForBit) {
  for (const DType dtype : storage_dtypes()) {
    const std::string text = concat("kernel k { out y: ", dtype_name(dtype), "[1] y[0] = ");
    const int64_t all = int64_t{1} << std::min(dtype_bits(dtype), 16);
    const int shift = std::max(dtype_bits(dtype) - 16, 0);
    for (int64_t high = 0; high < (dtype == DType::kBool ? 2 : all); high += 31) {
      const uint64_t bits = static_cast<uint64_t>(high) << shift | (high % 2 != 0 && shift > 0);
      Kernel kernel = parse(concat(text, dtype == DType::kBool ? "true" : "0", " }"));
      const Node value = bits_const(dtype, bits);
      std::get<Comp>(kernel.body[0].node).value = value;
      ASSERT_EQ(std::get<Comp>(parse(to_text(kernel)).body[0].node).value, value)
          << to_text(kernel);
    }
  }
}

// x -> x*x + x, over and over: a tree of 2^40 leaves, a graph of 80 nodes.
TEST(KernelText, SharedPartsStayLinear) {
  Kernel kernel = parse("kernel k { in x: f32[4] out y: f32[4] y[i] = x[i] over i:4 }");
  Node& value = std::get<Comp>(kernel.body[0].node).value;
  for (int i = 0; i < 40; ++i)
    value = make_expr(Op::kAdd, make_expr(Op::kMul, value, value), value);
  const std::string text = to_text(kernel);
  EXPECT_LT(text.size(), 4000U);
  EXPECT_NE(text.find("let $0 = "), std::string::npos);
  EXPECT_TRUE(equal_kernels(parse(text), kernel));
  EXPECT_EQ(to_text(parse(text)), text);
}

TEST(KernelText, DeepExpressionsReadBack) {
  for (const bool to_the_right : {false, true}) {
    Kernel kernel = parse("kernel k { in x: f32[4] out y: f32[4] y[i] = x[i] over i:4 }");
    Node& value = std::get<Comp>(kernel.body[0].node).value;
    const Node one = number_const(DType::kF32, 1);
    for (int i = 0; i < 3000; ++i)
      value = to_the_right ? make_expr(Op::kSub, one, value) : make_expr(Op::kSub, value, one);
    EXPECT_TRUE(equal_kernels(parse(to_text(kernel)), kernel));
  }
}

TEST(KernelText, NumbersFollowTheTextNotTheBuilder) {
  Kernel kernel;
  kernel.name = "k";
  kernel.add_buffer({.name = "y",
                     .dtype = DType::kI32,
                     .dims = {3, 4},
                     .access = BufferAccess::kOut,
                     .scope = Scope::kGlobal});
  kernel.add_axis("unused", 9, AxisKind::kPar);
  const Node j = kernel.add_axis("j", 4, AxisKind::kPar);
  const Node i = kernel.add_axis("i", 3, AxisKind::kPar);
  Comp comp;
  comp.index = {i, j};
  comp.value = make_cast(j, DType::kI32);
  comp.axes = {{i}, {j}};
  kernel.body.push_back({comp});
  const Kernel numbered = renumber_axes(kernel);
  EXPECT_EQ(numbered.axis_names, (std::vector<std::string>{"i", "j"}));
  EXPECT_FALSE(equal_kernels(kernel, numbered));
  EXPECT_TRUE(equal_kernels(parse(to_text(kernel)), numbered));
  EXPECT_EQ(to_text(kernel), to_text(numbered));
}

TEST(KernelText, BuffersAreNumberedByTheirFirstAlloc) {
  Kernel kernel = parse(
      "nest k grid() lanes() { out y: f32[] alloc a: f32[] reg "
      "alloc b: f32[] group a[] = 1 b[] = 2 y[] = a[] - b[] }");
  std::swap(kernel.body[0], kernel.body[1]);
  const Kernel numbered = renumber_axes(kernel);
  EXPECT_EQ(numbered.buffers[1].name, "b");
  EXPECT_TRUE(equal_kernels(parse(to_text(kernel)), numbered));
}

TEST(KernelText, UnusableNamesAreChanged) {
  Kernel kernel = parse(
      "kernel k { in a: f32[2] in b: f32[2] out y: f32[2] "
      "y[i] = a[i] + b[i] over i:2  y[j] = y[j] over j:2 }");
  kernel.name = "my kernel";
  kernel.buffers[0].name = "max";
  kernel.buffers[1].name = "max_";
  kernel.buffers[2].name = "";
  kernel.axis_names = {"1\n}", "1\n}"};
  const std::string text = to_text(kernel);
  const Kernel again = parse(text);
  EXPECT_TRUE(equal_kernels(again, kernel)) << text;
  EXPECT_EQ(to_text(again), text);
  EXPECT_EQ(again.name, "my_kernel");
}

TEST(KernelText, EqualUpToNamesOnly) {
  const Kernel a = parse("kernel k { in x: f32[2] out y: f32[2] y[i] = x[i] over i:2 }");
  EXPECT_TRUE(
      equal_kernels(a, parse("kernel other { in p: f32[2] out q: f32[2] q[j] = p[j] over j:2 }")));
  for (const char* different :
       {"kernel k { in x: f32[3] out y: f32[2] y[i] = x[i] over i:2 }",
        "kernel k { in x: f32[2] out y: f32[2] y[i] = x[1-i] over i:2 }",
        "kernel k { in x: f32[2] out y: f32[2] y[i] += x[i] over i:2 }",
        "kernel k { in x: f32[2] out y: f32[2] y[i] = x[i] over i:2 vec }",
        "kernel k { in x: f32[2] out y: f32[2] y[i] = x[i] over i:2 nt }",
        "kernel k { in x: f32[2] out y: f32[2] y[i] = x[i] over i:2 guard i < 1 }",
        "nest k grid() lanes() { in x: f32[2] out y: f32[2] y[i] = x[i] over i:2 }"}) {
    EXPECT_FALSE(equal_kernels(a, parse(different))) << different;
  }
}

TEST(KernelText, ErrorsSayWhereAndWhat) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> words) {
    EXPECT_TRUE(
        testing::throws_error([&] { (void)parse(text); }, ErrorCode::kInvalidArgument, words))
        << text;
  };
  refuse("", {"t:1:1", "'kernel' or 'nest'", "the end"});
  refuse("kernel max {", {"t:1:8", "name of the kernel", "'max'"});
  refuse("kernel k {\n  in a: f33[4]", {"t:2:9", "dtype", "'f33'"});
  refuse("kernel k { in a: f32[0]", {"extent in 1..", "'0'"});
  refuse("kernel k { in a: f32[4] in a: f32[4] }", {"new name", "'a'"});
  refuse("kernel k { in a: f32[4] [n/2] }", {"name of a dim", "'n'"});
  refuse("kernel k { in a: f32[8] [d0:2][d0:2] }", {"holds the dims", "dim 0 has 8"});
  refuse("kernel k { scalar n: f32 in 1..2 }", {"integer dtype", "'f32'"});
  refuse("kernel k { scalar n: i64 in 3..2 }", {"range", "3..2"});
  const std::string head = "kernel k { in a: f32[4,2] in n: i32[4] out y: f32[4] ";
  refuse(head + "y[i] = a[i,0] over i:4", {"statement or '}'", "the end"});
  refuse(head + "y[i] = a[i] over i:4 }", {"2 indices of a", "got 1"});
  refuse(head + "y[i,0] = 1 over i:4 }", {"1 indices of y", "got 2"});
  refuse(head + "y[i] = a[i,0] }", {"buffer, scalar or axis", "'i'"});
  refuse(head + "y[i] = n[i] over i:4 }", {"value of dtype f32", "i32"});
  refuse(head + "y[i] = a[i,0] + n[i] over i:4 }", {"add", "f32 and i32"});
  refuse(head + "y[i] = a[i,0] & a[i,0] over i:4 }", {"and", "f32"});
  refuse(head + "y[i] = 1.5i32 over i:4 }", {"dtype i32", "'1.5'"});
  refuse(head + "y[i] = 300u8 over i:4 }", {"dtype u8", "'300'"});
  refuse(head + "y[i] = 1f99 over i:4 }", {"dtype behind the number", "f99"});
  refuse(head + "y[a[0,0]] = 1 }", {"index", "f32"});
  refuse(head + "y[i] = foo(1) over i:4 }", {"op or a dtype", "'foo'"});
  refuse(head + "y[i] = sqrt(a[0,0], a[0,0]) over i:4 }", {"sqrt", "takes 1", "got 2"});
  refuse(head + "y[i] = idx(a[0,0]) over i:4 }", {"idx", "integer", "f32"});
  refuse(head + "y[i] = bitcast_f32(a[0,0] < 1) over i:4 }", {"same width", "i1"});
  refuse(head + "y[i] = a[i,0 if i else 1] over i:4 }", {"dtype i1", "idx"});
  refuse(head + "y[i] = a[0,0] < 1 < 2 over i:4 }", {"do not chain"});
  refuse(head + "y[i] -= 1 over i:4 }", {"'='", "'-'"});
  refuse(head + "y[i] = 1 over i:4, i:5 }", {"axis 'i'", "extent 4"});
  refuse(head + "y[i] = 1 over a:4 }", {"name of an axis", "'a'"});
  refuse(head + "y[i] = $0 over i:4 }", {"let of this statement", "$0"});
  refuse(head + "y[i] = 1 over i:4 guard i }", {"a guard", "i1", "idx"});
  refuse(head + "if 1 { } }", {"dtype i1", "'1'"});
  refuse(head + "for i:4 to a[0,0] { } }", {"an extent", "idx", "f32"});
  refuse(head + "alloc t: f32[4", {"','", "the end"});
  refuse(head + "alloc z }", {"name of a buffer", "'z'"});
  refuse(head + "combine y[0] = sub y[0] }", {"combining op", "'sub'"});
  refuse(head + "y[0] = 1 @", {"unexpected character", "@"});
  refuse(head + "y[99999999999999999999] = 0 }", {"dtype idx"});
  refuse(head + "} extra", {"end of the text", "'extra'"});
}

TEST(KernelText, NestingIsBounded) {
  const std::string head = "kernel k { out y: f32[4] ";
  std::string deep;
  for (int i = 0; i < 100000; ++i)
    deep += "if 0 < 1 { ";
  EXPECT_ERROR(parse(head + deep), ErrorCode::kInvalidArgument, "64 levels of statements");
  for (const char* open : {"(", "- ", "neg(", "y[", "f32("}) {
    std::string expr;
    for (int i = 0; i < 100000; ++i)
      expr += open;
    EXPECT_ERROR(parse(head + "y[0] = " + expr), ErrorCode::kInvalidArgument, "64 levels");
  }
}

TEST(KernelText, TruncatedTextIsRefused) {
  for (const char* file : kGoldens) {
    const std::string text = to_text(golden_kernel(file));
    const size_t last = text.rfind('}');
    for (size_t size = 0; size <= last; ++size) {
      EXPECT_ERROR(parse(text.substr(0, size)), ErrorCode::kInvalidArgument, "t:");
    }
  }
}

// A changed byte or a removed token gives a kernel that prints and reads back, or a clean error.
TEST(KernelText, MutatedTextNeverDoesWorse) {
  uint32_t state = 20240607;
  const auto random = [&](size_t below) {
    state = state * 1664525U + 1013904223U;
    return static_cast<size_t>(state >> 8) % below;
  };
  const std::string bytes = "0123456789[]{}(),:;=+-*/%<>&|^.$ abiklmnxy\n\"\x01\xff";
  int num_accepted = 0;
  int num_refused = 0;
  for (const char* file : kGoldens) {
    const std::string text = to_text(golden_kernel(file));
    for (int round = 0; round < 400; ++round) {
      std::string mutated = text;
      for (size_t i = 0; i < 1 + random(3); ++i) {
        const size_t at = random(mutated.size());
        if (random(3) == 0) {
          mutated.erase(at, 1 + random(6));
        } else {
          mutated[at] = bytes[random(bytes.size())];
        }
      }
      try {
        const Kernel kernel = parse(mutated);
        const std::string printed = to_text(kernel);
        ASSERT_EQ(to_text(parse(printed)), printed) << mutated;
        ++num_accepted;
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what() << "\n" << mutated;
        ++num_refused;
      }
    }
  }
  EXPECT_GT(num_accepted, 100);
  EXPECT_GT(num_refused, 1000);
}

}  // namespace
}  // namespace tenon
