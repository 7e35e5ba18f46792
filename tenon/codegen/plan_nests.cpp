// SPDX-License-Identifier: MIT

#include "tenon/codegen/plan_nests.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace tenon {
namespace {

/// For each axis of the reader that of the writer which moves with it; empty: it does not read it.
std::vector<int> reader_to_writer(const Walk& reader, const Walk& writer) {
  std::vector<int> axes;
  for (const Access& access : reader.accesses) {
    if (access.is_store || access.buffer != writer.comp->dst) continue;
    axes.resize(reader.num_axes(), -1);
    const std::span<const Node> index = load_parts(access.load).index;
    for (size_t dim = 0; dim < index.size(); ++dim) {
      int own = -1;
      for (size_t i = 0; i < writer.num_axes(); ++i) {
        if (writer.comp->index[dim] == writer.comp->axes[i].axis) own = static_cast<int>(i);
      }
      for (const Node& node : topological_order(std::span(&index[dim], 1))) {
        for (size_t i = 0; i < reader.num_axes(); ++i) {
          if (reader.comp->axes[i].axis == node && axes[i] < 0) axes[i] = own;
        }
      }
    }
  }
  return axes;
}

// Of comps that do not read each other, through one that stands between them.
void add_move(AxisMoves& moves, size_t from, size_t middle, size_t to) {
  std::vector<int>& axes = moves[to][from];
  const std::vector<int>& first = moves[middle][from];
  const std::vector<int>& second = moves[to][middle];
  if (from == to || !axes.empty() || first.empty() || second.empty()) return;
  for (const int axis : first)
    axes.push_back(axis < 0 ? -1 : second[static_cast<size_t>(axis)]);
}

int entry_of(const std::vector<PlanNest>& nests, int comp) {
  for (size_t i = 0; i < nests.size(); ++i) {
    if (nests[i].plan->comp == comp) return static_cast<int>(i);
  }
  return -1;
}

/// For each axis of comp `from` that of `to` which moves with it.
std::vector<int> moved_axes(const std::vector<Walk>& walks, const AxisMoves& moves, int from,
                            int to) {
  const auto& known = moves[static_cast<size_t>(to)][static_cast<size_t>(from)];
  if (!known.empty()) return known;
  return std::vector<int>(walks[static_cast<size_t>(from)].num_axes(), -1);
}

void add_nest(const Plan& plan, const std::vector<Walk>& walks, const AxisMoves& moves,
              std::vector<PlanNest>& nests) {
  const auto number = static_cast<int>(nests.size());
  const CompPlan& entry = plan.comps[static_cast<size_t>(number)];
  PlanNest nest;
  nest.walk = &walks[static_cast<size_t>(entry.comp)];
  nest.plan = &entry;
  const size_t num_axes = nest.walk->num_axes();
  std::vector<int64_t> lengths(num_axes);
  for (size_t i = 0; i < num_axes; ++i)
    lengths[i] = nest.walk->extent(i);
  nest.lengths.push_back(lengths);
  const int around = entry.how == How::kRoot ? -1 : entry_of(nests, entry.at.comp);
  if (around >= 0) {
    const PlanNest& place = nests[static_cast<size_t>(around)];
    const std::vector<int> axes = moved_axes(walks, moves, entry.at.comp, entry.comp);
    nest.outer = std::min(place.outer + static_cast<size_t>(entry.at.depth), place.levels.size());
    for (size_t i = 0; i < nest.outer; ++i) {
      PlanLoop level = place.levels[i];
      const int moved = level.axis;
      level.axis = moved < 0 ? -1 : axes[static_cast<size_t>(moved)];
      if (level.axis >= 0) {
        int64_t& length = lengths[static_cast<size_t>(level.axis)];
        length = std::min(length, place.lengths[i + 1][static_cast<size_t>(moved)]);
      }
      nest.levels.push_back(level);
      nest.lengths.push_back(lengths);
    }
  }
  nest.counts.assign(num_axes, 1);
  nest.vec = num_axes;
  int loop = 0;
  for (const Part& part : entry.parts) {
    const auto axis = static_cast<size_t>(part.axis);
    const int64_t count = ceil_div(lengths[axis], part.step);
    if (is_loop(part.role)) {
      nest.levels.push_back({number, loop++, part.axis, count, part.role == Role::kGrid});
      lengths[axis] = std::min(lengths[axis], part.step);
      nest.lengths.push_back(lengths);
    } else if (part.role == Role::kVec) {
      nest.vec = axis;
      nest.lanes = padded(lengths[axis]);
    } else {
      nest.counts[axis] *= count;
      lengths[axis] = std::min(lengths[axis], part.step);
    }
  }
  nests.push_back(std::move(nest));
}
}  // namespace

AxisMoves axis_moves(const std::vector<Walk>& walks) {
  AxisMoves moves(walks.size());
  for (auto& row : moves)
    row.resize(walks.size());
  for (const Walk& reader : walks) {
    for (const Walk& writer : walks) {
      if (reader.number <= writer.number) continue;
      const std::vector<int> axes = reader_to_writer(reader, writer);
      if (axes.empty()) continue;
      const auto from = static_cast<size_t>(reader.number);
      const auto to = static_cast<size_t>(writer.number);
      moves[to][from] = axes;
      std::vector<int>& back = moves[from][to];
      back.assign(writer.num_axes(), -1);
      for (size_t i = 0; i < axes.size(); ++i) {
        if (axes[i] >= 0) back[static_cast<size_t>(axes[i])] = static_cast<int>(i);
      }
    }
  }
  for (size_t middle = 0; middle < walks.size(); ++middle) {
    for (size_t from = 0; from < walks.size(); ++from) {
      for (size_t to = 0; to < walks.size(); ++to)
        add_move(moves, from, middle, to);
    }
  }
  return moves;
}

std::vector<PlanNest> nests_of(const Plan& plan, const std::vector<Walk>& walks,
                               const AxisMoves& moves) {
  std::vector<PlanNest> nests;
  while (nests.size() < plan.comps.size())
    add_nest(plan, walks, moves, nests);
  return nests;
}

const Stage* stage_of(const PlanNest& nest, const Access& access) {
  for (const Stage& stage : nest.plan->stages) {
    if (stage.buffer == access.buffer) return &stage;
  }
  return nullptr;
}

bool in_registers(const Kernel& kernel, const PlanNest& nest, const Access& access) {
  const bool is_tmp =
      kernel.buffers[static_cast<size_t>(access.buffer)].access == BufferAccess::kTmp;
  if (access.is_store && nest.plan->acc) return true;
  // Written where it is read, in a body without loops of its own.
  return is_tmp && nest.plan->how == How::kAfter;
}

AccessBox box_of(const Access& access, const std::vector<int64_t>& lengths) {
  struct Dim {
    int64_t stride;
    int64_t count;
  };
  Dim dims[16] = {{1, 1}};
  size_t num_dims = 1;
  int64_t irregular = 1;
  size_t order[32];
  size_t num_axes = 0;
  for (size_t i = 0; i < lengths.size() && num_axes < 32; ++i) {
    if (access.is_irregular[i]) irregular *= lengths[i];
    if (access.is_irregular[i] || access.strides[i] == 0 || lengths[i] < 2) continue;
    order[num_axes++] = i;
  }
  std::sort(order, order + num_axes, [&](size_t a, size_t b) {
    const int64_t first = std::abs(access.strides[a]);
    const int64_t second = std::abs(access.strides[b]);
    return first != second ? first < second : a < b;
  });
  for (size_t k = 0; k < num_axes; ++k) {
    const int64_t stride = std::abs(access.strides[order[k]]);
    const int64_t length = lengths[order[k]];
    Dim& last = dims[num_dims - 1];
    // Steps within what is covered only shift it: windows overlap.
    if (stride <= last.stride * last.count && stride % last.stride == 0) {
      last.count += stride / last.stride * (length - 1);
    } else if (num_dims < 16) {
      dims[num_dims++] = {stride, length};
    }
  }
  AccessBox box{.run = dims[0].count, .rows = irregular};
  for (size_t i = 1; i < num_dims; ++i)
    box.rows *= dims[i].count;
  if (num_dims > 1) box.pitch = dims[1].stride;
  return box;
}

int64_t padded(int64_t count) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
}
}  // namespace tenon
