// Matrix products. Names say (m)x(n)x(k) of (m,k) x (k,n). SPDX-License-Identifier: MIT

#include <cmath>

#include "bench/cases.h"
#include "bench/probe_units.h"
#include "tenon/base/text.h"

namespace tenon::bench {
namespace {

Shape stored_shape(const Product& product, int64_t rows, int64_t columns, bool is_transposed) {
  Shape shape = is_transposed ? Shape{columns, rows} : Shape{rows, columns};
  if (product.batch > 1) shape.insert(shape.begin(), product.batch);
  return shape;
}

/// |error| <= (k + 1) u sum |a b| for any order of k products and sums (N. Higham, Accuracy and
/// Stability of Numerical Algorithms, 2002, 3.1), and the rounding to a narrower output.
std::optional<std::string> why_wrong(const Product& product, const HostArray& a, const HostArray& b,
                                     const std::byte* out) {
  const auto [m, n, k] = product.shape;
  std::optional<std::string> why;
  const int64_t a_row = product.a_is_transposed ? 1 : k;
  const int64_t a_step = product.a_is_transposed ? m : 1;
  const int64_t b_column = product.b_is_transposed ? k : 1;
  const int64_t b_step = product.b_is_transposed ? 1 : n;
  const double sum_roundoff = product.out_dtype == DType::kI32 ? 0 : unit_roundoff(DType::kF32);
  const double out_roundoff = product.out_dtype == DType::kBF16 ? unit_roundoff(DType::kBF16) : 0;
  for (const int64_t i : sampled(product.batch, 3, 1)) {
    for (const int64_t row : sampled(m, 14, 2)) {
      for (const int64_t column : sampled(n, 14, 3)) {
        double sum = 0;
        double sum_of_sizes = 0;
        for (int64_t inner = 0; inner < k; ++inner) {
          const double term = a.at(i * m * k + row * a_row + inner * a_step) *
                              b.at(i * k * n + column * b_column + inner * b_step);
          sum += term;
          sum_of_sizes += std::abs(term);
        }
        const double error = static_cast<double>(k + 1) * sum_roundoff * sum_of_sizes;
        const double found = HostArray::element(out, product.out_dtype, (i * m + row) * n + column);
        compare(found, sum, error + out_roundoff * (std::abs(sum) + error),
                concat("(", i, ",", row, ",", column, ")"), why);
      }
    }
  }
  return why;
}

}  // namespace

Case prepare_product(const Product& product) {
  const auto [m, n, k] = product.shape;
  const Shape b_shape =
      product.is_vector ? Shape{k} : stored_shape(product, k, n, product.b_is_transposed);
  const auto a = std::make_shared<HostArray>(
      product.dtype, stored_shape(product, m, k, product.a_is_transposed), Fill::kUniform, 1);
  const auto b = std::make_shared<HostArray>(product.dtype, b_shape, Fill::kUniform, 2);
  const Tensor left = tensor_of(*a);
  Tensor right = tensor_of(*b);
  if (product.b_is_constant) right.set_constant();
  Case result;
  result.arrays = {a, b};
  result.build = [product, left, right] {
    const Tensor x = product.a_is_transposed ? left.matrix_transpose() : left;
    const Tensor y = product.b_is_transposed ? right.matrix_transpose() : right;
    return product.out_dtype == DType::kI32 ? x.matmul(y, DType::kI32) : x.matmul(y);
  };
  result.job = {.kind = JobKind::kMatmul,
                .dtype = product.dtype,
                .out_dtype = product.out_dtype,
                .a = a->data(),
                .b = b->data(),
                .batch = product.batch,
                .m = m,
                .n = n,
                .k = k,
                .a_is_transposed = product.a_is_transposed,
                .b_is_transposed = product.b_is_transposed,
                .b_is_constant = product.b_is_constant};
  result.out_dtype = product.out_dtype;
  result.out_size = product.batch * m * n;
  result.why_wrong = [product, a, b](const std::byte* out) {
    return why_wrong(product, *a, *b, out);
  };
  return result;
}

namespace {

std::string size_name(const MatmulShape& shape) {
  if (shape.m == shape.n && shape.n == shape.k) return concat(shape.m);
  return concat(shape.m, "x", shape.n, "x", shape.k);
}

Workload make(std::string name, const char* group, const Product& product, double goal) {
  const MatmulShape& shape = product.shape;
  Workload workload{.name = std::move(name), .group = group, .unit = "GFLOP/s"};
  workload.work =
      2e-9 * static_cast<double>(product.batch * shape.m * shape.n) * static_cast<double>(shape.k);
  workload.limit = LimitKind::kFmaF32;
  if (product.dtype == DType::kBF16) workload.limit = LimitKind::kDotBf16;
  if (product.dtype == DType::kI8) {
    workload.limit = LimitKind::kDotI8;
    workload.unit = "GOP/s";
  }
  workload.goal = goal;
  workload.prepare = [product] { return prepare_product(product); };
  return workload;
}

Workload cube(const char* group, int64_t size, DType dtype, DType out_dtype, double goal) {
  const Product product{.shape = {size, size, size}, .dtype = dtype, .out_dtype = out_dtype};
  return make(concat(group, "_", size), group, product, goal);
}

Workload gemv(int64_t size) {
  const Product product{.shape = {size, 1, size}, .is_vector = true};
  Workload workload = make(concat("gemv_", size), "gemv", product, 0.9);
  workload.unit = "GB/s";  // of weights: they are what takes the time
  workload.work = 4e-9 * static_cast<double>(size * size);
  workload.limit = LimitKind::kRead;
  workload.limit_bytes = 4 * size * size;
  return workload;
}

}  // namespace

std::vector<Workload> matmul_workloads(bool is_quick, std::optional<uint32_t> draw) {
  using Sizes = std::vector<int64_t>;
  std::vector<Workload> all;
  // Goals: the worst ratio that is allowed for f32; for narrow types the ratio itself.
  const char* const f32 = "matmul_f32";
  for (const int64_t size :
       is_quick ? Sizes{33, 64} : Sizes{256, 512, 1000, 1021, 1024, 1537, 2048})
    all.push_back(cube(f32, size, DType::kF32, DType::kF32, 0.7));
  const int64_t size = is_quick ? 64 : 1024;
  all.push_back(make(concat("matmul_f32_nt_", size), f32,
                     {.shape = {size, size, size}, .b_is_transposed = true}, 0.7));
  all.push_back(make(concat("matmul_f32_tn_", size), f32,
                     {.shape = {size, size, size}, .a_is_transposed = true}, 0.7));
  using Shapes = std::vector<MatmulShape>;
  for (const MatmulShape& shape : is_quick
                                      ? Shapes{{16, 64, 64}, {50, 30, 70}}
                                      : Shapes{{16, 4096, 4096}, {4096, 64, 4096}, {100, 300, 700}})
    all.push_back(make(concat("matmul_f32_", size_name(shape)), f32, {.shape = shape}, 0.7));
  if (draw) {
    for (const MatmulShape& shape : drawn_shapes(*draw, is_quick ? 1 : kNumDrawn))
      all.push_back(make(concat("matmul_f32_draw_", size_name(shape)), f32, {.shape = shape}, 0.7));
  }
  for (Workload& workload : all)
    workload.mean_goal = 1;
  const double narrow_goal = has_tiles() ? 1.0 : 0.9;
  for (const int64_t each : is_quick ? Sizes{64} : Sizes{1024, 2048})
    all.push_back(cube("matmul_bf16", each, DType::kBF16, DType::kBF16, narrow_goal));
  for (const int64_t each : is_quick ? Sizes{64} : Sizes{1024, 2048})
    all.push_back(cube("matmul_i8", each, DType::kI8, DType::kI32, narrow_goal));
  const int64_t batch = is_quick ? 4 : 64;
  all.push_back(make(concat("matmul_batched_", batch, "x64"), "matmul_batched",
                     {.batch = batch, .shape = {64, 64, 64}}, 0.9));
  all.push_back(gemv(is_quick ? 128 : 4096));
  for (const int64_t rows : is_quick ? Sizes{4} : Sizes{1, 4, 16, 64}) {
    const MatmulShape shape{rows, is_quick ? 64 : 4096, is_quick ? 64 : 4096};
    const char* const group = "matmul_weights";
    all.push_back(make(concat(group, "_", size_name(shape)), group,
                       {.shape = shape, .b_is_constant = true}, 0));
  }
  return all;
}

}  // namespace tenon::bench
