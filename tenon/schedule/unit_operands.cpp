// SPDX-License-Identifier: MIT

#include "tenon/schedule/unit_operands.h"

#include <algorithm>

#include "tenon/ir/tensor_ops.h"

namespace tenon {
namespace {

// What a factor is cast from, seen through movement; null: it is no cast.
Node cast_source(Node factor) {
  while (is_movement(factor.op()))
    factor = factor.src(0);
  return factor.op() == Op::kCast ? factor.src(0) : Node();
}

bool is_unit_product(const Node& product, std::span<const MatrixUnit> units) {
  if (product.op() != Op::kMul) return false;
  const Node a = cast_source(product.src(0));
  const Node b = cast_source(product.src(1));
  return a && b && has_product_unit(units, a.dtype(), b.dtype(), product.dtype());
}

}  // namespace

std::vector<bool> unit_operands(std::span<const Node> order,
                                std::span<const std::vector<size_t>> users,
                                std::span<const MatrixUnit> units) {
  std::vector<bool> result(order.size(), false);
  if (units.empty()) return result;
  // By node: all that reads it, through movement, are sums of products, or products for units.
  std::vector<bool> is_summed(order.size(), false);
  std::vector<bool> is_multiplied(order.size(), false);
  for (size_t i = order.size(); i-- > 0;) {
    const Node& node = order[i];
    const auto all_users = [&](auto&& fits) {
      return !users[i].empty() && std::all_of(users[i].begin(), users[i].end(), fits);
    };
    is_summed[i] = all_users([&](size_t user) {
      const Node& reader = order[user];
      if (is_movement(reader.op())) return bool{is_summed[user]};
      return reader.op() == Op::kReduce && reduce_op(reader) == Op::kAdd &&
             reduce_accumulator(reader) == node.dtype();
    });
    is_multiplied[i] = all_users([&](size_t user) {
      const Node& reader = order[user];
      if (is_movement(reader.op())) return bool{is_multiplied[user]};
      return bool{is_summed[user]} && is_unit_product(reader, units);
    });
    result[i] = node.op() == Op::kCast && is_multiplied[i];
  }
  return result;
}

}  // namespace tenon
