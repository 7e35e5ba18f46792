// EXPECT_ERROR: a statement must throw tenon::Error with this code and these words in its text.
// For all tests. SPDX-License-Identifier: MIT
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "tenon/base/error.h"

namespace tenon::testing {

/// Runs `body`; success if it throws an Error of `code` whose text holds every word.
template <typename Body>
::testing::AssertionResult throws_error(Body&& body, ErrorCode code,
                                        std::initializer_list<std::string_view> words) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.what();
    if (error.code() != code) {
      return ::testing::AssertionFailure() << "code is " << error_code_name(error.code())
                                           << ", wanted " << error_code_name(code) << ": " << text;
    }
    for (const std::string_view word : words) {
      if (text.find(word) == std::string::npos) {
        return ::testing::AssertionFailure() << "no '" << word << "' in: " << text;
      }
    }
    return ::testing::AssertionSuccess();
  } catch (const std::exception& error) {
    return ::testing::AssertionFailure() << "threw something else: " << error.what();
  }
  return ::testing::AssertionFailure() << "threw nothing";
}

}  // namespace tenon::testing

/// EXPECT_ERROR(reshape(x, {3}), ErrorCode::kInvalidArgument, "reshape", "(4,8)");
#define EXPECT_ERROR(statement, code, ...) \
  EXPECT_TRUE(::tenon::testing::throws_error([&] { (void)(statement); }, (code), {__VA_ARGS__}))
