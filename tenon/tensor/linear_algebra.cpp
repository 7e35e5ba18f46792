// matmul and dot: a product over a common axis, summed. SPDX-License-Identifier: MIT

#include "tenon/base/error.h"
#include "tenon/ir/tensor_ops.h"
#include "tenon/tensor/build.h"
#include "tenon/tensor/promotion.h"
#include "tenon/tensor/tensor.h"

namespace tenon {

// lhs (...,M,K) -> (...,M,1,K), rhs (...,K,N) -> (...,1,N,K); the sum runs over the last axis.
Tensor Tensor::matmul(const Tensor& other, std::optional<DType> dtype) const {
  TENON_CHECK(ndim() >= 1 && other.ndim() >= 1, ErrorCode::kInvalidArgument,
              "matmul: a side is 0-d; lhs is ", shape(), ", rhs is ", other.shape(),
              ". Use * with scalars");
  const bool is_row = ndim() == 1;
  const bool is_column = other.ndim() == 1;
  const DType result = dtype.value_or(detail::common_dtype("matmul", *this, other));
  const DType compute = detail::is_narrow_float(result) ? DType::kF32 : result;
  const Tensor lhs = is_row ? expand_dims(0) : *this;
  const Tensor rhs = is_column ? other.expand_dims(1) : other;
  TENON_CHECK(lhs.dim(-1) == rhs.dim(-2), ErrorCode::kInvalidArgument,
              "matmul: inner dimensions differ; lhs is ", shape(), ", rhs is ", other.shape(),
              ". Transpose one side, or reshape lhs to (...,", rhs.dim(-2), ")");
  const ShapeView lhs_dims = lhs.node().shape();
  const ShapeView rhs_dims = rhs.node().shape();
  const auto batch = [](ShapeView dims) { return dims.first(dims.size() - 2); };
  TENON_CHECK(detail::find_broadcast_shape(batch(lhs_dims), batch(rhs_dims)).has_value(),
              ErrorCode::kInvalidArgument, "matmul: batch dimensions do not broadcast; lhs is ",
              shape(), ", rhs is ", other.shape(), ". They must be equal or 1, from the right");
  const auto side = [&](const Tensor& x) { return (dtype ? x.astype(*dtype) : x).astype(compute); };
  const Tensor products = side(lhs).expand_dims(-2) * side(rhs).matrix_transpose().expand_dims(-3);
  Tensor out = compute == DType::kBool ? products.any(-1)
                                       : products.sum(-1, {.keepdims = false, .dtype = compute});
  out = out.astype(result);
  if (is_row) out = out.squeeze(is_column ? Axes{-2, -1} : Axes{-2});
  return !is_row && is_column ? out.squeeze(-1) : out;
}

Tensor Tensor::dot(const Tensor& other) const {
  TENON_CHECK(ndim() == 1 && other.ndim() == 1, ErrorCode::kInvalidArgument,
              "dot: both sides must be 1-d; lhs is ", shape(), ", rhs is ", other.shape(),
              ". Use matmul");
  return matmul(other);
}

}  // namespace tenon
