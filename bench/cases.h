// Computations with inputs of any size, each written as a user of Tensor writes it, with a check
// against sums of our own in double. Called by the workloads and by `tenon bench --plans`.
// SPDX-License-Identifier: MIT

#pragma once

#include <cmath>

#include "bench/workload.h"

namespace tenon::bench {

/// (batch) x (m,k) x (k,n), names of shapes as MatmulShape has them.
struct Product {
  int64_t batch = 1;
  MatmulShape shape;
  DType dtype = DType::kF32;
  DType out_dtype = DType::kF32;
  bool a_is_transposed = false;
  bool b_is_transposed = false;
  bool is_vector = false;      ///< b is (k), not (k,1)
  bool b_is_constant = false;  ///< weights: each side may lay them out once
};
Case prepare_product(const Product& product);

Case prepare_relu(int64_t size);  ///< max(a * b + c, 0)
Case prepare_sum(int64_t size);
Case prepare_column_sum(int64_t rows, int64_t columns);
Case prepare_rows(JobKind kind, int64_t rows, int64_t columns);  ///< softmax or layernorm
Case prepare_transpose(int64_t rows, int64_t columns);

/// 3x3, padded: x (batch,channels,side,side), weight (out_channels,channels/groups,3,3).
struct Convolution {
  int64_t batch;
  int64_t channels;
  int64_t out_channels;
  int64_t groups;
  int64_t side;
};
Case prepare_convolution(const Convolution& conv);

struct Attention {
  int64_t heads = 0;
  int64_t size = 0;  ///< queries, and keys, of a head
  int64_t width = 0;
  bool is_causal = false;

  double scale() const { return 1 / std::sqrt(static_cast<double>(width)); }
};
Case prepare_attention(const Attention& job);

}  // namespace tenon::bench
