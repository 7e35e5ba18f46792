// What the rules of the kernel verifier share: statements with their surroundings, and findings.
// Used by kernel_verify*.cpp alone. SPDX-License-Identifier: MIT

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tenon/ir/kernel_bounds.h"
#include "tenon/ir/kernel_verify.h"
#include "tenon/ir/kernel_walk.h"

namespace tenon::detail {

/// A statement and what encloses it.
struct Site {
  const Stmt* stmt = nullptr;
  int parent = -1;       ///< index of the enclosing For or If; -1: the kernel's body
  bool in_else = false;  ///< of that If
  int depth = 1;
};

struct Verifying {
  const Kernel& kernel;
  KernelStage stage;
  const Target* target;
  std::vector<Site> sites;  ///< text order
  std::vector<Finding> findings = {};
  std::string_view rule = {};  ///< the one that runs

  const BufferDecl& buffer(int number) const { return kernel.buffers[static_cast<size_t>(number)]; }
  /// "statement 3 (y = ...)"; statements are counted from 1 in text order.
  std::string name(size_t site) const;
  void report(Severity severity, std::string text) {
    findings.push_back({rule, severity, std::move(text)});
  }
  /// About the whole launch.
  void expect(const Support& support) {
    if (support) return;
    report(Severity::kError, "the launch " + support.reason().text);
    findings.back().support = support;
  }
  void error(size_t site, std::string_view text) {
    report(Severity::kError, concat(name(site), ": ", text));
  }
  void unproven(size_t site, std::string_view text) {
    report(Severity::kUnproven, concat(name(site), ": ", text));
  }
  std::string axis_name(const Node& axis) const;
  /// The For and If sites around a site, outer to inner.
  std::vector<size_t> enclosing(size_t site) const;
  /// Assumes the conditions around a site and, for a Comp, its guards.
  void assume_conditions(size_t site, KernelBounds& bounds) const;
};

/// A place in memory that a statement touches.
struct Access {
  int buffer = 0;
  std::vector<Node> index;
  Node gate;  ///< of a gated load
  bool is_write = false;
};
std::vector<Access> accesses_of(const Stmt& stmt);

bool contains(std::span<const AxisUse> axes, const Node& axis);
/// Nodes of one op below `expr`.
std::vector<Node> nodes_of(const Node& expr, Op op);

// kernel_verify_form.cpp
void verify_axes(Verifying& v);      // V1
void verify_target(Verifying& v);    // V5
void verify_barriers(Verifying& v);  // V8
void verify_roles(Verifying& v);     // V9
void verify_dtypes(Verifying& v);    // V10
void verify_depth(Verifying& v);     // V11
void verify_stage(Verifying& v);     // what the stage adds
// kernel_verify_access.cpp
void verify_distinct(Verifying& v);   // V2
void verify_inside(Verifying& v);     // V3
void verify_registers(Verifying& v);  // V4
void verify_own_reads(Verifying& v);  // V6
// kernel_verify_order.cpp
void verify_written(Verifying& v);  // V7

}  // namespace tenon::detail
