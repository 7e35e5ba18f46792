// SPDX-License-Identifier: MIT

#include "tenon/codegen/emit_fold.h"

namespace tenon {

ValueId fold_items(LinearBuilder& builder, Op op, std::vector<ValueId> items) {
  while (items.size() > 1) {
    const size_t half = (items.size() + 1) / 2;
    for (size_t i = 0; i < items.size() - half; ++i)
      items[i] = builder.binary(op, items[i], items[i + half]);
    items.resize(half);
  }
  return items[0];
}

ValueId fold_lanes(LinearBuilder& builder, Op op, ValueId vector, const LinearType& type) {
  int lanes = type.lanes;
  // While the halves are of one size they are vectors: the upper one is moved down and combined.
  while (lanes > 2 && lanes % 2 == 0) {
    const int half = lanes / 2;
    std::vector<int> low(static_cast<size_t>(half));
    std::vector<int> high(static_cast<size_t>(half));
    for (int i = 0; i < half; ++i) {
      low[static_cast<size_t>(i)] = i;
      high[static_cast<size_t>(i)] = i + half;
    }
    const ValueId lower = builder.shuffle(vector, vector, low);
    vector = builder.binary(op, lower, builder.shuffle(vector, vector, high));
    lanes = half;
  }
  if (lanes == 1) return vector;
  std::vector<ValueId> items;
  for (int lane = 0; lane < lanes; ++lane)
    items.push_back(builder.extract(vector, lane));
  return fold_items(builder, op, std::move(items));
}

std::vector<ValueId> transpose_square(LinearBuilder& builder, std::vector<ValueId> rows) {
  const size_t size = rows.size();
  // Each stage swaps the blocks off the diagonal of all squares of 2 * block rows.
  for (size_t block = size / 2; block > 0; block /= 2) {
    std::vector<int> upper(size);
    std::vector<int> lower(size);
    for (size_t lane = 0; lane < size; ++lane) {
      const bool is_high = (lane & block) != 0;
      upper[lane] = static_cast<int>(is_high ? size + lane - block : lane);
      lower[lane] = static_cast<int>(is_high ? size + lane : lane + block);
    }
    for (size_t row = 0; row < size; ++row) {
      if ((row & block) != 0) continue;
      const ValueId a = rows[row];
      const ValueId b = rows[row + block];
      rows[row] = builder.shuffle(a, b, upper);
      rows[row + block] = builder.shuffle(a, b, lower);
    }
  }
  return rows;
}

ValueId side_by_side(LinearBuilder& builder, const LinearProgram& program,
                     std::vector<ValueId> vectors) {
  const int lanes = program.type_of(vectors[0]).lanes;
  // Each stage pairs vectors whose groups, one for each lane, have this many elements.
  for (int group = 1; vectors.size() > 1; group *= 2) {
    std::vector<int> table;
    for (int lane = 0; lane < lanes; ++lane) {
      for (const int source : {0, lanes * group}) {
        for (int i = 0; i < group; ++i)
          table.push_back(source + lane * group + i);
      }
    }
    std::vector<ValueId> pairs;
    for (size_t i = 0; i < vectors.size(); i += 2)
      pairs.push_back(builder.shuffle(vectors[i], vectors[i + 1], table));
    vectors = std::move(pairs);
  }
  return vectors[0];
}

}  // namespace tenon
