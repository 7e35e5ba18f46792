// Tensors made from a rule instead of data: constants and ranges. Called by programs; the values
// are graph, so they cost no memory until something needs them. SPDX-License-Identifier: MIT

#pragma once

#include <optional>

#include "tenon/tensor/tensor.h"

namespace tenon {

/// Of `value`; the dtype is the value's kind: bool, int64 or float32. Throws kInvalidArgument if an
/// integer dtype cannot hold the value.
Tensor full(const Shape& shape, Scalar value, const TensorOptions& options = {});
/// float32 unless `options` says otherwise.
Tensor zeros(const Shape& shape, const TensorOptions& options = {});
Tensor ones(const Shape& shape, const TensorOptions& options = {});

/// start, start + step, ... before stop: ceil((stop - start) / step) of them. int64, or float32 if
/// an argument is a float. Throws kInvalidArgument if step is 0 or an integer dtype cannot hold the
/// values.
Tensor arange(Scalar start, Scalar stop, Scalar step = 1, const TensorOptions& options = {});
Tensor arange(Scalar stop, const TensorOptions& options = {});

/// `num` values from start to stop (which is the last, unless !has_endpoint); float32.
Tensor linspace(double start, double stop, int64_t num, bool has_endpoint = true,
                const TensorOptions& options = {});

/// (rows,columns), 1 where column - row is `k`; square without `columns`. float32.
Tensor eye(int64_t rows, std::optional<int64_t> columns = {}, int64_t k = 0,
           const TensorOptions& options = {});

}  // namespace tenon
