// Every elementwise op and cast of the renderers, scalars and vectors, with operands from memory
// and as constants, against ir/eval_op on special values. One compiler run per level of the CPU.
// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "tenon/base/text.h"
#include "tenon/ir/eval_op.h"
#include "tests/render/kernel_library.h"
#include "tests/render/text_lint.h"

namespace tenon::testing {
namespace {

constexpr int kWidths[] = {1, 3, 4, 16};

/// Inputs of all ops of one dtype: a and b run over all pairs of special values.
struct Inputs {
  explicit Inputs(DType type) : dtype(type) {
    const std::vector<uint64_t> values = special_values(type);
    for (size_t i = 0; i < values.size(); ++i) {
      for (size_t j = 0; j < values.size(); ++j) {
        a.push_back(values[i]);
        b.push_back(values[j]);
        c.push_back(values[(i * 7 + j * 3 + 1) % values.size()]);
        mask.push_back((i * 5 + j + j / 3) % 2);
      }
    }
    for (size_t i = 0; a.size() % 48 != 0; ++i) {  // whole vectors of 3 and of 16
      for (std::vector<uint64_t>* column : {&a, &b, &c, &mask})
        column->push_back((*column)[i]);
    }
  }
  DType dtype;
  std::vector<uint64_t> a, b, c, mask;
};

HostBuffer to_buffer(DType dtype, const std::vector<uint64_t>& values) {
  HostBuffer buffer(dtype, values.size());
  for (size_t i = 0; i < values.size(); ++i)
    buffer.set(i, values[i]);
  return buffer;
}

ValueId i64_const(LinearBuilder& builder, int64_t value) {
  return builder.constant(value_type(DType::kI64), static_cast<uint64_t>(value));
}

DType result_dtype(Op op, DType dtype) {
  return op_info(op).rule == DTypeRule::kCompare ? DType::kBool : dtype;
}

ValueId apply(LinearBuilder& builder, Op op, ValueId mask, ValueId a, ValueId b, ValueId c) {
  if (op == Op::kWhere) return builder.ternary(op, mask, a, b);
  const int arity = op_info(op).arity;
  if (arity == 1) return builder.unary(op, a);
  return arity == 2 ? builder.binary(op, a, b) : builder.ternary(op, a, b, c);
}

uint64_t expected(Op op, DType dtype, const Target& target, uint64_t mask, uint64_t a, uint64_t b,
                  uint64_t c) {
  if (op == Op::kWhere) return eval_op(op, dtype, std::array{mask, a, b});
  if (op == Op::kMulAcc && target.fuses_mulacc) return eval_fused_mulacc(dtype, a, b, c);
  const std::array all{a, b, c};
  return eval_op(op, dtype, std::span(all).first(static_cast<size_t>(op_info(op).arity)));
}

/// a, b, c, mask -> out and out_bool; op k writes at k * count.
LinearProgram all_ops_program(DType dtype, int lanes, size_t count, const Target& target) {
  LinearProgram program;
  program.name = concat("ops_", dtype_name(dtype), 'x', lanes);
  program.grid = {1};
  program.lanes = {1};
  for (const char* name : {"a", "b", "c"})
    program.signature.arguments.push_back(buffer_argument(name, dtype, ArgumentAccess::kRead));
  program.signature.arguments.push_back(
      buffer_argument("mask", DType::kBool, ArgumentAccess::kRead));
  program.signature.arguments.push_back(buffer_argument("out", dtype, ArgumentAccess::kWrite));
  program.signature.arguments.push_back(
      buffer_argument("out_bool", DType::kBool, ArgumentAccess::kWrite));
  LinearBuilder builder(program);
  std::vector<ValueId> params;
  for (int i = 0; i < 6; ++i)
    params.push_back(builder.param(i));
  const auto loop = builder.begin_for(i64_const(builder, 0),
                                      i64_const(builder, static_cast<int64_t>(count) / lanes), {});
  const ValueId at = builder.binary(Op::kMul, loop.index, i64_const(builder, lanes));
  std::vector<ValueId> in;
  for (size_t i = 0; i < 4; ++i) {
    const DType type = i == 3 ? DType::kBool : dtype;
    in.push_back(builder.load(value_type(type, lanes), params[i], at));
  }
  int64_t offset = 0;
  for (const Op op : linear_ops_of(dtype, target)) {
    const ValueId result = apply(builder, op, in[3], in[0], in[1], in[2]);
    const bool is_bool = result_dtype(op, dtype) == DType::kBool;
    builder.store(params[is_bool ? 5 : 4], at, result, offset);
    offset += static_cast<int64_t>(count);
  }
  builder.end_for(loop, {});
  return program;
}

/// in -> one output per dtype it can be cast to, then one per dtype of its width (bitcast).
std::vector<std::pair<Op, DType>> conversions_of(DType from, const Target& target) {
  std::vector<std::pair<Op, DType>> result;
  for (const DType to : storage_dtypes()) {
    if (to != from && target.has_cast(from, to)) result.emplace_back(Op::kCast, to);
  }
  for (const DType to : storage_dtypes()) {
    if (dtype_bits(to) == dtype_bits(from)) result.emplace_back(Op::kBitcast, to);
  }
  return result;
}

LinearProgram casts_program(DType from, int lanes, size_t count, const Target& target) {
  LinearProgram program;
  program.name = concat("casts_", dtype_name(from), 'x', lanes);
  program.grid = {1};
  program.lanes = {1};
  program.signature.arguments.push_back(buffer_argument("x", from, ArgumentAccess::kRead));
  const auto conversions = conversions_of(from, target);
  for (const auto& [op, to] : conversions)
    program.signature.arguments.push_back(buffer_argument("y", to, ArgumentAccess::kWrite));
  LinearBuilder builder(program);
  std::vector<ValueId> params;
  for (size_t i = 0; i <= conversions.size(); ++i)
    params.push_back(builder.param(static_cast<int>(i)));
  const auto loop = builder.begin_for(i64_const(builder, 0),
                                      i64_const(builder, static_cast<int64_t>(count) / lanes), {});
  const ValueId at = builder.binary(Op::kMul, loop.index, i64_const(builder, lanes));
  const ValueId x = builder.load(value_type(from, lanes), params[0], at);
  for (size_t i = 0; i < conversions.size(); ++i) {
    const auto& [op, to] = conversions[i];
    builder.store(params[i + 1], at,
                  op == Op::kCast ? builder.cast(x, to) : builder.bitcast(x, to));
  }
  builder.end_for(loop, {});
  return program;
}

/// Op with a constant as second operand: x op k, for each k and op, result number at i * count.
LinearProgram constants_program(DType dtype, int lanes, size_t count, const Target& target,
                                const std::vector<uint64_t>& constants) {
  LinearProgram program;
  program.name = concat("constants_", dtype_name(dtype), 'x', lanes);
  program.grid = {1};
  program.lanes = {1};
  program.signature.arguments = {buffer_argument("x", dtype, ArgumentAccess::kRead),
                                 buffer_argument("out", dtype, ArgumentAccess::kWrite),
                                 buffer_argument("out_bool", DType::kBool, ArgumentAccess::kWrite)};
  LinearBuilder builder(program);
  const ValueId x_param = builder.param(0);
  const ValueId out = builder.param(1);
  const ValueId out_bool = builder.param(2);
  const auto loop = builder.begin_for(i64_const(builder, 0),
                                      i64_const(builder, static_cast<int64_t>(count) / lanes), {});
  const ValueId at = builder.binary(Op::kMul, loop.index, i64_const(builder, lanes));
  const ValueId x = builder.load(value_type(dtype, lanes), x_param, at);
  int64_t offset = 0;
  for (const Op op : linear_ops_of(dtype, target)) {
    for (const uint64_t bits : constants) {
      const ValueId k = builder.constant(value_type(dtype, lanes), bits);
      const ValueId mask = builder.constant(value_type(DType::kBool, lanes), 1);
      const ValueId result = apply(builder, op, mask, x, k, k);
      const bool is_bool = result_dtype(op, dtype) == DType::kBool;
      builder.store(is_bool ? out_bool : out, at, result, offset);
      offset += static_cast<int64_t>(count);
    }
  }
  builder.end_for(loop, {});
  return program;
}

class Ops : public ::testing::TestWithParam<RendererCase> {
 protected:
  const CpuLevel& level() const { return *GetParam().level; }
  void SetUp() override {
    if (const auto why = why_not_compiled(*GetParam().renderer)) GTEST_SKIP() << *why;
  }
};

std::vector<DType> computed_dtypes(const Target& target) {
  std::vector<DType> dtypes;
  for (const DType dtype : storage_dtypes()) {
    if (target.can_compute(dtype)) dtypes.push_back(dtype);
  }
  return dtypes;
}

TEST_P(Ops, EveryOpHasTheBitsOfEvalOp) {
  std::vector<RenderedSource> sources;
  for (const DType dtype : computed_dtypes(level().target)) {
    const size_t count = Inputs(dtype).a.size();
    for (const int lanes : kWidths) {
      sources.push_back(GetParam().renderer->render(
          all_ops_program(dtype, lanes, count, level().target), level().target));
    }
  }
  const KernelLibrary library(sources, GetParam());
  ASSERT_EQ(library.problems(), "") << library.text().substr(0, 20000);
  EXPECT_EQ(lint_text(*GetParam().renderer, library.text()), std::vector<std::string>{});
  if (!level().is_here) GTEST_SKIP() << "compiled only: this machine has no " << level().name;
  size_t source = 0;
  for (const DType dtype : computed_dtypes(level().target)) {
    const Inputs in(dtype);
    const size_t count = in.a.size();
    const std::vector<Op> ops = linear_ops_of(dtype, level().target);
    const HostBuffer a = to_buffer(dtype, in.a);
    const HostBuffer b = to_buffer(dtype, in.b);
    const HostBuffer c = to_buffer(dtype, in.c);
    const HostBuffer mask = to_buffer(DType::kBool, in.mask);
    for (const int lanes : kWidths) {
      const RenderedSource& kernel = sources[source++];
      const HostBuffer out(dtype, count * ops.size());
      const HostBuffer out_bool(DType::kBool, count * ops.size());
      Signature signature;
      signature.arguments.assign(6, buffer_argument("x", dtype, ArgumentAccess::kRead));
      const auto args =
          pack_arguments(signature, std::array{a.address(), b.address(), c.address(),
                                               mask.address(), out.address(), out_bool.address()});
      library.kernel(kernel.entry)(args.data(), 0, 1, nullptr);
      for (size_t k = 0; k < ops.size(); ++k) {
        const DType type = result_dtype(ops[k], dtype);
        const HostBuffer& results = type == DType::kBool ? out_bool : out;
        size_t wrong = 0;
        for (size_t i = 0; i < count; ++i) {
          const uint64_t want =
              expected(ops[k], dtype, level().target, in.mask[i], in.a[i], in.b[i], in.c[i]);
          const uint64_t got = results.get(k * count + i);
          if (same_value(type, want, got)) continue;
          if (++wrong > 3) break;
          ADD_FAILURE() << op_name(ops[k]) << ' ' << dtype_name(dtype) << " x" << lanes << std::hex
                        << " of " << in.a[i] << ", " << in.b[i] << ", " << in.c[i] << ": got "
                        << got << ", want " << want;
        }
      }
    }
  }
}

TEST_P(Ops, EveryCastHasTheBitsOfEvalCast) {
  std::vector<RenderedSource> sources;
  for (const DType from : storage_dtypes()) {
    const size_t count = (special_values(from).size() + 47) / 48 * 48;
    for (const int lanes : kWidths) {
      sources.push_back(GetParam().renderer->render(
          casts_program(from, lanes, count, level().target), level().target));
    }
  }
  const KernelLibrary library(sources, GetParam());
  ASSERT_EQ(library.problems(), "") << library.text().substr(0, 20000);
  EXPECT_EQ(lint_text(*GetParam().renderer, library.text()), std::vector<std::string>{});
  if (!level().is_here) GTEST_SKIP() << "compiled only: this machine has no " << level().name;
  size_t source = 0;
  for (const DType from : storage_dtypes()) {
    std::vector<uint64_t> values = special_values(from);
    while (values.size() % 48 != 0)
      values.push_back(values[values.size() / 2]);
    const HostBuffer x = to_buffer(from, values);
    const auto conversions = conversions_of(from, level().target);
    for (const int lanes : kWidths) {
      std::vector<HostBuffer> outs;
      std::vector<uint64_t> addresses{x.address()};
      for (const auto& [op, to] : conversions) {
        outs.emplace_back(to, values.size());
        addresses.push_back(outs.back().address());
      }
      Signature signature;
      signature.arguments.assign(addresses.size(), buffer_argument("x", from, {}));
      const auto args = pack_arguments(signature, addresses);
      library.kernel(sources[source++].entry)(args.data(), 0, 1, nullptr);
      for (size_t k = 0; k < conversions.size(); ++k) {
        const auto& [op, to] = conversions[k];
        for (size_t i = 0; i < values.size(); ++i) {
          const uint64_t want =
              op == Op::kCast ? eval_cast(values[i], from, to) : eval_bitcast(values[i], from, to);
          EXPECT_TRUE(same_value(to, want, outs[k].get(i)))
              << op_name(op) << ' ' << dtype_name(from) << " to " << dtype_name(to) << " x" << lanes
              << std::hex << " of " << values[i] << ": got " << outs[k].get(i) << ", want " << want;
        }
      }
    }
  }
}

TEST_P(Ops, ConstantOperandsMeanTheSame) {
  if (level().name == "avx2") GTEST_SKIP() << "constants meet the compiler alike at each level";
  std::vector<RenderedSource> sources;
  std::map<DType, std::vector<uint64_t>> constants;
  for (const DType dtype : computed_dtypes(level().target)) {
    const std::vector<uint64_t> values = special_values(dtype);
    for (size_t i = 0; i < values.size(); i += is_float(dtype) ? 9 : 5)
      constants[dtype].push_back(values[i]);
    if (is_float(dtype)) {  // inf, -inf, two NaN, denormals
      constants[dtype].insert(constants[dtype].end(), values.end() - 6, values.end());
    } else {
      constants[dtype].push_back(int_min_bits(dtype));
      constants[dtype].push_back(canonical_bits(dtype, ~uint64_t{0}));
    }
    const size_t count = (values.size() + 47) / 48 * 48;
    for (const int lanes : {1, 4}) {
      sources.push_back(GetParam().renderer->render(
          constants_program(dtype, lanes, count, level().target, constants[dtype]),
          level().target));
    }
  }
  const KernelLibrary library(sources, GetParam());
  ASSERT_EQ(library.problems(), "") << library.text().substr(0, 20000);
  EXPECT_EQ(lint_text(*GetParam().renderer, library.text()), std::vector<std::string>{});
  if (!level().is_here) GTEST_SKIP() << "compiled only: this machine has no " << level().name;
  size_t source = 0;
  for (const DType dtype : computed_dtypes(level().target)) {
    std::vector<uint64_t> values = special_values(dtype);
    while (values.size() % 48 != 0)
      values.push_back(values[values.size() / 2]);
    const HostBuffer x = to_buffer(dtype, values);
    const std::vector<Op> ops = linear_ops_of(dtype, level().target);
    const std::vector<uint64_t>& ks = constants[dtype];
    for (const int lanes : {1, 4}) {
      const HostBuffer out(dtype, values.size() * ops.size() * ks.size());
      const HostBuffer out_bool(DType::kBool, out.size());
      Signature signature;
      signature.arguments.assign(3, buffer_argument("x", dtype, {}));
      const auto args =
          pack_arguments(signature, std::array{x.address(), out.address(), out_bool.address()});
      library.kernel(sources[source++].entry)(args.data(), 0, 1, nullptr);
      for (size_t k = 0; k < ops.size() * ks.size(); ++k) {
        const Op op = ops[k / ks.size()];
        const uint64_t constant = ks[k % ks.size()];
        const DType type = result_dtype(op, dtype);
        for (size_t i = 0; i < values.size(); ++i) {
          const uint64_t want =
              expected(op, dtype, level().target, 1, values[i], constant, constant);
          const uint64_t got = (type == DType::kBool ? out_bool : out).get(k * values.size() + i);
          EXPECT_TRUE(same_value(type, want, got))
              << op_name(op) << ' ' << dtype_name(dtype) << " x" << lanes << std::hex << " of "
              << values[i] << " and constant " << constant << ": got " << got << ", want " << want;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Renderers, Ops, ::testing::ValuesIn(renderer_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tenon::testing
