// Two implementations that share no code must agree: the oracle and eval_op, on random bits of
// every elementwise op and cast. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <array>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/conform/oracle.h"
#include "tenon/conform/oracle_numeric.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/tensor_ops.h"
#include "tests/support/random.h"

namespace tenon {
namespace {

constexpr int64_t kCount = 20'000;

// Random bits, half of them near each other and near special values, so that ties, cancellations
// and equal operands occur.
std::vector<uint64_t> random_bits(DType dtype, testing::Random& random) {
  std::vector<uint64_t> bits(kCount);
  for (uint64_t& value : bits) {
    value = random.next() >> 3;
    if (random.percent(30)) value = static_cast<uint64_t>(random.between(-70, 70));
    if (is_float(dtype) && random.percent(40)) {
      const FloatFormat format = float_format(dtype);
      const auto near_one = static_cast<uint64_t>(format.bias + random.between(-3, 7));
      value = near_one << format.mantissa_bits |
              (random.next() & ((uint64_t{1} << format.mantissa_bits) - 1)) |
              (random.next() & 1) << (dtype_bits(dtype) - 1);
    }
    value = dtype == DType::kBool ? value & 1 : detail::oracle_canonical(dtype, value);
  }
  return bits;
}

struct Inputs {
  std::vector<Node> buffers;
  std::vector<std::vector<std::byte>> data;
  std::vector<std::vector<uint64_t>> bits;

  void add(DType dtype, testing::Random& random) {
    bits.push_back(random_bits(dtype, random));
    buffers.push_back(tensor_buffer(dtype, Shape{kCount}));
    data.push_back(to_bytes(OracleValue{dtype, {kCount}, bits.back(), {}, {}}));
  }
};

// The arguments of element `i` in words, for a failure.
std::string arguments_text(const Inputs& inputs, int64_t i) {
  if (i < 0) return "";
  std::string text;
  for (const std::vector<uint64_t>& bits : inputs.bits)
    append(text, " ", bits[static_cast<size_t>(i)]);
  return text;
}

TEST(OracleAgreement, EveryElementwiseOpWithEvalOp) {
  testing::Random random(2024);
  int num_pairs = 0;
  for (const OpInfo& info : all_ops()) {
    if (!is_elementwise(info.op) || !has_level(info.op, kTensorLevel)) continue;
    if (info.op == Op::kCast || info.op == Op::kBitcast) continue;
    for (const DType dtype : storage_dtypes()) {
      Inputs inputs;
      for (int i = 0; i < info.arity; ++i)
        inputs.add(info.op == Op::kWhere && i == 0 ? DType::kBool : dtype, random);
      Node node;
      try {
        node = tensor_elementwise(info.op, inputs.buffers);
      } catch (const Error&) {
        continue;  // not an op of this dtype
      }
      const OracleValue value =
          evaluate_oracle({&node, 1}, bind_inputs(inputs.buffers, inputs.data))[0];
      std::vector<uint64_t> got(kCount);
      std::array<ScalarBits, 3> args{};
      for (size_t i = 0; i < got.size(); ++i) {
        for (size_t s = 0; s < inputs.bits.size(); ++s)
          args[s] = inputs.bits[s][i];
        got[i] = eval_op(info.op, dtype, {args.data(), inputs.bits.size()});
      }
      const Comparison comparison =
          compare(value, to_bytes(OracleValue{value.dtype, value.shape, got, {}, {}}));
      EXPECT_EQ(comparison.failed, 0)
          << info.name << " " << dtype_name(dtype) << ": " << comparison.text << "; arguments"
          << arguments_text(inputs, comparison.first_wrong);
      EXPECT_LT(comparison.excluded * 100, kCount);
      ++num_pairs;
    }
  }
  EXPECT_GT(num_pairs, 300);
}

TEST(OracleAgreement, EveryCastWithEvalCast) {
  testing::Random random(2025);
  for (const DType from : storage_dtypes()) {
    for (const DType to : storage_dtypes()) {
      Inputs inputs;
      inputs.add(from, random);
      const Node node = tensor_cast(inputs.buffers[0], to);
      const OracleValue value =
          evaluate_oracle({&node, 1}, bind_inputs(inputs.buffers, inputs.data))[0];
      std::vector<uint64_t> got(kCount);
      for (size_t i = 0; i < got.size(); ++i)
        got[i] = eval_cast(inputs.bits[0][i], from, to);
      const Comparison comparison =
          compare(value, to_bytes(OracleValue{to, value.shape, got, {}, {}}));
      EXPECT_EQ(comparison.failed, 0)
          << dtype_name(from) << " to " << dtype_name(to) << ": " << comparison.text << "; argument"
          << arguments_text(inputs, comparison.first_wrong);
    }
  }
}

}  // namespace
}  // namespace tenon
