// Walks over the statements of a kernel: every expression, every axis binding, in text order.
// Used by the printer, numbering, the verifier and passes. Statement depth is at most 64 in a
// verified kernel, so these walks recurse. SPDX-License-Identifier: MIT

#pragma once

#include <functional>

#include "tenon/ir/kernel.h"

namespace tenon {

/// Deepest nesting of statements that parser and verifier accept.
constexpr int kMaxStmtDepth = 64;

/// Calls `visit` for each statement, outer before inner, in text order (then before else).
void for_each_stmt(const Body& body, const std::function<void(const Stmt&)>& visit);
void for_each_mutable_stmt(Body& body, const std::function<void(Stmt&)>& visit);

/// Calls `visit` for each non-null expression that `stmt` itself holds (not its bodies), in a fixed
/// order: index, value, start, guards; extent; condition; dst and src index.
void for_each_expr(const Stmt& stmt, const std::function<void(const Node&)>& visit);
/// The same, replacing each expression by what `rewrite` returns.
void rewrite_exprs(Stmt& stmt, const std::function<Node(const Node&)>& rewrite);

/// The axes that `stmt` itself mentions as bindings: a Comp's, a For's, a Combine's.
std::span<const AxisUse> axes_of(const Stmt& stmt);

/// The bodies of a For or an If (else may be empty).
std::vector<const Body*> bodies_of(const Stmt& stmt);

/// Rewrites every expression and every axis of the kernel; `rewrite` must map axes to axes.
void rewrite_kernel(Kernel& kernel, const std::function<Node(const Node&)>& rewrite);

}  // namespace tenon
