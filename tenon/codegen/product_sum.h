// ProductSum: a kernel whose first comp is a sum of products that a matrix unit may take, with the
// axes that become rows, columns and depth. What the families of plans for units share.
// SPDX-License-Identifier: MIT

#pragma once

#include <optional>
#include <vector>

#include "tenon/codegen/plan.h"
#include "tenon/codegen/unit_match.h"
#include "tenon/codegen/walk.h"

namespace tenon {

class ProductSum {
 public:
  /// `kernel` must outlive it.
  explicit ProductSum(const Kernel& kernel);

  /// Finds the columns: the axis that the last comp writes side by side. False: there is none, or
  /// an axis of the sum that the last comp does not have.
  bool find_columns();
  /// Then the operands, the depth and the rows. False: the sum is none for a unit.
  bool find_operands();

  size_t none() const { return sum.num_axes(); }
  const Node& axis(size_t i) const { return sum.comp->axes[i].axis; }
  int64_t rows() const { return row < none() ? sum.extent(row) : 1; }
  int64_t columns() const { return sum.extent(column); }

  /// An operand that is a load, maybe with a gate; its index by dim.
  struct Operand {
    int buffer = -1;
    std::vector<Node> index;
  };
  /// The one dim of an operand whose index moves with the axis; -1: none or several.
  int dim_of(const Operand& operand, size_t axis_number) const;
  /// Where to stage an operand that is to be there inside the first `depth` loops of the entry:
  /// outside of loops that do not move it.
  int stage_depth(const Operand& operand, const CompPlan& entry, int depth) const;
  /// A layout for what is read of an operand inside the first `depth` loops: panels of so many
  /// places of its dim of `side`, the row or the column; in a panel the other dims, the depth in
  /// groups, the places, a group. Where a panel may begin at any place there is one of all.
  std::vector<LayoutPart> panels(const Operand& operand, size_t side, int64_t panel, int64_t group,
                                 const CompPlan& entry, int depth) const;
  /// Adds parts for all par axes but row and column: dealt while there are grid dims left for
  /// these, else loops, which are returned and go behind. `groups`: times what is dealt.
  std::vector<Part> deal_others(CompPlan& entry, int64_t& groups) const;

  const Kernel& kernel;
  Walk sum;
  Walk last;
  std::vector<size_t> consumer;  ///< by axis of the sum: axis of the last comp; its count: none
  UnitFactors factors;
  std::optional<Operand> a;  ///< nothing: computed
  Operand b;
  size_t column = 0;
  size_t row = 0;  ///< none(): all par axes move operand b
  size_t depth = 0;
};

}  // namespace tenon
