// SPDX-License-Identifier: MIT

#include "tenon/codegen/relayout_constants.h"

#include <algorithm>
#include <utility>

#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_rules.h"
#include "tenon/codegen/prepare_kernel.h"
#include "tenon/codegen/walk.h"

namespace tenon {
namespace {

// Of the estimated time, that a layout must save: a copy takes memory, and time once.
constexpr double kMinGain = 0.1;
// Vectors of a panel at most.
constexpr int64_t kMaxVectors = 4;

class Relayout {
 public:
  Relayout(const Kernel& kernel, const Target& target)
      : best_(kernel), target_(target), seconds_(seconds_of(kernel)) {}

  void run(int buffer) {
    const Kernel before = best_;
    const double most = seconds_ * (1 - kMinGain);
    for (size_t number = 0; number < before.body.size(); ++number) {
      const auto& comp = std::get<Comp>(before.body[number].node);
      if (!comp.combine) continue;
      const int64_t lanes = lanes_of(walk_of(before, static_cast<int>(number)), before, target_);
      for (std::vector<LayoutPart>& layout : layouts_for(before, comp, buffer, lanes)) {
        Kernel laid_out = before;
        laid_out.buffers[static_cast<size_t>(buffer)].layout = std::move(layout);
        const double seconds = seconds_of(laid_out);
        if (seconds > most || seconds >= seconds_) continue;
        seconds_ = seconds;
        best_ = std::move(laid_out);
      }
    }
  }

  Kernel take() { return std::move(best_); }

 private:
  double seconds_of(const Kernel& kernel) const {
    return choose_plans(prepare_kernel(kernel, target_), target_, 1).front().cost.seconds;
  }

  // Panels of some vectors of places of a dim that results move with; in a panel the other dims as
  // they are.
  static std::vector<std::vector<LayoutPart>> layouts_for(const Kernel& kernel, const Comp& comp,
                                                          int buffer, int64_t lanes) {
    const BufferDecl& decl = kernel.buffers[static_cast<size_t>(buffer)];
    std::vector<std::vector<LayoutPart>> layouts;
    const std::vector<Node> loads = loads_of(comp, buffer);
    const bool is_plain = decl.access == BufferAccess::kIn && decl.layout.empty() &&
                          loads.size() == 1 && !load_parts(loads[0]).gated;
    if (!is_plain) return layouts;
    const std::span<const Node> index = load_parts(loads[0]).index;
    for (size_t dim = 0; dim < decl.dims.size(); ++dim) {
      const bool is_axis = index[dim].op() == Op::kAxis && decl.dims[dim] > 1 &&
                           axis_extent(index[dim]) == decl.dims[dim];
      if (!is_axis && decl.dims[dim] > 1) return {};
      if (!is_axis || axis_kind(index[dim]) != AxisKind::kPar) continue;
      for (int64_t vectors = 1; vectors <= kMaxVectors; ++vectors) {
        const int64_t panel = vectors * lanes;
        if (decl.dims[dim] % panel != 0 || decl.dims[dim] == panel) continue;
        std::vector<LayoutPart> layout{{static_cast<int>(dim), decl.dims[dim] / panel, 0}};
        for (size_t other = 0; other < decl.dims.size(); ++other) {
          if (other != dim) layout.push_back({static_cast<int>(other), decl.dims[other], 0});
        }
        layout.push_back({static_cast<int>(dim), panel, 0});
        layouts.push_back(std::move(layout));
      }
    }
    return layouts;
  }

  Kernel best_;
  const Target& target_;
  double seconds_;
};

}  // namespace

Kernel relayout_constants(const Kernel& kernel, const std::vector<bool>& is_constant,
                          const Target& target) {
  if (std::ranges::find(is_constant, true) == is_constant.end()) return kernel;
  Relayout relayout(kernel, target);
  for (size_t buffer = 0; buffer < is_constant.size(); ++buffer) {
    if (is_constant[buffer]) relayout.run(static_cast<int>(buffer));
  }
  return relayout.take();
}

}  // namespace tenon
