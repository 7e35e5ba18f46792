// What statements of a nest with lanes touch in memory that lanes share, and whether two accesses
// can meet from different lanes. For insert_barriers. SPDX-License-Identifier: MIT

#pragma once

#include <utility>
#include <vector>

#include "tenon/ir/kernel.h"

namespace tenon {

/// A condition that holds, or does not.
using Assumption = std::pair<Node, bool>;

struct LaneAccess {
  int buffer = 0;
  bool is_write = false;
  std::vector<Node> index;
  std::vector<Assumption> conditions;  ///< under which it happens

  friend bool operator==(const LaneAccess&, const LaneAccess&) = default;
};

class LaneAccesses {
 public:
  /// `nest` must outlive it.
  explicit LaneAccesses(const Kernel& nest);

  bool uses_lanes(const Node& expr) const;
  /// Those of a Comp that stands under `conditions`, its own axes replaced by new ones.
  std::vector<LaneAccess> of(const Comp& comp, const std::vector<Assumption>& conditions);
  /// The same accesses in another run of the loop: its axis replaced by a new one.
  void leave_run(std::vector<LaneAccess>& accesses, const Node& axis);
  /// Whether two different lanes may touch one place, one of them writing.
  bool may_meet(const LaneAccess& a, const LaneAccess& b) const;

 private:
  bool is_shared(int buffer) const;
  Node renamed(const Node& axis);

  const Kernel& nest_;
  std::vector<std::pair<Node, Node>> other_lanes_;  // each lane axis with a second one
  int64_t next_id_ = 0;
};

}  // namespace tenon
