// Which instructions and values of a linear program have a use. Made by clean_linear.
// SPDX-License-Identifier: MIT

#pragma once

#include <vector>

#include "tenon/ir/linear.h"

namespace tenon {

/// What instructions with an effect need: instructions, and of loops and branches the values that
/// are carried and yielded for it. Takes linear time; keeps a reference to the program.
class Liveness {
 public:
  explicit Liveness(const LinearProgram& program);

  bool has_inst(InstId id) const { return insts_[id]; }
  bool has_value(ValueId value) const { return values_[value]; }
  /// The loop or branch that an instruction stands in; kNoId in the body.
  InstId around(InstId id) const { return owner_[region_[id]]; }

 private:
  void note_region(InstId owner, RegionId region);
  void need(ValueId value);
  void need_inst(InstId id);
  ValueId yielded(RegionId region, size_t number) const;
  void visit(ValueId value);

  const LinearProgram& program_;
  std::vector<bool> insts_;
  std::vector<bool> values_;
  std::vector<InstId> owner_;  // by region: the loop or branch around it
  std::vector<RegionId> region_;
  std::vector<InstId> loop_of_arg_;
  std::vector<ValueId> pending_;
};

}  // namespace tenon
