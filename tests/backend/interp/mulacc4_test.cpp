// The rule that INTERP::WIDE brings: programs have its instruction, values are right, a rule that
// is wrong is found. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/codegen/codegen.h"
#include "tenon/engine/engine_device.h"
#include "tenon/interp/checked_program.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/schedule/schedule.h"
#include "tests/conform/graph_batch.h"
#include "tests/support/random.h"

namespace tenon::testing {
namespace {

constexpr const char* kWide = "INTERP::WIDE";

/// a (m,k) times b (k,n) on the default device, where there is one.
Node product(GraphBatch* batch, int64_t m, int64_t n, int64_t k) {
  Random random(static_cast<uint64_t>(m + n + k));
  const auto make = [&](const Shape& shape) {
    if (batch == nullptr) return tensor_buffer(DType::kF32, shape);
    std::vector<uint64_t> bits;
    for (int64_t i = 0; i < num_elements(shape); ++i) {
      const auto number = static_cast<int64_t>(random.between(-3000, 3000));
      bits.push_back(double_to_float(static_cast<double>(number) / 129.0, DType::kF32));
    }
    return batch->buffer(DType::kF32, bits, shape);
  };
  const Shape box{m, k, n};
  const Node a = tensor_expand(tensor_reshape(make(Shape{m, k}), Shape{m, k, 1}), box);
  const Node b = tensor_expand(tensor_reshape(make(Shape{k, n}), Shape{1, k, n}), box);
  const std::vector<int64_t> axes{1};
  return tensor_reduce(Op::kAdd, tensor_binary(Op::kMul, a, b), axes, DType::kF32);
}

struct Size {
  int64_t m, n, k;
};
constexpr Size kSizes[] = {{1, 1, 4},    {5, 7, 3},    {3, 9, 18},
                           {16, 16, 64}, {33, 20, 67}, {2, 5, 301}};

std::vector<LinearProgram> programs_of(const Node& output, const EngineDevice& device,
                                       bool has_rules = true) {
  std::vector<LinearProgram> programs;
  for (const ScheduledCall& call :
       schedule_graph(std::span(&output, 1), schedule_options(device.target())).calls) {
    CodegenOptions options{.verify = true};
    if (has_rules) options.rules = device.lowering_rules();
    programs.push_back(lower_kernel(call.kernel, device.target(), options));
  }
  return programs;
}

int64_t count(const std::vector<LinearProgram>& programs, Op op) {
  int64_t number = 0;
  for (const LinearProgram& program : programs)
    number += std::ranges::count(program.insts, op, &Inst::op);
  return number;
}

TEST(MulAcc4, IsInProgramsByTheRuleAlone) {
  const EngineDevice& wide = engine_device(Device::get(kWide));
  ASSERT_EQ(wide.lowering_rules().size(), 1U);
  EXPECT_TRUE(wide.target().is_native(Op::kMulAcc4));
  EXPECT_TRUE(engine_device(Device::get("INTERP")).lowering_rules().empty());
  const Node output = product(nullptr, 33, 20, 67);
  const auto with = programs_of(output, wide);
  const auto without = programs_of(output, wide, false);
  EXPECT_GT(count(with, Op::kMulAcc4), 0);
  EXPECT_EQ(count(without, Op::kMulAcc4), 0);
  EXPECT_GT(count(without, Op::kMulAcc), 0);
}

TEST(MulAcc4, ValuesAreRight) {
  const ScopedSetting setting(Setting::kDevice, kWide);
  GraphBatch batch;
  for (const Size& size : kSizes) {
    batch.add(concat(size.m, " x ", size.n, " x ", size.k),
              product(&batch, size.m, size.n, size.k));
  }
  batch.check("mulacc4");
}

// The definition of docs/ir.md against sums in a wider format that are exact.
TEST(MulAcc4, RoundsOnce) {
  const auto f32 = [](double value) { return double_to_float(value, DType::kF32); };
  const auto eval = [](std::array<ScalarBits, 9> args) {
    return eval_op(Op::kMulAcc4, DType::kF32, args);
  };
  const ScalarBits one = f32(1);
  const ScalarBits half_ulp = f32(0x1p-24);
  // Two halves of an ulp: lost one by one, not together.
  EXPECT_EQ(eval({half_ulp, one, half_ulp, one, 0, 0, 0, 0, one}), f32(1 + 0x1p-23));
  // Too large for f32 on the way, not in the end.
  const ScalarBits large = f32(0x1p100);
  EXPECT_EQ(eval({large, large, f32(-0x1p100), large, one, one, 0, 0, 0}), one);
  // Products of 48 bits are not rounded.
  const ScalarBits next = f32(1 + 0x1p-23);
  EXPECT_EQ(eval({next, next, f32(-1), one, f32(-0x1p-22), one, 0, 0, 0}), f32(0x1p-46));
  EXPECT_EQ(eval({f32(INFINITY), one, f32(-INFINITY), one, 0, 0, 0, 0, one}), 0x7fc00000U);
}

/// The right rule with a fault of one kind.
template <int kFault>
std::optional<Body> faulty(const Stmt& stmt, Kernel& nest, const Target& target) {
  const LoweringRule& right = engine_device(Device::get(kWide)).lowering_rules()[0];
  std::optional<Body> body = right.apply(stmt, nest, target);
  if (!body) return body;
  auto& loop = std::get<For>((*body)[0].node);
  auto& comp = std::get<Comp>(loop.body[0].node);
  std::vector<Node> operands(comp.value.srcs().begin(), comp.value.srcs().end());
  if (kFault == 0) operands[2] = operands[0];                                 // one factor twice
  if (kFault == 1) body->resize(1);                                           // the rest is lost
  if (kFault == 2) loop.extent = idx_const(axis_extent(loop.axis.axis) + 1);  // one step too many
  if (kFault == 3) operands[8] = number_const(DType::kF32, 0);  // the sum so far is lost
  if (kFault == 4) comp.dst = 0;                                // another buffer
  comp.value = make_expr(Op::kMulAcc4, operands);
  return body;
}

/// What finds the rule: the verifier, a check of the interpreter, the values, or nothing.
std::string found_by(const LoweringRule& rule) {
  const EngineDevice& device = engine_device(Device::get(kWide));
  const Node output = product(nullptr, 3, 9, 19);
  const Kernel kernel =
      schedule_graph(std::span(&output, 1), schedule_options(device.target())).calls.at(0).kernel;
  const auto run = [&](std::span<const LoweringRule> rules) {
    const CodegenOptions options{.verify = true, .rules = rules};
    const LinearProgram program = lower_kernel(kernel, device.target(), options);
    std::vector<std::vector<std::byte>> data;
    for (const Argument& argument : program.signature.arguments) {
      std::vector<uint64_t> bits;
      for (int64_t i = 0; i < argument.num_elements; ++i)
        bits.push_back(double_to_float(static_cast<double>(1 + i * 7 % 11), DType::kF32));
      data.push_back(bytes_of(DType::kF32, bits));
    }
    std::vector<CheckedArgument> arguments;
    for (std::vector<std::byte>& bytes : data)
      arguments.push_back({.bytes = bytes});
    if (CheckedProgram(program, {}).run(arguments).fault) data[0].clear();
    return data[0];
  };
  try {
    const std::vector<std::byte> got = run({&rule, 1});
    if (got.empty()) return "interpreter";
    return got == run({}) ? "nothing" : "values";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("after backend rule wrong"), std::string::npos)
        << error.what();
    return "verifier";
  }
}

TEST(MulAcc4, AWrongRuleIsFound) {
  const LoweringRule right = engine_device(Device::get(kWide)).lowering_rules()[0];
  EXPECT_EQ(found_by({.name = "wrong", .apply = right.apply}), "nothing");  // it is right
  EXPECT_EQ(found_by({.name = "wrong", .apply = faulty<0>}), "values");
  EXPECT_EQ(found_by({.name = "wrong", .apply = faulty<1>}), "values");
  EXPECT_EQ(found_by({.name = "wrong", .apply = faulty<2>}), "interpreter");
  EXPECT_EQ(found_by({.name = "wrong", .apply = faulty<3>}), "values");
  EXPECT_EQ(found_by({.name = "wrong", .apply = faulty<4>}), "verifier");
}

}  // namespace
}  // namespace tenon::testing
