// SPDX-License-Identifier: MIT

#include "tenon/codegen/offset_products.h"

#include <algorithm>

#include "tenon/base/text.h"
#include "tenon/codegen/product_sum.h"
#include "tenon/rules/rewrite.h"

namespace tenon {
namespace {

class Offset {
 public:
  Offset(const Kernel& kernel, const UnitFactors& factors)
      : result_(kernel), factors_(factors), sum_(std::get<Comp>(kernel.body[0].node)) {}

  Kernel run() {
    const DType acc = sum_.value.dtype();
    const DType bits = unsigned_of_same_width(factors_.a.dtype());
    const uint64_t half = uint64_t{1} << (dtype_bits(bits) - 1);
    const Node shifted =
        make_expr(Op::kXor, make_bitcast(factors_.a, bits), bits_const(bits, half));
    Comp& sum = std::get<Comp>(result_.body[0].node);
    sum.value = make_expr(Op::kMul, make_cast(shifted, acc), make_cast(factors_.b, acc));
    Comp last = std::get<Comp>(result_.body[1].node);
    result_.body.pop_back();
    const Comp correction = sum_of_b(acc);
    last.value = corrected(last.value, correction.dst, int_const(acc, static_cast<int64_t>(half)));
    result_.body.push_back(Stmt{correction});
    result_.body.push_back(Stmt{std::move(last)});
    return std::move(result_);
  }

 private:
  // s[par axes of b] += b
  Comp sum_of_b(DType acc) {
    Comp comp;
    BufferDecl decl{.name = "s_offset", .dtype = acc};
    std::vector<std::pair<Node, Node>> renamed;
    for (const AxisUse& use : sum_.axes) {
      if (!uses_axis(factors_.b, use.axis)) continue;
      const std::string name = result_.axis_names[static_cast<size_t>(axis_id(use.axis))];
      const Node axis =
          result_.add_axis(concat(name, "_offset"), axis_extent(use.axis), axis_kind(use.axis));
      renamed.emplace_back(use.axis, axis);
      comp.axes.push_back({axis, Role::kNone, 0});
    }
    // In the order of the dims of t.
    for (size_t dim = 0; dim < sum_.index.size(); ++dim) {
      for (const auto& [from, to] : renamed) {
        if (sum_.index[dim] != from) continue;
        dims_.push_back(dim);
        decl.dims.push_back(axis_extent(to));
        comp.index.push_back(to);
      }
    }
    comp.dst = result_.add_buffer(std::move(decl));
    comp.value = make_cast(substitute(factors_.b, renamed), acc);
    comp.combine = Op::kAdd;
    comp.start = int_const(acc, 0);
    return comp;
  }

  Node corrected(const Node& value, int buffer, const Node& half) const {
    Rewriter rewriter;
    return rewriter.run(value, [&](const Node& node) {
      if (node.op() != Op::kLoad || load_parts(node).buffer != sum_.dst) return node;
      std::vector<Node> index;
      for (const size_t dim : dims_)
        index.push_back(load_parts(node).index[dim]);
      const Node sum = make_load(buffer, half.dtype(), index);
      return make_expr(Op::kSub, node, make_expr(Op::kMul, sum, half));
    });
  }

  Kernel result_;
  const UnitFactors& factors_;
  const Comp& sum_;
  std::vector<size_t> dims_;  // of t: those of s
};

}  // namespace

std::optional<Kernel> offset_products(const Kernel& kernel, const Target& target) {
  if (target.units.empty() || kernel.body.size() != 2) return std::nullopt;
  const Comp& sum = std::get<Comp>(kernel.body[0].node);
  const Comp& last = std::get<Comp>(kernel.body[1].node);
  const bool reads_whole = [&] {
    for (const Node& node : topological_order(std::span(&last.value, 1))) {
      if (node.op() == Op::kLoad && load_parts(node).buffer == sum.dst && load_parts(node).gated) {
        return false;
      }
    }
    return true;
  }();
  ProductSum columns(kernel);
  const auto factors =
      columns.find_columns() ? unit_factors(sum, columns.axis(columns.column)) : std::nullopt;
  if (!factors || !reads_whole || !is_signed_int(factors->a.dtype()) || !sum.start) {
    return std::nullopt;
  }
  const DType acc = sum.value.dtype();
  if (find_vector_unit(target.units, *factors, acc, 0, 0) >= 0) return std::nullopt;
  UnitFactors shifted = *factors;
  shifted.a = make_bitcast(factors->a, unsigned_of_same_width(factors->a.dtype()));
  if (find_vector_unit(target.units, shifted, acc, 0, 0) < 0) return std::nullopt;
  // All that is summed over moves b, and each par axis is a dim of t.
  for (const AxisUse& use : sum.axes) {
    const bool is_par = axis_kind(use.axis) == AxisKind::kPar;
    if (is_par && std::find(sum.index.begin(), sum.index.end(), use.axis) == sum.index.end()) {
      return std::nullopt;
    }
    if (!is_par && !uses_axis(factors->b, use.axis)) return std::nullopt;
  }
  return Offset(kernel, *factors).run();
}

}  // namespace tenon
