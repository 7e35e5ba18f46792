// What a Target cannot do: asked by supports(...) and thrown by the pass, one record and one text.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <functional>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/codegen.h"
#include "tenon/codegen/plan_text.h"
#include "tenon/engine/engine.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/rules/supports.h"
#include "tenon/schedule/schedule.h"
#include "tests/support/test_target.h"

namespace tenon::testing {
namespace {

struct Refusal {
  const char* name;
  std::function<Support(const Target&)> ask;
  std::function<void(const Target&)> act;
  std::function<void(Target&)> shrink;  ///< from test::vector_target()
  const char* limit;
  const char* wanted;
  const char* available;
};

void PrintTo(const Refusal& row, std::ostream* out) {
  *out << row.name;
}

void lower(const Target& target, std::string_view kernel) {
  lower_kernel(parse_kernel(kernel, "test"), target);
}

void schedule(const Target& target, const Node& output) {
  schedule_graph(std::span(&output, 1), schedule_options(target));
}

std::string unary_kernel(std::string_view op, std::string_view dtype) {
  return concat("kernel k {\n  out b0: ", dtype, "[4]\n  in b1: ", dtype, "[4]\n  b0[i] = ", op,
                "(b1[i])  over i:4\n}");
}

Node chosen() {
  const Node x = tensor_buffer(DType::kF32, Shape{5});
  const Node y = tensor_buffer(DType::kF32, Shape{5});
  return tensor_where(tensor_buffer(DType::kBool, Shape{5}), x, y);
}

void without(Target& target, DType dtype) {
  target.arithmetic.bits &= ~(1U << static_cast<int>(dtype));
}

constexpr const char* kNest =
    "nest k grid(g:1) lanes(l:4) {\n  out y: f32[4]\n  in x: f32[4]\n  alloc t: f32[26] group\n"
    "  t[l] = x[l]\n  y[l] = t[l]\n}";
constexpr const char* kSums =
    "kernel s {\n  in x: f32[8,64]  out y: f32[8]  tmp t: f32[8]\n"
    "  t[i] += x[i,j]  over i:8, j:64 red  start 0f32\n  y[k] = t[k]  over k:8\n}";

void lower_by_plan(const Target& target, std::string_view plan) {
  const Kernel kernel = parse_kernel(kSums, "test");
  CodegenOptions options;
  options.plan = parse_plan(plan, kernel);
  lower_kernel(kernel, target, options);
}

void check(const Target& target, std::string_view body) {
  check_linear(parse_linear(concat("tir 1 func f grid(1) lanes(1) scratch 0 {\n", body, "\n}")),
               &target, ErrorCode::kUnsupported);
}

constexpr const char* kAllButF64 = "i1,i8,i16,i32,i64,u8,u16,u32,u64,f32";

const Refusal kRefusals[] = {
    {"DType", [](auto& target) { return supports(target, DType::kF64); },
     [](auto& target) { lower(target, unary_kernel("neg", "f64")); },
     [](auto& target) { without(target, DType::kF64); }, "arithmetic", "f64", kAllButF64},
    {"DTypeOfALinearProgram", [](auto& target) { return computes(target, DType::kF64); },
     [](auto& target) { check(target, "%a = const f64 1 %b = add f64 %a, %a"); },
     [](auto& target) { without(target, DType::kF64); }, "arithmetic", "f64", kAllButF64},
    {"OpThatNothingDecomposes",
     [](auto& target) { return supports(target, Op::kExp, DType::kF64); },
     [](auto& target) { lower(target, unary_kernel("exp", "f64")); }, [](auto&) {}, "", "f64",
     "f8e4m3,f8e5m2,f16,bf16,f32"},
    {"OpThatNeedsOtherDTypes", [](auto& target) { return supports(target, Op::kSin, DType::kF32); },
     [](auto& target) { lower(target, unary_kernel("sin", "f32")); },
     [](auto& target) { without(target, DType::kF64); }, "arithmetic", "i64,u64,f64", kAllButF64},
    {"OpOnEmulatedValues", [](auto& target) { return supports(target, Op::kCos, DType::kBF16); },
     [](auto& target) { lower(target, unary_kernel("cos", "bf16")); },
     [](auto& target) { without(target, DType::kF64); }, "arithmetic", "i64,u64,f64", kAllButF64},
    {"OpThatOnlyTheDeviceDoes",
     [](auto& target) { return supports(target, Op::kFma, DType::kF64); },
     [](auto& target) {
       lower(target,
             "kernel k {\n  out b0: f64[4]\n  in b1: f64[4]\n"
             "  b0[i] = fma(b1[i], b1[i], b1[i])  over i:4\n}");
     },
     [](auto&) {}, "native_ops", "fma", "sqrt"},
    {"OpOfALinearProgram", [](auto& target) { return has_native(target, Op::kExp2, DType::kF32); },
     [](auto& target) { check(target, "%a = const f32 1 %b = exp2 f32 %a"); }, [](auto&) {},
     "native_ops", "exp2", "sqrt"},
    {"Arguments", [](auto& target) { return supports(target, Limit::kArguments, 4); },
     [](auto& target) { schedule(target, chosen()); },
     [](auto& target) { target.max_arguments = 3; }, "max_arguments", "4", "3"},
    {"Index", [](auto& target) { return supports(target, Limit::kIndex, int64_t{3} << 30); },
     [](auto& target) {
       lower(target,
             "kernel k {\n  out b0: i8[3221225472]\n  in b1: i8[3221225472]\n"
             "  b0[i] = b1[i]  over i:3221225472\n}");
     },
     [](auto& target) { target.has_i64_index = false; }, "has_i64_index", "3221225472",
     "2147483647"},
    {"Lanes", [](auto& target) { return supports(target, Limit::kLanes, 4); },
     [](auto& target) { lower(target, kNest); }, [](auto&) {}, "max_lanes", "4", "1"},
    {"Groups", [](auto& target) { return supports(target, Limit::kGroups, 6); },
     [](auto& target) {
       check_linear(parse_linear("tir 1 func f grid(3, 2) lanes(1) scratch 0 {\n}"), &target,
                    ErrorCode::kUnsupported);
     },
     [](auto& target) { target.max_groups = 5; }, "max_groups", "6", "5"},
    {"LocalBytes", [](auto& target) { return supports(target, Limit::kLocalBytes, 104); },
     [](auto& target) { lower(target, kNest); },
     [](auto& target) {
       target.max_lanes = 4;
       target.max_local_bytes = 103;
     },
     "max_local_bytes", "104", "103"},
    {"LanesOfAPlan", [](auto& target) { return supports(target, Limit::kLanes, 2); },
     [](auto& target) {
       lower_by_plan(target,
                     "plan s lanes 2 {\n  0 t root i@grid 1, j@seq 1; acc 1\n"
                     "  1 y after 0 at 1\n}");
     },
     [](auto&) {}, "max_lanes", "2", "1"},
    {"VectorBytes", [](auto& target) { return supports(target, Limit::kVectorBytes, 32); },
     [](auto& target) { check(target, "%x = const f32 1 %a = splat f32x8 %x"); },
     [](auto& target) { target.max_vector_bytes = 16; }, "max_vector_bytes", "32", "16"},
};

class Reasons : public ::testing::TestWithParam<Refusal> {};

TEST_P(Reasons, AskedAndThrownAlike) {
  const Refusal& row = GetParam();
  Target target = test::vector_target();
  row.shrink(target);
  const Support answer = row.ask(target);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.reason().limit, row.limit);
  EXPECT_EQ(answer.reason().wanted, row.wanted);
  EXPECT_EQ(answer.reason().available, row.available);
  try {
    row.act(target);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    ASSERT_NE(error.reason(), nullptr) << error.what();
    EXPECT_EQ(to_text(*error.reason()), to_text(answer.reason()));
    EXPECT_TRUE(*error.reason() == answer.reason());
    EXPECT_NE(std::string(error.what()).find(answer.reason().text), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Reasons, ::testing::ValuesIn(kRefusals),
                         [](const auto& row) { return row.param.name; });

TEST(Reasons, WhatTheTargetHasIsSupported) {
  const Target target = test::vector_target();
  EXPECT_TRUE(supports(target, DType::kF64));
  EXPECT_TRUE(supports(target, DType::kBF16));
  EXPECT_TRUE(supports(target, Op::kSin, DType::kF32));
  EXPECT_TRUE(supports(target, Limit::kArguments, 64));
  EXPECT_TRUE(supports(target, Limit::kIndex, int64_t{1} << 40));
  EXPECT_FALSE(supports(target, Limit::kArguments, 65));
}

Node buffer_of(DType dtype, int64_t count) {
  const std::vector<std::byte> zeros(static_cast<size_t>(count * int64_t{dtype_size_bytes(dtype)}));
  return buffer_from_bytes(Device::get_default(), dtype, Shape{count}, zeros);
}

// A graph may be asked for before it is realised: one record for each kind, as realize() throws it.
TEST(Reasons, OfAGraph) {
  const Node sum = tensor_unary(Op::kNeg, buffer_of(DType::kF32, 7));
  const Node power = tensor_unary(Op::kExp, buffer_of(DType::kF64, 5));
  const Node powers = tensor_unary(Op::kExp, buffer_of(DType::kF64, 9));
  const Node sine = tensor_unary(Op::kLog2, buffer_of(DType::kF64, 9));
  const Device& device = Device::get_default();
  EXPECT_TRUE(why_unsupported(std::vector{sum}, device).empty());
  const std::vector<Reason> reasons =
      why_unsupported(std::vector{power, sum, powers, sine}, device);
  ASSERT_EQ(reasons.size(), 2U);
  EXPECT_EQ(reasons[0].op, Op::kExp);
  EXPECT_EQ(reasons[1].op, Op::kLog2);
  try {
    realize(std::vector{power});
    FAIL() << "it was realised";
  } catch (const Error& error) {
    ASSERT_NE(error.reason(), nullptr);
    EXPECT_TRUE(*error.reason() == reasons[0]);
  }
}

}  // namespace
}  // namespace tenon::testing
