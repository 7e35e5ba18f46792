// SPDX-License-Identifier: MIT

#include "tenon/codegen/relayout_constants.h"

#include <algorithm>
#include <utility>

#include "tenon/codegen/choose_plan.h"
#include "tenon/codegen/plan_families.h"
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
      : best_(kernel), target_(target), seconds_(choice_for(kernel).cost.seconds) {}

  void run(int buffer) {
    const Kernel before = best_;
    const double most = seconds_ * (1 - kMinGain);
    for (std::vector<LayoutPart>& layout : layouts_for(prepare_kernel(before, target_), buffer)) {
      Kernel laid_out = before;
      laid_out.buffers[static_cast<size_t>(buffer)].layout = std::move(layout);
      const PlanChoice choice = choice_for(laid_out);
      const double seconds = choice.cost.seconds;
      if (choice.family != "tile" || seconds > most || seconds >= seconds_) continue;
      seconds_ = seconds;
      best_ = std::move(laid_out);
    }
  }

  Kernel take() { return std::move(best_); }

 private:
  PlanChoice choice_for(const Kernel& kernel) const {
    return choose_plans(prepare_kernel(kernel, target_), target_, 1).front();
  }

  // Panels of some vectors of columns, what the result is contiguous along; in a panel the other
  // dims as they are.
  std::vector<std::vector<LayoutPart>> layouts_for(const Kernel& kernel, int buffer) const {
    const BufferDecl& decl = kernel.buffers[static_cast<size_t>(buffer)];
    if (decl.access != BufferAccess::kIn || !decl.layout.empty() || kernel.body.size() < 2) {
      return {};
    }
    const Walk walk = walk_of(kernel, 0);
    const Walk last = walk_of(kernel, static_cast<int>(kernel.body.size()) - 1);
    const std::vector<Node> loads = loads_of(*walk.comp, buffer);
    if (!walk.comp->combine || loads.size() != 1 || load_parts(loads[0]).gated) return {};
    const std::vector<size_t> consumer = consumer_axes(walk, last);
    const std::span<const Node> index = load_parts(loads[0]).index;
    const int64_t lanes =
        std::min(lanes_of(walk, kernel, target_), lanes_of(last, kernel, target_));
    for (size_t axis = 0; axis < walk.num_axes(); ++axis) {
      const bool is_column =
          consumer[axis] < last.num_axes() && last.accesses[0].strides[consumer[axis]] == 1;
      const auto dim = std::ranges::find(index, walk.comp->axes[axis].axis) - index.begin();
      if (is_column && dim < std::ssize(index)) {
        return panels(decl, static_cast<int>(dim), lanes);
      }
    }
    return {};
  }

  static std::vector<std::vector<LayoutPart>> panels(const BufferDecl& decl, int cut,
                                                     int64_t lanes) {
    std::vector<std::vector<LayoutPart>> layouts;
    const int64_t length = decl.dims[static_cast<size_t>(cut)];
    for (int64_t vectors = 1; vectors <= kMaxVectors; ++vectors) {
      const int64_t panel = vectors * lanes;
      if (length % panel != 0 || length == panel) continue;
      std::vector<LayoutPart> layout{{cut, length / panel, 0}};
      for (int dim = 0; dim < static_cast<int>(decl.dims.size()); ++dim) {
        if (dim != cut) layout.push_back({dim, decl.dims[static_cast<size_t>(dim)], 0});
      }
      layout.push_back({cut, panel, 0});
      layouts.push_back(std::move(layout));
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
  const bool has_any = std::ranges::find(is_constant, true) != is_constant.end();
  if (!has_any || target.max_vector_bytes == 0) return kernel;
  Relayout relayout(kernel, target);
  for (size_t buffer = 0; buffer < is_constant.size(); ++buffer) {
    if (is_constant[buffer]) relayout.run(static_cast<int>(buffer));
  }
  return relayout.take();
}

}  // namespace tenon
