// V7: what is read of tmp, group, register and out buffers was written before by this kernel. A
// write proves a read if it runs whenever the read does and its box holds the read's; reads with no
// such write are unproven, reads that nothing can have written before are errors.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <cstdlib>

#include "tenon/base/text.h"
#include "tenon/ir/kernel_verify_rules.h"

namespace tenon::detail {

namespace {

class Written {
 public:
  explicit Written(Verifying& v) : v_(v) {
    for (const Site& site : v.sites)
      accesses_.push_back(accesses_of(*site.stmt));
  }

  void verify() {
    for (size_t site = 0; site < v_.sites.size(); ++site) {
      std::vector<bool> reported(v_.kernel.buffers.size(), false);
      for (const Access& access : accesses_[site]) {
        const auto number = static_cast<size_t>(access.buffer);
        verify_alive(site, access.buffer);
        if (access.is_write || reported[number] || has_outer_value(access.buffer)) continue;
        reported[number] = verify_read(site, access);
      }
    }
  }

 private:
  bool has_outer_value(int buffer) const {
    const BufferAccess access = v_.buffer(buffer).access;
    return access == BufferAccess::kIn || access == BufferAccess::kInOut;
  }

  // A group or register buffer of a nest is used behind its Alloc, inside the body that has it.
  void verify_alive(size_t site, int buffer) {
    const Scope scope = v_.buffer(buffer).scope;
    if (v_.stage == KernelStage::kComps || (scope != Scope::kGroup && scope != Scope::kReg)) return;
    for (size_t other = 0; other < site; ++other) {
      const auto* alloc = std::get_if<Alloc>(&v_.sites[other].stmt->node);
      if (alloc != nullptr && alloc->buffer == buffer && encloses(other, site)) return;
    }
    v_.error(site, concat("'", v_.buffer(buffer).name, "' is used where it is not allocated"));
  }

  // True if the body that holds `a` also holds `b`, directly or deeper.
  bool encloses(size_t a, size_t b) const {
    const Site& first = v_.sites[a];
    for (size_t at = b;;) {
      const Site& inner = v_.sites[at];
      if (inner.parent == first.parent && inner.in_else == first.in_else) return true;
      if (inner.parent < 0) return false;
      at = static_cast<size_t>(inner.parent);
    }
  }

  bool share_a_loop(size_t a, size_t b) const {
    const std::vector<size_t> around_a = v_.enclosing(a);
    for (const size_t outer : v_.enclosing(b)) {
      const bool is_loop = std::holds_alternative<For>(v_.sites[outer].stmt->node);
      if (is_loop && std::find(around_a.begin(), around_a.end(), outer) != around_a.end()) {
        return true;
      }
    }
    return false;
  }

  bool verify_read(size_t site, const Access& read) {
    bool may_be_written = false;
    for (size_t other = 0; other < v_.sites.size(); ++other) {
      if (other == site) continue;
      for (const Access& write : accesses_[other]) {
        if (!write.is_write || write.buffer != read.buffer) continue;
        if (other < site && proves(other, write, site, read)) return false;
        may_be_written = may_be_written || other < site || share_a_loop(other, site);
      }
    }
    const std::string& name = v_.buffer(read.buffer).name;
    if (may_be_written) {
      v_.unproven(site, concat("'", name, "' may be read where nothing was written"));
    } else {
      v_.error(site, concat("'", name, "' is read but nothing wrote it before"));
    }
    return true;
  }

  // The axes that a write runs through between two runs of the read's surroundings: its own, those
  // of loops that end before the read, and lanes if they share the buffer. Nothing if the write may
  // be skipped.
  std::optional<std::vector<Node>> own_axes(size_t writer, size_t reader, int buffer) const {
    std::vector<Node> axes;
    size_t at = writer;
    while (!encloses(at, reader)) {
      if (v_.sites[at].parent < 0) return std::nullopt;
      at = static_cast<size_t>(v_.sites[at].parent);
      const auto* loop = std::get_if<For>(&v_.sites[at].stmt->node);
      if (loop == nullptr || !(loop->extent == idx_const(axis_extent(loop->axis.axis)))) {
        return std::nullopt;
      }
      axes.push_back(loop->axis.axis);
    }
    const Stmt& stmt = *v_.sites[writer].stmt;
    const bool is_fold = std::holds_alternative<Combine>(stmt.node);
    for (const AxisUse& use : axes_of(stmt)) {
      if (!is_fold || use.role != Role::kLane) axes.push_back(use.axis);
    }
    if (v_.buffer(buffer).scope != Scope::kReg) {
      for (const AxisUse& use : v_.kernel.lanes)
        axes.push_back(use.axis);
    }
    return axes;
  }

  bool proves(size_t writer, const Access& write, size_t reader, const Access& read) const {
    const std::optional<std::vector<Node>> axes = own_axes(writer, reader, read.buffer);
    if (!axes) return false;
    const auto* write_comp = std::get_if<Comp>(&v_.sites[writer].stmt->node);
    const auto* read_comp = std::get_if<Comp>(&v_.sites[reader].stmt->node);
    const std::span<const Node> guards =
        write_comp != nullptr ? std::span<const Node>(write_comp->guard) : std::span<const Node>();
    if (write.index == read.index && read_comp != nullptr && write_comp != nullptr) {
      // The same place at the same point: what guards the write must guard the read.
      const bool same_points =
          std::all_of(read_comp->axes.begin(), read_comp->axes.end(), [&](const AxisUse& use) {
            return contains(write_comp->axes, use.axis) || !uses(read.index, use.axis);
          });
      const bool same_guards = std::all_of(guards.begin(), guards.end(), [&](const Node& guard) {
        return std::find(read_comp->guard.begin(), read_comp->guard.end(), guard) !=
               read_comp->guard.end();
      });
      if (same_points && same_guards) return true;
    }
    if (!guards.empty()) return false;
    return box_holds(*axes, write, reader, read);
  }

  static bool uses(std::span<const Node> index, const Node& axis) {
    return std::any_of(index.begin(), index.end(), [&](const Node& expr) {
      const std::vector<Node> axes = nodes_of(expr, Op::kAxis);
      return std::find(axes.begin(), axes.end(), axis) != axes.end();
    });
  }

  // Per dim: the write's own axes fill an interval without gaps, each of them used in one dim only;
  // what is left of both indices differs by a range inside it.
  bool box_holds(const std::vector<Node>& own, const Access& write, size_t reader,
                 const Access& read) const {
    KernelBounds bounds;
    v_.assume_conditions(reader, bounds);
    if (read.gate) bounds.assume(read.gate);
    std::vector<Node> used;
    for (size_t dim = 0; dim < write.index.size(); ++dim) {
      if (write.index[dim].dtype() != DType::kIdx) return false;  // has a width already
      const std::optional<Affine> form = affine_of(write.index[dim]);
      if (!form) return false;
      Node base = idx_const(form->constant);
      std::vector<std::pair<int64_t, int64_t>> steps;
      for (const auto& [atom, coefficient] : form->terms) {
        if (std::find(own.begin(), own.end(), atom) == own.end()) {
          base = make_expr(Op::kAdd, base, make_expr(Op::kMul, atom, idx_const(coefficient)));
          if (atom.op() != Op::kAxis && atom.op() != Op::kScalar) return false;
          continue;
        }
        if (coefficient < 0 || std::find(used.begin(), used.end(), atom) != used.end())
          return false;
        used.push_back(atom);
        steps.emplace_back(coefficient, axis_extent(atom));
      }
      std::sort(steps.begin(), steps.end());
      __int128 span = 0;
      for (const auto& [step, extent] : steps) {
        if (step > span + 1) return false;
        span += static_cast<__int128>(step) * (extent - 1);
      }
      const Interval rest = bounds.bounds(make_expr(Op::kSub, read.index[dim], base));
      if (rest.low < 0 || rest.high > span) return false;
    }
    return true;
  }

  Verifying& v_;
  std::vector<std::vector<Access>> accesses_;  // by site
};

}  // namespace

void verify_written(Verifying& v) {
  Written(v).verify();
}

}  // namespace tenon::detail
