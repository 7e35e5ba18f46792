// The rules of linear programs: each has a program that breaks it. SPDX-License-Identifier: MIT

#include "tenon/ir/linear_verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/linear_facts.h"
#include "tests/ir/linear_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

// Statements with two arguments, group memory and a few values in front; sound if they are.
std::string in_body(std::string_view statements) {
  return concat(R"(tir 1 func f grid(4) lanes(8) scratch 256 {
    arg 0 p f32[800] readwrite
    arg 1 c i32[8] readwrite
    arg 2 r f32[800] read
    arg 3 n i32 in 0..100
    %p = param 0  %c = param 1  %r = param 2  %n = param 3
    %g = alloc f32 64 group align 16
    %l = lane_id 0 i32
    %i = const i32 0  %i64 = const i64 0  %four = const i32 4  %on = const i1 true
    %x = const f32 0  %v = const f32x4 0  %u = const u32 1
    %m = const i1x4 true  %iv = const i32x4 1
)",
                statements, "\n}\n");
}

template <typename T>
struct BrokenBy {
  std::string_view rule;
  std::string_view words;
  std::function<void(T&)> change;
};
using BrokenProgram = BrokenBy<LinearProgram>;
using BrokenTarget = BrokenBy<Target>;

struct Broken {
  std::string_view rule;
  std::string_view words;
  std::string_view statements;
};

void expect_finding(const LinearProgram& program, std::string_view rule, std::string_view words,
                    const Target* target = nullptr) {
  const std::vector<std::string> findings = verify_linear(program, target);
  const std::string all = join(findings, "\n");
  const auto is_it = [&](const std::string& text) {
    return text.find(concat(": ", rule, ": ")) != std::string::npos &&
           text.find(words) != std::string::npos;
  };
  EXPECT_TRUE(std::ranges::any_of(findings, is_it)) << rule << ": " << words << "\nfound: " << all;
}

TEST(LinearVerify, TheFrameOfTheseTestsIsSound) {
  EXPECT_EQ(verify_linear(parse_linear(in_body(""))), std::vector<std::string>());
  // What may not run at all is right.
  for (const char* loop : {"%i..%i", "%i..%n"}) {
    const std::string text = concat("for %k = ", loop, " { %a = load f32 %p[%i + 900] }");
    EXPECT_EQ(verify_linear(parse_linear(in_body(text))), std::vector<std::string>()) << text;
  }
}

std::vector<Broken> broken_texts() {
  return {
      {"result", "a vector of 65 lanes", "%a = const f32x65 0"},
      {"result", "idx is a dtype of the kernel level", "%a = const idx 0"},
      {"elementwise", "sub does not take i1", "%a = sub i1 %on, %on"},
      {"elementwise", "div does not take i1", "%a = div i1 %on, %on"},
      {"elementwise", "mod does not take f32", "%a = mod f32 %x, %x"},
      {"elementwise", "mulacc does not take i32", "%a = mulacc i32 %i, %i, %i"},
      {"elementwise", "and does not take f32", "%a = and f32 %x, %x"},
      {"elementwise", "sqrt does not take i32", "%a = sqrt i32 %i"},
      {"cast", "lanes differ", "%a = cast f32x4 %i"},
      {"cast", "lanes differ", "%a = cast f32 %p"},
      {"cast", "widths differ", "%a = bitcast i64 %x"},
      {"cast", "or bool", "%a = bitcast i8 %on"},
      {"source", "dimension 1 of 1", "%a = grid_id 1 i32"},
      {"source", "expected i32 or i64", "%a = lane_id 0 u32"},
      {"alloc", "0 elements", "%a = alloc f32 0 reg"},
      {"alloc", "elements, expected 1 to", "%a = alloc f32 9223372036854775807 reg"},
      {"alloc", "in the function's body", "if %on { %a = alloc f32 4 reg }"},
      {"align", "align 3, expected a power of two", "%a = load f32 %p[%i] align 3"},
      {"align", "align 2, expected", "%a = load f32 %p[%i] align 2"},
      {"align", "align 128, expected", "%a = alloc f32 64 reg align 128"},
      {"align", "aligned to 16", "%a = load f32x4 %g[%i] align 32"},
      {"align", "a remainder of 2 elements", "%a = load f32x4 %p[%i + 2] align 16"},
      {"align", "a remainder of 1 elements",
       "%q = mul i32 %n, %four %o = const i32 5 %s = add i32 %q, %o %a = load f32x4 %p[%s] align "
       "16"},
      {"align", "gather or scatter", "%a = load f32x4 %p[%iv] align 16"},
      {"pointer", "expected a pointer", "%a = load f32 %x[%i]"},
      {"pointer", "the index is f32", "%a = load f32 %p[%x]"},
      {"pointer", "the index is u32", "%a = load f32 %p[%u]"},
      {"pointer", "an index of 4 lanes for f32", "%a = load f32 %p[%iv]"},
      {"pointer", "an index of 4 lanes", "prefetch %p[%iv]"},
      {"pointer", "load of i32 through f32* global", "%a = load i32 %p[%i]"},
      {"pointer", "store of u32 through f32* group", "store %g[%i], %u"},
      {"pointer", "argument 'r', which is read only", "store %r[%i], %x"},
      {"pointer", "come from param and alloc",
       "%a = for %k = %i..%n carry %q = %p { %b = load f32 %q[%k] yield %q }"},
      {"bounds", "load at elements 800 to 800 of %p, which has 800", "%a = load f32 %p[%i + 800]"},
      {"bounds", "load at elements 797 to 800", "%a = load f32x4 %p[%i + 797]"},
      {"bounds", "which has 800", "%a = load f32x4 %p[%i + 9223372036854775807]"},
      {"bounds", "store at elements 64 to 64 of %g",
       "%o = const i32 60 %s = add i32 %o, %four store %g[%s], %x"},
      {"bounds", "load at elements -1 to -1", "%o = const i64 -1 %a = load f32 %p[%o]"},
      {"bounds", "load at elements 4 to 802",
       "%o = const i32 4 %d = const i32 266 %w = ramp i32x4 %o, %d %a = load f32x4 %p[%w]"},
      {"bounds", "atomic at elements 8 to 8",
       "%o = const i32 8 for %k = %i..%four { %a = atomic add %c[%o], %four }"},
      {"access", "the gate is i1x4", "%a = load f32 %p[%i] gate %m alt %x"},
      {"access", "the gate is f32", "store %p[%i], %x gate %x"},
      {"access", "alt is f32, expected f32x4", "%a = load f32x4 %p[%i] gate %m alt %x"},
      {"atomic", "combines with", "%a = atomic mul %c[%i], %i"},
      {"atomic", "no float atomics", "%a = atomic add %p[%i], %x"},
      {"atomic", "scalar integers", "%a = atomic add %c[%i], %iv"},
      {"for", "bounds are i32 and i64", "for %k = %i..%i64 { }"},
      {"for", "bounds are f32", "for %k = %x..%x { }"},
      {"for", "has 1 results, but 0 values are yielded", "%a = for %k = %i..%n carry %q = %x { }"},
      {"for", "yielded value 0 is i32", "%a = for %k = %i..%n carry %q = %x { yield %k }"},
      {"for", "expected a value or a tile", "%a = for %k = %i..%n carry %q = %p { yield %q }"},
      {"if", "the condition is i1x4", "if %m { }"},
      {"if", "the condition is i32", "if %n { }"},
      {"if", "1 results, but 0 values are yielded", "%a = if %on -> f32 { yield %x }"},
      {"if", "yielded value 0 is i32", "%a = if %on -> f32 { yield %x } else { yield %i }"},
      {"vector", "expected a scalar", "%a = splat f32x4 %v"},
      {"vector", "dtypes differ", "%a = splat i32x4 %x"},
      {"vector", "expected values", "%a = splat f32x4 %p"},
      {"vector", "expected equal integers", "%a = ramp i32x4 %i, %x"},
      {"vector", "expected equal integers", "%a = ramp f32x4 %x, %x"},
      {"vector", "lane 4 of f32x4", "%a = extract f32 %v, 4"},
      {"vector", "a table of 2 lanes for f32x4", "%a = shuffle f32x4 %v, %v [0, 1]"},
      {"vector", "outside 0..7", "%a = shuffle f32x2 %v, %v [0, 8]"},
      {"vector", "the sources differ", "%a = shuffle f32x2 %v, %x [0, 1]"},
      {"vector", "expected i32 or i64 to a mask", "%a = first_n f32x4 %n"},
      {"vector", "expected i32 or i64 to a mask", "%a = first_n i1x4 %x"},
      {"unit", "moves tiles", "%a = tile_load 0 f32x4 %p[%i], %four"},
      {"unit", "the stride is f32", "%a = tile_load 0 tile f32x16 %p[%i], %x"},
      {"unit", "the accumulator is f32x4", "%a = mma 0 i32x4 %v, %v, %v"},
      {"barrier", "not all lanes reach", "%q = lt i32 %l, %four if %q { barrier }"},
      {"barrier", "not all lanes reach", "%q = lt i32 %l, %four if %q { } else { barrier }"},
      {"barrier", "not all lanes reach", "for %k = %i..%l { barrier }"},
      {"barrier", "not all lanes reach", "for %k = %l..%n { if %on { barrier } }"},
      {"barrier", "not all lanes reach",  // the second iteration differs
       "%a = for %k = %i..%n carry %q = %i { for %w = %i..%q { barrier } yield %l }"},
      {"barrier", "not all lanes reach",
       "%h = load i32 %c[%l] %q = lt i32 %h, %four if %q { barrier }"},
      {"barrier", "not all lanes reach",
       "%h = atomic add %c[%i], %four %q = lt i32 %h, %four if %q { barrier }"},
      {"barrier", "not all lanes reach",
       "%z = alloc i32 4 reg %h = load i32 %z[%i] %q = lt i32 %h, %four if %q { barrier }"},
  };
}

TEST(LinearVerify, BrokenTextsAreFound) {
  for (const Broken& broken : broken_texts()) {
    expect_finding(parse_linear(in_body(broken.statements)), broken.rule, broken.words);
  }
}

TEST(LinearVerify, SoundTextsAreLeftAlone) {
  const std::string_view statements[] = {
      "%h = load i32 %c[%n] %q = lt i32 %h, %four if %q { barrier }",  // the same in all lanes
      "for %k = %i..%n { %q = lt i32 %k, %four if %q { barrier } }",
      "%q = lt i32 %l, %four %a = if %q -> f32 { yield %x } else { yield %x } barrier",
      "%q = mul i32 %n, %four %a = load f32x4 %p[%q + 8] align 16",
      "%a = load f32x4 %p[%n] align 16",  // not disproved: the evaluator looks
      "%a = load f32x4 %p[%iv + 3] gate %on alt %v",
      "%a = load f32 %p[%i + 799]",
      "%a = load f32x4 %p[%i + 796]",
      "%o = const i32 -4 %a = load f32 %p[%o + 4]",
      "%a = load f32 %p[%i + 800] gate %on alt %x",  // perhaps nobody asks
      "if %on { %a = load f32 %p[%i + 800] }",
      "store %p[%iv], %v gate %m",
      "%a = add i1 %on, %on %b = max i1x4 %m, %m %d = lt i1 %on, %a",
      "%a = atomic max %c[%i], %four",
      "%a = load f32 %g[%i64] align 16",
      "%a, %b = for %k = %i..%n carry %q = %x, %w = %v { yield %x, %w }",
  };
  for (const std::string_view text : statements) {
    EXPECT_EQ(verify_linear(parse_linear(in_body(text))), std::vector<std::string>()) << text;
  }
}

// eval_op has a table of the dtypes that each op takes; the rule must say the same.
TEST(LinearVerify, ElementwiseOpsTakeWhatEvalOpTakes) {
  int num_taken = 0;
  for (const OpInfo& info : all_ops()) {
    const bool is_cast = info.op == Op::kCast || info.op == Op::kBitcast;
    if (!is_elementwise(info.op) || !has_level(info.op, kLinearLevel) || is_cast) continue;
    for (const DType dtype : storage_dtypes()) {
      std::array<ScalarBits, kMaxScalarOperands> args;
      args.fill(1);
      bool is_taken = true;
      try {
        eval_op(info.op, dtype, std::span(args).first(static_cast<size_t>(info.arity)));
      } catch (const Error&) {
        is_taken = false;
      }
      LinearProgram program{.name = "f", .grid = {1}, .lanes = {1}};
      LinearBuilder build(program);
      const ValueId a = build.constant(value_type(dtype), 1);
      const ValueId on = build.constant(value_type(DType::kBool), 1);
      if (info.arity == 1) build.unary(info.op, a);
      if (info.arity == 2) build.binary(info.op, a, a);
      if (info.arity == 3) build.ternary(info.op, info.op == Op::kWhere ? on : a, a, a);
      const std::vector<ValueId> many(static_cast<size_t>(info.arity), a);
      if (info.arity > 3) build.append_value({.op = info.op, .type = value_type(dtype)}, many);
      EXPECT_EQ(verify_linear(program).empty(), is_taken) << info.name << dtype_name(dtype);
      num_taken += is_taken ? 1 : 0;
    }
  }
  EXPECT_GT(num_taken, 100);
}

LinearProgram with_loop() {
  return parse_linear(
      in_body("%a = for %k = %i..%n carry %q = %x { %s = add f32 %q, %x yield %s }"));
}

InstId find_inst(const LinearProgram& program, Op op) {
  for (InstId id = 0; id < program.insts.size(); ++id) {
    if (program.insts[id].op == op) return id;
  }
  return kNoId;
}

std::vector<BrokenProgram> broken_structures() {
  return {
      {"structure", "there is no body", [](auto& p) { p.regions.clear(); }},
      {"structure", "the body has region arguments",
       [](auto& p) { p.regions[0].args.push_back(0); }},
      {"structure", "instruction 99 of", [](auto& p) { p.regions[0].insts.push_back(99); }},
      {"structure", "stands in two places", [](auto& p) { p.regions[0].insts.push_back(0); }},
      {"structure", "region 0 stands in two places",
       [](auto& p) { p.insts[find_inst(p, Op::kFor)].regions[0] = 0; }},
      {"structure", "region 7 of 2",
       [](auto& p) { p.insts[find_inst(p, Op::kFor)].regions[0] = 7; }},
      {"structure", "for has 2 regions",
       [](auto& p) { p.insts[find_inst(p, Op::kFor)].num_regions = 2; }},
      {"structure", "does not end with yield", [](auto& p) { p.regions[1].insts.pop_back(); }},
      {"structure", "yield stands elsewhere",
       [](auto& p) {
         p.regions[0].insts.push_back(static_cast<InstId>(p.insts.size()));
         p.insts.push_back({.op = Op::kYield});
       }},
      {"structure", "operand 999 of", [](auto& p) { p.operands[0] = 999; }},
      {"structure", "of a pool of", [](auto& p) { p.insts.back().first_operand = 4000000000U; }},
      {"structure", "result 888 of", [](auto& p) { p.insts[0].first_result = 888; }},
      {"structure", "is defined twice", [](auto& p) { p.insts[1].first_result = 0; }},
      {"structure", "names another definition", [](auto& p) { p.values[0].def = 3; }},
      {"visible", "%s is not defined before this",
       [](auto& p) {
         Inst& add = p.insts[find_inst(p, Op::kAdd)];
         p.operands_of(add)[0] = add.first_result;
       }},
      {"operands", "add has 1 operands, expected 2",
       [](auto& p) { p.insts[find_inst(p, Op::kAdd)].num_operands = 1; }},
      {"operands", "op 'neg' is not an instruction of the linear level",
       [](auto& p) { p.insts[find_inst(p, Op::kAdd)].op = Op::kNeg; }},
      {"operands", "op 'func' is not an instruction",
       [](auto& p) { p.insts[find_inst(p, Op::kConst)].op = Op::kFunc; }},
      {"operands", "const has 0 results",
       [](auto& p) {
         const InstId id = find_inst(p, Op::kConst);
         p.values[p.insts[id].first_result].def = id;
         p.insts[id].num_results = 0;
       }},
      {"result", "the instruction says i32x2",
       [](auto& p) { p.insts[find_inst(p, Op::kAdd)].type = value_type(DType::kI32, 2); }},
      {"elementwise", "operand 1 of add is f32x2",
       [](auto& p) { p.values[p.operands_of(p.insts[find_inst(p, Op::kAdd)])[1]].type.lanes = 2; }},
      {"source", "not in canonical form for i32",
       [](auto& p) { p.insts[find_inst(p, Op::kConst)].imm = 1LL << 40; }},
      {"source", "param 9 of 4", [](auto& p) { p.insts[0].imm = 9; }},
      {"source", "the signature says i32* global",
       [](auto& p) { p.signature.arguments[0].dtype = DType::kI32; }},
      {"source", "does not fit i32",
       [](auto& p) {
         p.lanes = {1};
         p.insts[find_inst(p, Op::kLaneId)].op = Op::kGridId;
         p.grid = {int64_t{1} << 33};
       }},
      {"for", "region arguments", [](auto& p) { p.regions[1].args.pop_back(); }},
      {"function", "has no name", [](auto& p) { p.name.clear(); }},
      {"function", "grid has 0 dimensions", [](auto& p) { p.grid.clear(); }},
      {"function", "grid is (0)", [](auto& p) { p.grid = {0}; }},
      {"function", "lanes is (65536,2)",
       [](auto& p) {
         p.lanes = {65536, 2};
       }},
      {"function", "is idx", [](auto& p) { p.signature.arguments[0].dtype = DType::kIdx; }},
      {"function", "empty range", [](auto& p) { p.signature.arguments[3].min = 101; }},
      {"function", "is written",
       [](auto& p) { p.signature.arguments[3].access = ArgumentAccess::kWrite; }},
      {"scratch", "scratch is 252 bytes, the group allocs take 256",
       [](auto& p) { p.scratch_bytes = 252; }},
  };
}

TEST(LinearVerify, BrokenStructuresAreFound) {
  EXPECT_EQ(verify_linear(with_loop()), std::vector<std::string>());
  for (const auto& [rule, words, change] : broken_structures()) {
    LinearProgram program = with_loop();
    change(program);
    expect_finding(program, rule, words);
  }
}

TEST(LinearVerify, DepthOfBuiltProgramsIsBounded) {
  LinearProgram program = parse_linear(in_body(""));
  LinearBuilder build(program);
  const ValueId on = program.insts[find_inst(program, Op::kConst) + 3].first_result;
  ASSERT_EQ(program.type_of(on), value_type(DType::kBool));
  std::vector<LinearBuilder::Branch> open;
  for (int i = 0; i < 65; ++i)
    open.push_back(build.begin_if(on, {}));
  while (!open.empty()) {
    build.begin_else(open.back(), {});
    build.end_if(open.back(), {});
    open.pop_back();
  }
  expect_finding(program, "structure", "deeper than 64");
}

Target small_target() {
  Target target{.arch = "test"};
  for (const DType dtype : {DType::kF32, DType::kI32, DType::kI64, DType::kU32}) {
    target.arithmetic.add(dtype);
  }
  target.extra_casts = {{DType::kF16, DType::kF32}};
  target.native_ops = {Op::kSqrt};
  target.max_vector_bytes = 16;
  target.max_local_bytes = 256;
  target.max_lanes = 8;
  target.max_arguments = 4;
  return target;
}

std::vector<Broken> broken_for_the_target() {
  return {
      {"target op", "exp2 is not native", "%a = exp2 f32 %x"},
      {"target op", "fma is not native", "%a = fma f32 %x, %x, %x"},
      {"target op", "no matrix unit 3", "unit_setup 3"},
      {"target dtype", "does not compute with float16 (arithmetic)",
       "%h = const f16 1 %a = add f16 %h, %h"},
      {"target dtype", "does not compute with float16 (arithmetic)", "%a = cast f16 %x"},
      {"target vector", "needs 32 bytes in a vector; the target has at most 16 (max_vector_bytes)",
       "%a = splat f32x8 %x"},
  };
}

TEST(LinearVerify, WhatTheTargetLacksIsFound) {
  const Target target = small_target();
  for (const Broken& broken : broken_for_the_target()) {
    const LinearProgram program = parse_linear(in_body(broken.statements));
    EXPECT_EQ(verify_linear(program), std::vector<std::string>()) << broken.statements;
    expect_finding(program, broken.rule, broken.words, &target);
  }
  const std::string_view sound =
      "%h = const f16 1 %a = cast f32 %h %b = sqrt f32 %a %q = and i1 %on, %on %d = cast i32 %q "
      "%w = where f16 %on, %h, %h %s = splat f32x4 %x %o = const i64 4 %e = load f32 %p[%o]";
  EXPECT_EQ(verify_linear(parse_linear(in_body(sound)), &target), std::vector<std::string>());
}

std::vector<BrokenTarget> broken_limits() {
  return {
      {"target limits", "needs 4 buffers; the target has at most 3 (max_arguments)",
       [](auto& t) { t.max_arguments = 3; }},
      {"target limits", "needs 8 lanes in a group; the target has at most 4 (max_lanes)",
       [](auto& t) { t.max_lanes = 4; }},
      {"target limits", "needs 256 bytes of group memory; the target has at most 255",
       [](auto& t) { t.max_local_bytes = 255; }},
      {"target index", "as an index; the target has at most 2147483647 (has_i64_index)",
       [](auto& t) { t.has_i64_index = false; }},
  };
}

TEST(LinearVerify, LimitsOfTheTargetAreHeld) {
  const LinearProgram program = parse_linear(in_body("%a = load f32 %p[%i64]"));
  Target target = small_target();
  EXPECT_EQ(verify_linear(program, &target), std::vector<std::string>());
  for (const auto& [rule, words, change] : broken_limits()) {
    target = small_target();
    change(target);
    expect_finding(program, rule, words, &target);
  }
}

TEST(LinearVerify, CheckThrowsWithAllFindings) {
  const LinearProgram program =
      parse_linear(in_body("%a = sqrt i32 %i\n%b = extract f32 %v, 4"), "k.tir");
  EXPECT_ERROR(check_linear(program), ErrorCode::kInternal, "2 rules broken",
               "sqrt does not take i32", "%b = extract", "lane 4 of f32x4");
  EXPECT_ERROR(check_linear(program, nullptr, ErrorCode::kInvalidArgument),
               ErrorCode::kInvalidArgument, "sqrt");
}

TEST(LinearVerify, FindingsAreCapped) {
  std::string statements;
  for (int i = 0; i < 50; ++i)
    statements += concat("%a", i, " = sqrt i32 %i\n");
  EXPECT_EQ(verify_linear(parse_linear(in_body(statements))).size(), 20U);
}

TEST(LinearFacts, LowBitsFollowArithmetic) {
  const LinearProgram program = parse_linear(in_body(R"(
    %six = const i32 6
    %a = mul i32 %n, %six      # even
    %b = shl i32 %a, %four     # a multiple of 32
    %d = add i32 %b, %six      # 6 mod 32
    %e = sub i32 %d, %four     # 2 mod 32
    %f = min i32 %d, %e        # 2 mod 4
    %mask = const i32 -8
    %h = and i32 %n, %mask     # a multiple of 8
    %w = cast i64 %e)"));
  const std::vector<LowBits> facts = known_low_bits(program);
  const auto low = [&](std::string_view name) {
    for (size_t i = 0; i < program.value_names.size(); ++i) {
      if (program.value_names[i] != name) continue;
      return std::pair(facts[i].known, facts[i].value & ((uint64_t{1} << facts[i].known) - 1));
    }
    return std::pair(-1, uint64_t{0});
  };
  using Pair = std::pair<int, uint64_t>;
  EXPECT_EQ(low("n"), Pair(0, 0));
  EXPECT_EQ(low("a"), Pair(1, 0));
  EXPECT_EQ(low("b"), Pair(5, 0));
  EXPECT_EQ(low("d"), Pair(5, 6));
  EXPECT_EQ(low("e"), Pair(5, 2));
  EXPECT_EQ(low("f"), Pair(2, 2));
  EXPECT_EQ(low("h"), Pair(3, 0));
  EXPECT_EQ(low("w"), Pair(5, 2));
}

TEST(LinearVerify, EveryRuleIsBrokenAbove) {
  std::set<std::string_view> broken;
  for (const auto& one : broken_texts())
    broken.insert(one.rule);
  for (const auto& one : broken_structures())
    broken.insert(one.rule);
  for (const auto& one : broken_for_the_target())
    broken.insert(one.rule);
  for (const auto& one : broken_limits())
    broken.insert(one.rule);
  const auto rules = linear_rule_names();
  EXPECT_EQ(broken, (std::set<std::string_view>(rules.begin(), rules.end())));
}

}  // namespace
}  // namespace tenon
