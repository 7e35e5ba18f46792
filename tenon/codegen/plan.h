// Plan: what is done with each axis of a kernel, as plain data. Found by choose_plan, checked by
// check_plan, turned into a nest by build_nest; has a text form. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/types/target.h"

namespace tenon {

/// A piece of an axis: axis = step * part + the pieces inside it. Tails are trimmed.
struct Part {
  int axis = 0;            ///< position in Comp::axes
  Role role = Role::kSeq;  ///< kGrid or kSeq
  int64_t step = 1;
  friend bool operator==(const Part&, const Part&) = default;
};

/// How a Comp is placed. The root (the kernel's last Comp) has how == kRoot; every other is
/// computed `before` the root, inside the first `at` loops of the root, in a buffer that holds the
/// box of the loops inside.
enum class How : uint8_t { kRoot, kBefore };

struct CompPlan {
  int comp = 0;  ///< position in Kernel::body
  How how = How::kRoot;
  int at = 0;               ///< kBefore: number of root loops (parts) around it
  std::vector<Part> parts;  ///< loops, outer to inner. kBefore: only those that `at` does not cover
  friend bool operator==(const CompPlan&, const CompPlan&) = default;
};

struct Plan {
  std::vector<CompPlan> comps;  ///< in the order of Kernel::body
  friend bool operator==(const Plan&, const Plan&) = default;
};

std::string to_text(const Plan& plan, const Kernel& kernel);

/// Reads what to_text prints; check_plan says whether it fits. Throws kInvalidArgument
/// "source:line:column: ..." for anything else, and for a plan of a kernel of another name.
Plan parse_plan(std::string_view text, const Kernel& kernel, std::string_view source_name = "plan");

/// Extent per dim of the part of comp `number`'s buffer that is alive at once: 1 where the loops
/// around it fix the dim.
std::vector<int64_t> producer_box(const Kernel& kernel, const Plan& plan, int number);

/// Why the plan does not fit; empty: it does.
std::optional<std::string> check_plan(const Kernel& kernel, const Plan& plan, const Target& target);

/// Loops in order: the outer axes of the root are dealt over groups, every reduction is computed in
/// a register where its value is used. Before: the root has no reduce axes (see split_root).
Plan choose_plan(const Kernel& kernel, const Target& target);

}  // namespace tenon
