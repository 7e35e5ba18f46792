// Plan: what is done with each axis of a kernel, as plain data. Found by choose_plan, checked by
// check_plan, turned into a nest by build_nest; has a text form (plan_text.h).
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenon/ir/kernel.h"
#include "tenon/types/support.h"
#include "tenon/types/target.h"

namespace tenon {

/// What happens where a part does not divide its axis. Loops are trimmed and instances guarded
/// unless the plan says otherwise.
enum class Tail : uint8_t {
  kNone = 0,
  kPeel,   ///< of a loop: full tiles, then the last one apart, so that full ones have no guard
  kClamp,  ///< of a par unroll part: loads read the last valid place again, stores are guarded
};

/// A piece of an axis. An axis is the sum of step * part over its parts; the steps of one axis
/// divide each other, the smallest is 1.
struct Part {
  int axis = 0;            ///< position in Comp::axes
  Role role = Role::kSeq;  ///< kGrid, kSeq: loops; kLane, kUnroll, kVec, kUnit: instances
  int64_t step = 1;
  Tail tail = Tail::kNone;
  int dim = 0;  ///< of a kLane part: which dim of Plan::lanes
  friend bool operator==(const Part&, const Part&) = default;
};

/// A place: inside the first `depth` loops of a comp, and inside all that stands around it.
struct LoopPlace {
  int comp = 0;
  int depth = 0;
  friend bool operator==(const LoopPlace&, const LoopPlace&) = default;
};

/// The register tile of a reduction: made inside the first `depth` loops of its comp, updated by
/// the loops inside, then folded and handed on.
struct Acc {
  int depth = 0;
  /// Unroll parts of red axes have an accumulator each (vec parts always have).
  bool has_partials = true;
  /// Reduce loops stand outside: the tile is reloaded from, and stored to, this output buffer (the
  /// comp's tmp has no memory of its own then).
  std::optional<int> carry_in;
  friend bool operator==(const Acc&, const Acc&) = default;
};

/// A copy of the box of one operand that the comp reads inside of a loop, in group memory.
struct Stage {
  int buffer = 0;
  int depth = 0;                   ///< made inside the first `depth` loops of the comp,
  std::optional<int> around = {};  ///< or of this one, inside of which the comp is placed
  std::vector<LayoutPart> layout;  ///< of the copy; empty: row-major
  friend bool operator==(const Stage&, const Stage&) = default;
};

/// Grid parts of a plan, and dims of its lanes, at most: a launch has three dimensions.
inline constexpr size_t kMaxGridDims = 3;

/// How a comp is placed: the root's axes are dealt and looped over first; a producer stands
/// `before` what reads it and computes the box that the body there reads; a consumer stands `after`
/// a reduction and computes from the box that is finished there.
enum class How : uint8_t { kRoot, kBefore, kAfter };

struct CompPlan {
  int comp = 0;  ///< position in Kernel::body
  How how = How::kRoot;
  LoopPlace at;             ///< of a placed comp of an earlier entry; unused for the root
  std::vector<Part> parts;  ///< outer to inner: grid parts, loops, instances. Axes that the place
                            ///< fixes to one value have none
  std::optional<Acc> acc;   ///< of a reduction; none: updates go to the buffer itself
  std::vector<Stage> stages;
  std::optional<int>
      keep;  ///< kBefore: the tmp lies in this output buffer, where its reader writes
  StoreKind store = StoreKind::kNormal;
  friend bool operator==(const CompPlan&, const CompPlan&) = default;

  /// Number of parts that are loops; they come first.
  int num_loops() const;
};

struct Plan {
  std::vector<CompPlan> comps;      ///< in the order of placing; the root is first
  std::vector<int64_t> lanes = {};  ///< of a group, by dim; neighbours in dim 0 lie side by side
  friend bool operator==(const Plan&, const Plan&) = default;
};

inline bool is_loop(Role role) {
  return role == Role::kGrid || role == Role::kSeq;
}

/// What the comp's value is computed with: narrow floats as f32, the steps of decompositions.
Node machine_value(const Comp& comp, const Target& target);

/// Bytes of the widest element that vectors of the comp hold: its values, narrow floats as what
/// they are computed in, and indices where an access is not contiguous.
int64_t widest_element_bytes(const Kernel& kernel, const Comp& comp, const Target& target);

/// Why the plan does not fit; empty: it does.
std::optional<std::string> check_plan(const Kernel& kernel, const Plan& plan, const Target& target);
/// The same, with the field of the Target where that says no.
Support supports(const Target& target, const Kernel& kernel, const Plan& plan);

}  // namespace tenon
