// The rules of linear programs. Run after every pass that makes or changes one (where
// TENON_VERIFY_IR is on) and on every program that comes from a file.
// SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/ir/linear.h"
#include "tenon/types/target.h"

namespace tenon {

/// Elements of a buffer argument or an allocation at most: far below where byte counts leave 64
/// bits.
inline constexpr int64_t kMaxBufferElements = int64_t{1} << 40;

/// What is wrong with the program, one text per finding ("body of NAME, `%t = load f32 %p[%i]`:
/// pointer: ..."); empty if nothing. Safe on any contents. With `target` also: does the program use
/// only what it has? At most 20 findings. If the structure is broken (ids out of range, regions
/// that are not a tree) the list ends there.
std::vector<std::string> verify_linear(const LinearProgram& program,
                                       const Target* target = nullptr);

/// Throws `code` with all findings if there are any. kInternal after a pass of ours,
/// kInvalidArgument for programs from outside, kUnsupported for another device's program.
void check_linear(const LinearProgram& program, const Target* target = nullptr,
                  ErrorCode code = ErrorCode::kInternal);

/// Names of the rules in the order they are checked, for the documentation and its test.
std::vector<std::string_view> linear_rule_names();

}  // namespace tenon
