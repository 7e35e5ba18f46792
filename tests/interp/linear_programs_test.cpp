// The programs of tests/tir, executed and compared with plain loops. They show that the linear
// level can say what code generation must: packing, register tiles, masks, trees, shuffles.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/interp/interpret.h"
#include "tenon/ir/linear_verify.h"
#include "tests/ir/linear_support.h"
#include "tests/support/expect_error.h"
#include "tests/tir/tir_cases.h"

namespace tenon {
namespace {

using testing::buffer_argument;
using testing::F32Bits;
using testing::poisoned;
using testing::tir_cases;
using testing::tir_program;
using testing::tir_text;
using testing::TirCase;

F32Bits run(const LinearProgram& program, const TirCase& item, InterpOptions options = {}) {
  options.units = item.units;
  std::vector<F32Bits> inputs = item.inputs;
  F32Bits output = poisoned<uint32_t>(item.num_outputs + 16);  // the last 16 must stay as they are
  std::vector<ArgumentValue> arguments;
  for (F32Bits& input : inputs)
    arguments.push_back(buffer_argument(DType::kF32, input));
  arguments.push_back(buffer_argument(DType::kF32, output));
  interpret(program, arguments, options);
  const F32Bits rest(output.end() - 16, output.end());
  EXPECT_EQ(rest, poisoned<uint32_t>(16)) << program.name;
  EXPECT_EQ(inputs, item.inputs) << program.name;
  output.resize(item.num_outputs);
  return output;
}

TEST(LinearPrograms, FollowTheRules) {
  for (const std::string& name : testing::tir_files()) {
    EXPECT_EQ(verify_linear(tir_program(name)), std::vector<std::string>()) << name;
  }
}

TEST(LinearPrograms, GiveTheExpectedNumbers) {
  const std::vector<TirCase> items = tir_cases();
  ASSERT_EQ(items.size(), testing::tir_files().size());
  for (const TirCase& item : items) {
    for (const bool fused : {false, true}) {
      const F32Bits output = run(tir_program(item.file), item, {.fuses_mulacc = fused});
      EXPECT_EQ(item.find_fault(output), "") << item.file;
    }
  }
}

TEST(LinearPrograms, TheReluOfTheMatmulNeitherIdlesNorTakesAll) {
  const TirCase matmul = tir_cases()[0];
  const F32Bits output = run(tir_program(matmul.file), matmul);
  const auto num_zeros = std::count(output.begin(), output.end(), 0U);
  EXPECT_GT(num_zeros * 4, std::ssize(output));
  EXPECT_LT(num_zeros * 4, std::ssize(output) * 3);
}

TEST(LinearPrograms, AMissingBarrierIsARace) {
  const TirCase item = tir_cases()[3];
  const std::string text = tir_text(item.file);
  for (const std::string_view barrier : {"\n  barrier", "\n    barrier"}) {
    const size_t at = text.find(barrier);  // before the loop, and with four spaces inside it
    ASSERT_NE(at, std::string::npos);
    std::string broken = text;
    broken.erase(at, barrier.size());
    EXPECT_ERROR(run(parse_linear(broken), item), ErrorCode::kInvalidArgument, "race on element",
                 "no barrier stands between");
  }
}

}  // namespace
}  // namespace tenon
