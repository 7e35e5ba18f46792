// Errors: one exception class with a code, the checks that throw it, and the "while ..." context.
// Every module uses it. Message parts are put into words only when a check fails.
// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "tenon/base/text.h"

namespace tenon {

/// What kind of failure it is, told apart by what the caller does next.
enum class ErrorCode {
  kInvalidArgument,  ///< the call is wrong: fix it
  kUnsupported,      ///< right, but not on this device, dtype or option: choose another one
  kNotFound,         ///< a file, device, renderer or name does not exist
  kOutOfMemory,      ///< free something or ask for less
  kCompileFailed,    ///< a compiler refused the kernel; its text is attached
  kDeviceFailed,     ///< the device reported a fault, was lost or reset
  kIo,               ///< reading or writing failed
  kInternal,         ///< a bug of ours: report it
};

/// What a device lacks (types/support.h): plain data that an Error carries and never looks at.
struct Reason;

/// The name without the k, in words as the CLI prints it: "invalid argument".
std::string_view error_code_name(ErrorCode code);

/// The only exception that Tenon throws on purpose. what() is the finished text: the failure on
/// the first line, then one line per layer it crossed ("while ..."), from the cause outward.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text, std::shared_ptr<const Reason> reason = nullptr)
      : std::runtime_error(text), code_(code), reason_(std::move(reason)) {}
  ErrorCode code() const noexcept { return code_; }
  /// Of kUnsupported, where a field of a Target says no: which one, and by how much. Else null.
  const std::shared_ptr<const Reason>& reason() const noexcept { return reason_; }

 private:
  ErrorCode code_;
  std::shared_ptr<const Reason> reason_;
};

/// Throws Error(code, concat(parts...)). Text: "where: what failed; expected vs got. What to do."
template <typename... Parts>
[[noreturn]] void fail(ErrorCode code, const Parts&... parts) {
  throw Error(code, concat(parts...));
}

namespace detail {
[[noreturn]] void fail_assert(const char* file, int line, const std::string& text);
[[noreturn]] void rethrow_with_context(const Error& error, const std::string& context);
}  // namespace detail

/// Runs `body` and returns what it returns. An Error that leaves it gains the line
/// "while <parts>"; a part that can be called without arguments is called only then.
///   with_context([&] { launch(kernel); }, "realising add, shape ", node.shape());
template <typename Body, typename... Parts>
decltype(auto) with_context(Body&& body, const Parts&... parts) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    detail::rethrow_with_context(error, concat(parts...));
  }
}

}  // namespace tenon

/// Checks what a user or the environment can get wrong: TENON_CHECK(k == n,
/// ErrorCode::kInvalidArgument, "matmul: inner dimensions differ; lhs is ", lhs_shape, ...).
#define TENON_CHECK(cond, code, ...)      \
  do {                                    \
    if (!(cond)) [[unlikely]] {           \
      ::tenon::fail((code), __VA_ARGS__); \
    }                                     \
  } while (false)

/// Checks an invariant of ours; failing is a bug (kInternal). The text is not optional.
#define TENON_ASSERT(cond, ...)                                                       \
  do {                                                                                \
    if (!(cond)) [[unlikely]] {                                                       \
      ::tenon::detail::fail_assert(__FILE__, __LINE__, ::tenon::concat(__VA_ARGS__)); \
    }                                                                                 \
  } while (false)
