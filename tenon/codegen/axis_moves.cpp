// SPDX-License-Identifier: MIT

#include "tenon/codegen/axis_moves.h"

#include "tenon/ir/tensor_ops.h"

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

}  // namespace

AxisMoves::AxisMoves(const std::vector<Walk>& walks) {
  axes_.assign(walks.size(), std::vector<std::vector<int>>(walks.size()));
  for (const Walk& reader : walks) {
    for (const Walk& writer : walks) {
      if (reader.number <= writer.number) continue;
      const std::vector<int> axes = reader_to_writer(reader, writer);
      if (axes.empty()) continue;
      const auto from = static_cast<size_t>(reader.number);
      const auto to = static_cast<size_t>(writer.number);
      axes_[from][to] = axes;
      std::vector<int>& back = axes_[to][from];
      back.assign(writer.num_axes(), -1);
      for (size_t i = 0; i < axes.size(); ++i) {
        if (axes[i] >= 0) back[static_cast<size_t>(axes[i])] = static_cast<int>(i);
      }
    }
  }
  for (size_t middle = 0; middle < walks.size(); ++middle) {
    for (size_t from = 0; from < walks.size(); ++from) {
      for (size_t to = 0; to < walks.size(); ++to)
        add_through(from, middle, to);
    }
  }
  for (size_t from = 0; from < walks.size(); ++from) {
    for (std::vector<int>& axes : axes_[from])
      axes.resize(walks[from].num_axes(), -1);
  }
}

// Of comps that do not read each other, through one that stands between them.
void AxisMoves::add_through(size_t from, size_t middle, size_t to) {
  std::vector<int>& axes = axes_[from][to];
  const std::vector<int>& first = axes_[from][middle];
  const std::vector<int>& second = axes_[middle][to];
  if (from == to || !axes.empty() || first.empty() || second.empty()) return;
  for (const int axis : first)
    axes.push_back(axis < 0 ? -1 : second[static_cast<size_t>(axis)]);
}

}  // namespace tenon
