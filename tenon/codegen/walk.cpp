// SPDX-License-Identifier: MIT

#include "tenon/codegen/walk.h"

#include <unordered_map>

#include "tenon/base/error.h"
#include "tenon/codegen/plan.h"

namespace tenon {
namespace {

// Divisions and roots take as long as some others, products of whole numbers as two.
double weight_of(const Node& node) {
  const Op op = node.op();
  if (node.srcs().empty() || op == Op::kLoad || node.dtype() == DType::kIdx) return 0;
  if (op == Op::kMul && is_int(node.dtype())) return 2;
  return op == Op::kDiv || op == Op::kMod || op == Op::kSqrt ? 6 : 1;
}

double weight_of_all(const Node& value) {
  double ops = 0;
  for (const Node& node : topological_order(std::span(&value, 1)))
    ops += weight_of(node);
  return ops;
}

std::vector<OpGroup> ops_of(const Comp& comp, const Target& target) {
  const Node value = machine_value(comp, target);
  std::vector<OpGroup> groups;
  const auto add = [&](const std::vector<bool>& axes, double count, int gate_of) {
    for (OpGroup& group : groups) {
      if (group.axes != axes || group.gate_of != gate_of) continue;
      group.count += count;
      return;
    }
    groups.push_back({axes, count, gate_of});
  };
  std::unordered_map<const void*, int> gate_of;
  for (const Node& node : topological_order(std::span(&value, 1))) {
    if (node.op() != Op::kLoad || !load_parts(node).gated) continue;
    const LoadParts parts = load_parts(node);
    for (const Node& part : topological_order(std::span(&parts.gate, 1))) {
      int& buffer = gate_of.try_emplace(part.id(), parts.buffer).first->second;
      if (buffer != parts.buffer) buffer = -1;
    }
  }
  std::unordered_map<const void*, std::vector<bool>> axes_of;
  for (const Node& node : topological_order(std::span(&value, 1))) {
    std::vector<bool>& axes = axes_of[node.id()];
    axes.assign(comp.axes.size(), false);
    for (size_t i = 0; i < axes.size(); ++i)
      axes[i] = comp.axes[i].axis == node;
    for (const Node& src : node.srcs()) {
      const std::vector<bool>& used = axes_of.at(src.id());
      for (size_t i = 0; i < axes.size(); ++i)
        axes[i] = axes[i] || used[i];
    }
    const auto gate = gate_of.find(node.id());
    const double weight = weight_of(node);
    if (weight > 0) add(axes, weight, gate == gate_of.end() ? -1 : gate->second);
  }
  const bool is_fused = target.fuses_mulacc && comp.combine == Op::kAdd && value.op() == Op::kMul;
  if (comp.combine && !is_fused) add(std::vector<bool>(comp.axes.size(), true), 1, -1);
  return groups;
}

std::vector<Walk> analyzed_walks(const Kernel& kernel, const Target& target) {
  std::vector<Walk> walks;
  for (size_t i = 0; i < kernel.body.size(); ++i) {
    const Comp& comp = std::get<Comp>(kernel.body[i].node);
    Walk walk = walk_of(kernel, static_cast<int>(i));
    walk.lanes = lanes_of(walk, kernel, target);
    walk.flops = weight_of_all(comp.value) + (comp.combine ? 1 : 0);
    walk.ops = ops_of(comp, target);
    walks.push_back(std::move(walk));
  }
  return walks;
}

}  // namespace

Walk walk_of(const Kernel& kernel, int number) {
  const Comp& comp = std::get<Comp>(kernel.body[static_cast<size_t>(number)].node);
  return {.comp = &comp, .number = number, .accesses = analyze_access(kernel, comp)};
}

int64_t lanes_of(const Walk& walk, const Kernel& kernel, const Target& target) {
  const int64_t bytes = widest_element_bytes(kernel, *walk.comp, target);
  return std::max<int64_t>(target.max_vector_bytes / bytes, 1);
}

int64_t lanes_over(int64_t extent, int64_t lanes) {
  while (lanes > 1 && lanes / 2 >= extent)
    lanes /= 2;
  return lanes;
}

std::vector<Walk> walks_of(const Kernel& kernel, const Target& target) {
  return with_context([&] { return analyzed_walks(kernel, target); }, "decomposing kernel '",
                      kernel.name, "'");
}

int64_t even_block(int64_t length, int64_t step, int64_t pieces, int64_t others,
                   const Target& target) {
  const int64_t threads = std::max(target.threads, 1);
  int64_t best = 0;
  int64_t best_share = 0;
  for (int64_t count = pieces; count <= 2 * pieces; ++count) {
    const int64_t block = round_up(ceil_div(length, count), step);
    if (block > step && ceil_div(length, block) < pieces) continue;
    const int64_t share = ceil_div(ceil_div(length, block) * others, threads) * block;
    if (best != 0 && share >= best_share) continue;
    best = block;
    best_share = share;
  }
  return best;
}

int64_t panel_of(const Kernel& kernel, const Access& access, const Node& axis) {
  const std::span<const Node> index = load_parts(access.load).index;
  const auto dim = std::ranges::find(index, axis) - index.begin();
  const auto& layout = kernel.buffers[static_cast<size_t>(access.buffer)].layout;
  const auto last = std::find_if(layout.rbegin(), layout.rend(),
                                 [&](const LayoutPart& part) { return part.dim == dim; });
  return last == layout.rend() ? axis_extent(axis) : last->extent;
}

bool is_read(const Walk& walk, int buffer) {
  return std::any_of(walk.accesses.begin() + 1, walk.accesses.end(),
                     [&](const Access& access) { return access.buffer == buffer; });
}

int64_t bytes_of(const Access& access, const Walk& walk) {
  int64_t count = dtype_size_bytes(access.dtype);
  for (size_t i = 0; i < walk.num_axes(); ++i) {
    if (access.uses(i)) count *= walk.extent(i);
  }
  return count;
}

int64_t bytes_per_point(const Walk& walk) {
  int64_t bytes = 0;
  for (const Access& access : walk.accesses)
    bytes += dtype_size_bytes(access.dtype);
  return bytes;
}

bool may_bypass(const Walk& walk, const Target& target) {
  return bytes_of(walk.accesses[0], walk) >= target.bypass_bytes && !is_read(walk, walk.comp->dst);
}

size_t crossed_axis(const Walk& walk, size_t vec) {
  size_t crossed = walk.num_axes();
  for (size_t i = 1; i < walk.accesses.size(); ++i) {
    const Access& access = walk.accesses[i];
    if (!access.uses(vec) || access.strides[vec] == 1 || access.is_irregular[vec]) continue;
    for (size_t axis = 0; axis < walk.num_axes(); ++axis) {
      if (axis != vec && access.strides[axis] == 1 && !access.is_irregular[axis]) crossed = axis;
    }
  }
  return crossed;
}

}  // namespace tenon
