// Errors: codes, texts, lazy message parts, context lines.
// SPDX-License-Identifier: MIT
#include "tenon/base/error.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/support/expect_error.h"

namespace tenon {
namespace {

TEST(Error, CheckThrowsCodeAndText) {
  const std::vector<int64_t> lhs = {4, 8};
  const std::vector<int64_t> rhs = {16, 2};
  try {
    TENON_CHECK(lhs[1] == rhs[0], ErrorCode::kInvalidArgument,
                "matmul: inner dimensions differ; lhs is ", lhs, ", rhs is ", rhs);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_STREQ(error.what(), "matmul: inner dimensions differ; lhs is (4,8), rhs is (16,2)");
  }
}

TEST(Error, PartsAreEvaluatedOnlyOnFailure) {
  int calls = 0;
  const auto count = [&] { return ++calls; };
  TENON_CHECK(calls == 0, ErrorCode::kIo, "never ", count());
  TENON_ASSERT(calls == 0, "never ", count());
  EXPECT_EQ(calls, 0);
  EXPECT_ERROR([&] { TENON_CHECK(calls == 1, ErrorCode::kIo, "value ", count()); }(),
               ErrorCode::kIo, "value 1");
  EXPECT_EQ(calls, 1);
}

TEST(Error, CheckIsOneStatementBesideElse) {
  const auto classify = [](bool outer, bool inner) {
    if (outer)
      TENON_CHECK(inner, ErrorCode::kNotFound, "inner");
    else
      return 2;
    return 1;
  };
  EXPECT_EQ(classify(true, true), 1);
  EXPECT_EQ(classify(false, false), 2);
  EXPECT_ERROR(classify(true, false), ErrorCode::kNotFound, "inner");
}

TEST(Error, AssertIsInternalAndAsksForAReport) {
  EXPECT_ERROR([] { TENON_ASSERT(1 == 2, "rewrite '", "fold", "' did not stop"); }(),
               ErrorCode::kInternal, "internal: rewrite 'fold' did not stop",
               "(tests/base/error_test.cpp:", "This is a bug in tenon; please report it");
}

TEST(Error, ContextReadsFromTheCauseOutward) {
  const std::vector<int64_t> shape = {64, 32};
  const auto run = [&] {
    with_context(
        [&] { with_context([] { fail(ErrorCode::kOutOfMemory, "no room"); }, "allocating"); },
        "realising add, shape ", shape);
  };
  EXPECT_ERROR(run(), ErrorCode::kOutOfMemory,
               "no room\nwhile allocating\nwhile realising add, shape (64,32)");
}

TEST(Error, ContextReturnsWhatTheBodyReturns) {
  int value = 7;
  int& same = with_context([&]() -> int& { return value; }, "looking");
  EXPECT_EQ(&same, &value);
  EXPECT_EQ(with_context([] { return std::string("x"); }, "looking"), "x");
}

TEST(Error, ContextCallsItsPartsOnlyOnFailure) {
  int calls = 0;
  const auto describe = [&] {
    ++calls;
    return std::string("described");
  };
  with_context([] {}, describe);
  EXPECT_EQ(calls, 0);
  EXPECT_ERROR(with_context([]() -> int { fail(ErrorCode::kIo, "cause"); }, describe),
               ErrorCode::kIo, "cause\nwhile described");
  EXPECT_EQ(calls, 1);
}

TEST(Error, OtherExceptionsPassThroughContext) {
  EXPECT_THROW(with_context([] { throw std::logic_error("mine"); }, "working"), std::logic_error);
}

TEST(Error, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  constexpr int kNumCodes = static_cast<int>(ErrorCode::kInternal) + 1;
  for (int code = 0; code < kNumCodes; ++code) {
    names.insert(error_code_name(static_cast<ErrorCode>(code)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(kNumCodes));
  EXPECT_EQ(names.count("unknown"), 0u);
}

}  // namespace
}  // namespace tenon
