// Rules by which a backend changes what codegen makes for it: the one place where it touches the
// compiler. They run after decompose, when every expression is in ops of the Target and places are
// still indices by dim, one rule after the other, each a pass of its own: verified like every pass,
// shown by `tenon explain --passes`. A backend's descriptor brings them (engine/backend.h).
// SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

struct LoweringRule {
  std::string_view name;
  /// What stands in place of the statement, whose own statements have been looked at before;
  /// nothing where the rule does not apply. It may add axes and buffers to `nest`, of whose body it
  /// sees only the statement.
  std::optional<Body> (*apply)(const Stmt& stmt, Kernel& nest, const Target& target);
};

/// Applies the rule to each statement, inner ones first.
Kernel apply_rule(const Kernel& nest, const Target& target, const LoweringRule& rule);

}  // namespace tenon
