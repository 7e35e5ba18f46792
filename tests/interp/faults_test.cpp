// Each planted fault is found and reported by name; the mended program gives no report, the right
// values, and satisfies the verifier. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "tenon/base/text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_verify.h"
#include "tests/interp/fault_cases.h"

namespace tenon {
namespace {

using testing::FaultCase;
using ::testing::HasSubstr;
using testing::one_side;

struct Outcome {
  CheckedRun run;
  std::vector<int64_t> y;
};

/// Inputs hold 10, 11, ..., all else is as if nobody had ever written it.
Outcome run_case(const FaultCase& item, bool is_mended) {
  const CheckedProgram program(parse_linear(one_side(item.text, is_mended)), {});
  const std::vector<Argument>& arguments = program.program().signature.arguments;
  std::vector<std::vector<int32_t>> values(arguments.size());
  std::vector<std::vector<uint8_t>> written(arguments.size());
  std::vector<CheckedArgument> given;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Argument& argument = arguments[i];
    const bool is_read = argument.access != ArgumentAccess::kWrite;
    for (int32_t k = 0; k < argument.num_elements; ++k)
      values[i].push_back(is_read ? k + 10 : -77);
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(values[i]));
    written[i].assign(bytes.size(), is_read ? 1 : 0);
    if (i == 0 && item.hole >= 0)
      std::memset(&written[i][static_cast<size_t>(item.hole) * 4], 0, 4);
    given.push_back({.bytes = bytes, .written = written[i]});
  }
  Outcome outcome{.run = program.run(given), .y = {}};
  outcome.y.assign(values.back().begin(), values.back().end());
  return outcome;
}

class Faults : public ::testing::TestWithParam<FaultCase> {};

TEST_P(Faults, AreFoundAndReported) {
  const Outcome outcome = run_case(GetParam(), false);
  ASSERT_TRUE(outcome.run.fault) << "nothing was found";
  EXPECT_EQ(static_cast<int>(outcome.run.fault->kind), static_cast<int>(GetParam().kind));
  EXPECT_THAT(outcome.run.fault->text, HasSubstr(GetParam().words));
  EXPECT_THAT(outcome.run.fault->text, HasSubstr("kernel 'f'"));
}

TEST_P(Faults, MendedTheyAreSilentAndRight) {
  const LinearProgram program = parse_linear(one_side(GetParam().text, true));
  EXPECT_EQ(verify_linear(program), std::vector<std::string>());
  const Outcome outcome = run_case(GetParam(), true);
  EXPECT_FALSE(outcome.run.fault) << outcome.run.fault->text;
  EXPECT_EQ(outcome.y, GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(All, Faults, ::testing::ValuesIn(testing::fault_cases()),
                         [](const auto& item) {
                           std::string name;
                           for (const char c : item.param.name)
                             name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           return name;
                         });

TEST(FaultCases, CoverEachKindOfFault) {
  std::set<FaultKind> kinds;
  for (const FaultCase& item : testing::fault_cases())
    kinds.insert(item.kind);
  EXPECT_EQ(kinds.size(), 5U);
  EXPECT_GE(testing::fault_cases().size(), 40U);
}

TEST(FaultCases, ABufferMayLieWhereAClaimDoesNotHold) {
  const std::string text = R"(tir 1 func f grid(1) lanes(1) scratch 0 { arg 0 y f32[4] write
    %y = param 0 %i = const i32 0 %v = const f32x4 1 store %y[%i], %v align 16 })";
  const CheckedProgram program(parse_linear(text), {});
  std::vector<float> y(4);
  CheckedArgument argument{.bytes = std::as_writable_bytes(std::span(y)), .address = 64};
  EXPECT_FALSE(program.run({&argument, 1}).fault);
  argument.address = 72;
  const CheckedRun run = program.run({&argument, 1});
  ASSERT_TRUE(run.fault);
  EXPECT_THAT(run.fault->text, HasSubstr("lies at byte 0 of a buffer at address 72"));
}

TEST(FaultCases, WhatWasWrittenBeforeAFaultStays) {
  const FaultCase item = testing::fault_cases()[0];  // a store above the end
  EXPECT_EQ(run_case(item, false).y, item.want);
}

TEST(FaultCases, LaneOperationsAreCounted) {
  // 3 iterations of two lanes: add and store of 4 elements.
  const std::string text = R"(tir 1 func f grid(1) lanes(2) scratch 0 { arg 0 y i32[8] readwrite
    %y = param 0 %l = lane_id 0 i32 %4c = const i32 4 %0c = const i32 0 %3c = const i32 3
    %b = mul i32 %l, %4c
    for %i = %0c..%3c { %v = load i32x4 %y[%b] %w = add i32x4 %v, %v store %y[%b], %w } })";
  const CheckedProgram program(parse_linear(text), {});
  std::vector<int32_t> y(8, 1);
  const CheckedArgument argument{.bytes = std::as_writable_bytes(std::span(y))};
  EXPECT_EQ(program.run({&argument, 1}).lane_operations, 2U + 3 * 2 * (4 + 4 + 4));
  EXPECT_EQ(y, std::vector<int32_t>(8, 8));
}

}  // namespace
}  // namespace tenon
