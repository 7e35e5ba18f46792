// The .tir text form: what is printed, that it reads back, and every refusal with its place.
// SPDX-License-Identifier: MIT

#include "tenon/ir/linear_text.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tenon/ir/linear_verify.h"
#include "tests/ir/linear_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidArgument;

// Canonical text with every op of the linear level.
constexpr std::string_view kEveryOp = R"(tir 1 func every_op grid(4,2) lanes(8) scratch 320 {
  arg 0 a f32[1000] read
  arg 1 "y 2" f32[1000] readwrite
  arg 2 counts i32[16] write
  arg 3 n i32 in -5..1000
  arg 4 s f16
  arg 5 big u64 in 0..18446744073709551615
  %a = param 0
  %y = param 1
  %counts = param 2
  %n = param 3
  %s = param 4
  %big = param 5
  %g = grid_id 1 i32
  %l = lane_id 0 i32
  %p = alloc f32 64 group align 64
  %q = alloc bf16 32 group
  %r = alloc i8 3 reg
  %zero = const i32 0
  %two = const i32 2
  %z = const f32x4 -0
  %bits = const f32x4 0x7fc00001
  %nan = const f64 nan
  %tiny = const f16 -5.9604645e-08
  %on = const i1 true
  %i = add i32 %g, %l
  %j = sub i32 %i, %two
  %k = mul i32 %j, %n
  %d = div i32 %k, %two
  %m = mod i32 %d, %two
  %lo = min i32 %m, %n
  %hi = max i32 %lo, %zero
  %and = and i32 %hi, %two
  %or = or i32 %and, %zero
  %xor = xor i32 %or, %two
  %not = not i32 %xor
  %shl = shl i32 %not, %two
  %shr = shr i32 %shl, %two
  %lt = lt i32 %shr, %n
  %le = le i32 %shr, %n
  %eq = eq f32x4 %z, %bits
  %w = where f32x4 %eq, %z, %bits
  %c = cast f32 %hi
  %b = bitcast i32 %c
  %v = splat f32x4 %c
  %ramp = ramp i32x4 %hi, %two
  %mask = first_n i1x4 %n
  %fused = mulacc f32x4 %v, %w, %z
  %four = mulacc4 f32x4 %v, %w, %z, %v, %w, %z, %v, %w, %fused
  %fma = fma f32x4 %v, %w, %four
  %sqrt = sqrt f32x4 %fma
  %trunc = trunc f32x4 %sqrt
  %exp2 = exp2 f32x4 %trunc
  %log2 = log2 f32x4 %exp2
  %sin = sin f32x4 %log2
  %e = extract f32 %sin, 3
  %h = shuffle f32x6 %sin, %w [0, 4, 1, 5, 7, 7]
  %h2 = shuffle f32x6 %h, %h [0, 4, 1, 5, 7, 7]
  %t = load f32x4 %a[%hi + 48] align 16 nt gate %mask alt %z
  %t2 = load f32x4 %a[%ramp - 1]
  store %y[%hi], %t align 4 nt gate %on
  store %y[%hi + 9223372036854775807], %e
  prefetch %a[%hi + 64]
  %old = atomic add %counts[%zero], %two
  barrier
  %r0, %r1 = for %x = %zero..%hi carry %c0 = %z, %c1 = %zero {
    if %le {
      store %r[%zero], %r8
    }
    %if0, %if1 = if %lt -> f32x4, i32 {
      yield %c0, %x
    } else {
      for %u = %x..%hi {
        prefetch %a[%u]
      }
      yield %z, %c1
    }
    if %lt {
    } else {
      barrier
    }
    yield %if0, %if1
  }
  unit_setup 0
  %ta = tile_load 0 tile bf16x512 %q[%zero], %two
  %td = mma 0 tile f32x256 %ta, %ta, %tc
  tile_store 0 %p[%zero], %two, %td
}
)";

// The text above with what the sample lacks to be readable filled in.
std::string every_op() {
  std::string text(kEveryOp);
  text.insert(text.find("  unit_setup"), "  %tc = tile_load 1 tile f32x256 %p[%zero], %n\n");
  text.insert(text.find("  %zero = const"), "  %r8 = const i8 -128\n");
  return text;
}

TEST(LinearText, CanonicalTextIsAFixedPoint) {
  EXPECT_EQ(to_text(parse_linear(every_op())), every_op());
}

TEST(LinearText, TheSampleHasEveryOp) {
  std::set<std::string_view> missing;
  for (const OpInfo& info : all_ops()) {
    if (has_level(info.op, kLinearLevel)) missing.insert(info.name);
  }
  EXPECT_EQ(missing.size(), 50U);
  missing.erase("func");
  for (const Inst& inst : parse_linear(every_op()).insts)
    missing.erase(op_name(inst.op));
  EXPECT_EQ(missing, std::set<std::string_view>());
}

void expect_same(const LinearProgram& a, const LinearProgram& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.signature, b.signature);
  EXPECT_EQ(a.grid, b.grid);
  EXPECT_EQ(a.lanes, b.lanes);
  EXPECT_EQ(a.scratch_bytes, b.scratch_bytes);
  EXPECT_EQ(a.operands, b.operands);
  EXPECT_EQ(a.shuffle_tables, b.shuffle_tables);
  ASSERT_EQ(a.values.size(), b.values.size());
  for (size_t i = 0; i < a.values.size(); ++i) {
    EXPECT_EQ(a.values[i].type, b.values[i].type) << i;
    EXPECT_EQ(a.values[i].def, b.values[i].def) << i;
  }
  ASSERT_EQ(a.regions.size(), b.regions.size());
  for (size_t i = 0; i < a.regions.size(); ++i) {
    EXPECT_EQ(a.regions[i].insts, b.regions[i].insts);
    EXPECT_EQ(a.regions[i].args, b.regions[i].args);
  }
  ASSERT_EQ(a.insts.size(), b.insts.size());
  for (size_t i = 0; i < a.insts.size(); ++i) {
    const Inst &x = a.insts[i], &y = b.insts[i];
    EXPECT_TRUE(x.op == y.op && x.nt == y.nt && x.type == y.type && x.imm == y.imm &&
                x.align == y.align && x.first_operand == y.first_operand &&
                x.num_operands == y.num_operands && x.num_results == y.num_results &&
                x.first_result == y.first_result && x.regions == y.regions)
        << "instruction " << i << " " << op_name(x.op);
  }
}

TEST(LinearText, PrintedProgramsReadBackWithTheSameStructure) {
  const LinearProgram every = parse_linear(every_op());
  expect_same(every, parse_linear(to_text(every)));
  for (const std::string& name : testing::tir_files()) {
    const LinearProgram program = testing::tir_program(name);
    const std::string printed = to_text(program);
    expect_same(program, parse_linear(printed));
    EXPECT_EQ(to_text(parse_linear(printed)), printed) << name;
  }
}

TEST(LinearText, BuiltProgramsPrintWithOrdinalsAndUniqueNames) {
  LinearProgram program{.name = "f", .grid = {1}, .lanes = {1}};
  program.signature.arguments = {
      {.name = "y", .access = ArgumentAccess::kWrite, .num_elements = 4}};
  LinearBuilder build(program);
  const ValueId y = build.param(0);
  const ValueId zero = build.constant(value_type(DType::kI64), 0);
  const ValueId four = build.constant(value_type(DType::kI64), 4);
  const ValueId start = build.constant(value_type(DType::kF32), 0x3f800000);
  const auto loop = build.begin_for(zero, four, std::array{start});
  const ValueId twice = build.binary(Op::kAdd, loop.carried[0], loop.carried[0]);
  build.store(y, loop.index, twice);
  const auto results = build.end_for(loop, std::array{twice});
  build.store(y, zero, results[0]);
  program.value_names = {"y", "k", "k", "12", "a b", "", "k_2"};
  EXPECT_EQ(to_text(program), R"(tir 1 func f grid(1) lanes(1) scratch 0 {
  arg 0 y f32[4] write
  %y = param 0
  %k = const i64 0
  %k_1 = const i64 4
  %3 = const f32 1
  %a_b = for %5 = %k..%k_1 carry %k_2 = %3 {
    %7 = add f32 %k_2, %k_2
    store %y[%5], %7
    yield %7
  }
  store %y[%k], %a_b
}
)");
  EXPECT_EQ(verify_linear(program), std::vector<std::string>());
  EXPECT_EQ(to_text(parse_linear(to_text(program))), to_text(program));
}

TEST(LinearText, CommentsSeparatorsAndLineBreaksAreFree) {
  const auto program = parse_linear(
      "# head\ntir 1 func \"a b\\x21\"grid(1)lanes(1)scratch 0{%a=const i32 -1;%b = add i32\n%a,\n"
      "# inside\n%a;barrier}# end");
  EXPECT_EQ(program.name, "a b!");
  EXPECT_EQ(program.insts.size(), 3U);
  EXPECT_EQ(program.insts[0].imm, -1);
}

std::string in_body(std::string_view statements) {
  return concat("tir 1 func f grid(1) lanes(1) scratch 0 {\n  arg 0 p f32[8] readwrite\n",
                "  %p = param 0\n  %i = const i32 0\n  %x = const f32 0\n  %on = const i1 true\n",
                statements, "}\n");
}

struct Refusal {
  std::string_view statements;
  std::string_view place;
  std::string_view words;
};

TEST(LinearText, RefusesStatementsWithTheirPlace) {
  const Refusal refusals[] = {
      {"  %y = ad f32 %x, %x\n", "k.tir:7:8", "did you mean 'add'"},
      {"  %y = neg f32 %x\n", "k.tir:7:8", "linear level"},
      {"  %y = func\n", "k.tir:7:8", "linear level"},
      {"  %y = add f32 %x, %z\n", "k.tir:7:20", "%z is used before it is defined"},
      {"  %y = add f32 %x, %i\n", "k.tir:7:20", "%i is i32, expected f32"},
      {"  %y = add f32 %x %x\n", "k.tir:7:19", "expected ','"},
      {"  %x = add f32 %x, %x\n", "k.tir:7:3", "%x is defined twice"},
      {"  add f32 %x, %x\n", "k.tir:7:3", "add gives 1 results, but 0 names"},
      {"  %y = barrier\n", "k.tir:7:8", "barrier gives 0 results, but 1 names"},
      {"  %y = const f33 0\n", "k.tir:7:14", "a type like f32"},
      {"  %y = const f32x0 0\n", "k.tir:7:14", "a type like f32"},
      {"  %y = const f32x99999 0\n", "k.tir:7:14", "a type like f32"},
      {"  %y = const i8 128\n", "k.tir:7:17", "found \"128\", expected a value of i8"},
      {"  %y = const i8 -129\n", "k.tir:7:17", "\"-129\""},
      {"  %y = const u8 -1\n", "k.tir:7:17", "a value of u8"},
      {"  %y = const f16 1e6\n", "k.tir:7:18", "a value of f16"},
      {"  %y = const f8e4m3 inf\n", "k.tir:7:21", "a value of f8e4m3"},
      {"  %y = const f32 0x1ffffffff\n", "k.tir:7:18", "a value of f32"},
      {"  %y = const f32 1.5.5\n", "k.tir:7:18", "a value of f32"},
      {"  %y = param 1\n", "k.tir:7:14", "found argument 1"},
      {"  %y = grid_id 3 i32\n", "k.tir:7:16", "a dimension from 0 to 2"},
      {"  %y = alloc f32 -1 group\n", "k.tir:7:18", "a number of elements"},
      {"  %y = alloc f32 4 global\n", "k.tir:7:20", "group or reg"},
      {"  %y = alloc f32 99999999999999999999 reg\n", "k.tir:7:18", "a number of elements"},
      {"  %y = load f32 %p(%i)\n", "k.tir:7:19", "expected '['"},
      {"  %y = load f32 %p[%i * 4]\n", "k.tir:7:23", "begins nothing"},
      {"  %y = load f32 %p[%i + %i]\n", "k.tir:7:25", "an offset"},
      {"  %y = load f32 %p[%i] gate %on\n", "k.tir:8:1", "expected 'alt'"},
      {"  %y = load f32 %p[%i] align 0\n", "k.tir:7:30", "bytes from 1"},
      {"  %y = extract f32 %x, 64\n", "k.tir:7:24", "a lane from 0 to 63"},
      {"  %y = shuffle f32x2 %x, %x []\n", "k.tir:7:30", "a lane"},
      {"  yield\n", "k.tir:8:1", "no yield in the function's body"},
      {"  if %on { yield barrier }\n", "k.tir:7:18", "expected"},
      {"  if %on { yield %x barrier }\n", "k.tir:7:21", "'}' after yield"},
      {"  if %on { %t = const f32 0 } store %p[%i], %t\n", "k.tir:7:45", "not visible here"},
      {"  %y = if %on -> f32 { yield %y }\n", "k.tir:7:30", "not visible here"},
      {"  for %k = %i..%i { } store %p[%k], %x\n", "k.tir:7:32", "not visible here"},
      {"  for %k = %i %i { }\n", "k.tir:7:15", "expected '..'"},
      {"  for %k = %i..%i carry %c = %x { yield %c }\n", "k.tir:7:3", "for gives 1 results"},
      {"  %y = 4\n", "k.tir:7:8", "an instruction"},
      {"  % = const f32 0\n", "k.tir:7:3", "a lone '%'"},
      {"  %y, = const f32 0\n", "k.tir:7:7", "a value's name"},
      {"  @\n", "k.tir:7:3", "begins nothing"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_ERROR(parse_linear(in_body(refusal.statements), "k.tir"), kInvalid,
                 concat(refusal.place, ": "), refusal.words)
        << refusal.statements;
  }
}

TEST(LinearText, RefusesHeaders) {
  const std::pair<std::string_view, std::string_view> refusals[] = {
      {"", "1:1: found the end of the text, expected 'tir'"},
      {"tir 2 func f grid(1) lanes(1) scratch 0 {}", "found version 2, expected version 1"},
      {"tir 1 func 7 grid(1) lanes(1) scratch 0 {}", "the function's name"},
      {"tir 1 func \"f", "this string does not end"},
      {"tir 1 func \"\\q\" grid(1) lanes(1) scratch 0 {}", "unknown escape"},
      {"tir 1 func \"\\x4\" grid(1) lanes(1) scratch 0 {}", "unknown escape"},
      {"tir 1 func f grid(0) lanes(1) scratch 0 {}", "an extent from 1"},
      {"tir 1 func f grid(1,1,1,1) lanes(1) scratch 0 {}", "at most 3"},
      {"tir 1 func f grid() lanes(1) scratch 0 {}", "an extent"},
      {"tir 1 func f grid(1) lanes(1) scratch -1 {}", "bytes of group memory"},
      {"tir 1 func f grid(1) lanes(1) scratch 0 { arg 1 a f32[1] read }", "expected argument 0"},
      {"tir 1 func f grid(1) lanes(1) scratch 0 { arg 0 a f32[1] }", "read, write or readwrite"},
      {"tir 1 func f grid(1) lanes(1) scratch 0 { arg 0 a i32 }", "expected 'in'"},
      {"tir 1 func f grid(1) lanes(1) scratch 0 { arg 0 a i8 in 0..200 }", "a value of i8"},
      {"tir 1 func f grid(1) lanes(1) scratch 0 { arg 0 a f32[-1] read }", "a number of elements"},
      {"tir 1 func f grid(1) lanes(1) scratch 0 {} x", "the end of the text"},
      {"tir 1 func f grid(1) lanes(1) scratch 0 {", "an instruction or '}'"},
  };
  for (const auto& [text, words] : refusals) {
    EXPECT_ERROR(parse_linear(text), kInvalid, words) << text;
  }
}

TEST(LinearText, DepthIsBounded) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i)
      text += "if %on { ";
    for (int i = 0; i < depth; ++i)
      text += "} ";
    return in_body(text);
  };
  EXPECT_EQ(verify_linear(parse_linear(nested(64))), std::vector<std::string>());
  EXPECT_ERROR(parse_linear(nested(65)), kInvalid, "at most 64 regions");
  EXPECT_ERROR(parse_linear(nested(100000)), kInvalid, "at most 64 regions");
}

// Every text is a program or a kInvalidArgument, and a program can be printed and verified.
void expect_survives(std::string_view text) {
  LinearProgram program;
  try {
    program = parse_linear(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), kInvalid) << error.what();
    return;
  }
  verify_linear(program);
  const std::string printed = to_text(program);
  EXPECT_EQ(to_text(parse_linear(printed)), printed);
}

TEST(LinearText, EveryPrefixIsRefusedOrReads) {
  for (const std::string& text : {every_op(), testing::tir_text("tree_sum.tir")}) {
    for (size_t length = 0; length <= text.size(); ++length) {
      expect_survives(std::string_view(text).substr(0, length));
    }
  }
}

TEST(LinearText, MutatedTextIsRefusedOrReads) {
  std::mt19937 random(20240517);
  const std::string samples[] = {every_op(), testing::tir_text("tree_sum.tir")};
  constexpr std::string_view kBytes = "0123456789%{}[]()=.,-+ \nx\"\\#aefinopr\x80";
  for (int round = 0; round < 4000; ++round) {
    std::string text = samples[round % 2];
    const int num_changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < num_changes; ++i) {
      const size_t at = random() % text.size();
      const size_t other = random() % text.size();
      switch (random() % 4) {
        case 0: text[at] = kBytes[random() % kBytes.size()]; break;
        case 1: text[at] = static_cast<char>(random()); break;
        case 2: text.erase(at, 1 + random() % 12); break;
        default: text.insert(at, text.substr(other, 1 + random() % 24)); break;
      }
      if (text.empty()) text = " ";
    }
    expect_survives(text);
  }
}

}  // namespace
}  // namespace tenon
