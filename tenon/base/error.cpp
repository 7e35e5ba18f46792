// Texts of errors that need more than concat. Called through error.h.
// SPDX-License-Identifier: MIT
#include "tenon/base/error.h"

namespace tenon {

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kOutOfMemory: return "out of memory";
    case ErrorCode::kCompileFailed: return "compile failed";
    case ErrorCode::kDeviceFailed: return "device failed";
    case ErrorCode::kIo: return "input/output";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

namespace detail {

void fail_assert(const char* file, int line, const std::string& text) {
  throw Error(ErrorCode::kInternal, concat("internal: ", text, " (", file, ":", line,
                                           "). This is a bug in tenon; please report it"));
}

void rethrow_with_context(const Error& error, const std::string& context) {
  // A new object: the old one may be held by an exception_ptr that another thread reads.
  throw Error(error.code(), concat(error.what(), "\nwhile ", context), error.reason());
}

}  // namespace detail
}  // namespace tenon
