// What is bound by memory: elementwise chains, sums, row kernels, transposes. GB/s count each
// element of the inputs and outputs once. SPDX-License-Identifier: MIT

#include <algorithm>
#include <cmath>

#include "bench/cases.h"
#include "tenon/base/text.h"
#include "tenon/tensor/nn_ops.h"

namespace tenon::bench {
namespace {

constexpr double kRoundoff = 0x1p-24;  // of f32
constexpr double kEpsilon = 1e-5;      // layernorm's default

std::shared_ptr<HostArray> make_array(const Shape& shape, uint64_t number,
                                      Fill fill = Fill::kUniform) {
  return std::make_shared<HostArray>(DType::kF32, shape, fill, number);
}

double f32_at(const std::byte* out, int64_t i) {
  return HostArray::element(out, DType::kF32, i);
}

}  // namespace

Case prepare_relu(int64_t size) {
  const auto a = make_array({size}, 1);
  const auto b = make_array({size}, 2);
  const auto c = make_array({size}, 3);
  const Tensor x = tensor_of(*a);
  const Tensor y = tensor_of(*b);
  const Tensor z = tensor_of(*c);
  Case result;
  result.arrays = {a, b, c};
  result.build = [x, y, z] { return (x * y + z).relu(); };
  result.out_size = size;
  result.why_wrong = [=](const std::byte* out) {
    std::optional<std::string> why;
    for (const int64_t i : sampled(size, 10'000, 1)) {
      const double product = a->at(i) * b->at(i);
      const double expected = std::max(product + c->at(i), 0.0);
      compare(f32_at(out, i), expected, 2 * kRoundoff * (std::abs(product) + std::abs(c->at(i))),
              concat(i), why);
    }
    return why;
  };
  return result;
}

// Sixteenths between -1/2 and 1/2: in any order all partial sums are exact, since they stay below
// 2^20 (random walks of 2^26 steps reach about 2^12), so the result has one right value.
Case prepare_sum(int64_t size) {
  const auto a = make_array({size}, 1, Fill::kSixteenths);
  const Tensor x = tensor_of(*a);
  Case result;
  result.arrays = {a};
  result.build = [x] { return x.sum(); };
  result.out_size = 1;
  result.why_wrong = [=](const std::byte* out) {
    double sum = 0;
    for (int64_t i = 0; i < size; ++i)
      sum += a->at(i);
    std::optional<std::string> why;
    compare(f32_at(out, 0), sum, 0, "()", why);
    return why;
  };
  return result;
}

Case prepare_column_sum(int64_t rows, int64_t columns) {
  const auto a = make_array({rows, columns}, 1, Fill::kSixteenths);
  const Tensor x = tensor_of(*a);
  Case result;
  result.arrays = {a};
  result.build = [x] { return x.sum(0); };
  result.out_size = columns;
  result.why_wrong = [=](const std::byte* out) {
    std::vector<double> sums(static_cast<size_t>(columns));
    for (int64_t i = 0; i < rows * columns; ++i)
      sums[static_cast<size_t>(i % columns)] += a->at(i);
    std::optional<std::string> why;
    for (int64_t i = 0; i < columns; ++i)
      compare(f32_at(out, i), sums[static_cast<size_t>(i)], 0, concat(i), why);
    return why;
  };
  return result;
}

namespace {

/// y = e / sum(e), e = exp(x - max x). exp and the division are within 10 roundings together
/// (bounded_ulp of rules/decompose.h), x - max within one, of which exp makes |x - max|; the sum
/// adds one for each element.
std::optional<std::string> why_softmax_wrong(const HostArray& x, int64_t rows, int64_t columns,
                                             const std::byte* out) {
  std::optional<std::string> why;
  for (const int64_t row : sampled(rows, 30, 1)) {
    double largest = x.at(row * columns);
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i)
      largest = std::max(largest, x.at(row * columns + i));
    for (int64_t i = 0; i < columns; ++i)
      sum += std::exp(x.at(row * columns + i) - largest);
    for (int64_t i = 0; i < columns; ++i) {
      const double shifted = x.at(row * columns + i) - largest;
      const double expected = std::exp(shifted) / sum;
      const double steps = static_cast<double>(columns) + 10 + 2 * std::abs(shifted);
      compare(f32_at(out, row * columns + i), expected, steps * kRoundoff * expected,
              concat("(", row, ",", i, ")"), why);
    }
  }
  return why;
}

/// The mean is within n u mean|x|, the variance within (n + 4) u of itself and the square of that.
std::optional<std::string> why_layernorm_wrong(const HostArray& x, int64_t rows, int64_t columns,
                                               const std::byte* out) {
  std::optional<std::string> why;
  const double count = static_cast<double>(columns);
  for (const int64_t row : sampled(rows, 30, 1)) {
    double mean = 0;
    double mean_of_sizes = 0;
    double variance = 0;
    for (int64_t i = 0; i < columns; ++i) {
      mean += x.at(row * columns + i) / count;
      mean_of_sizes += std::abs(x.at(row * columns + i)) / count;
    }
    for (int64_t i = 0; i < columns; ++i)
      variance += std::pow(x.at(row * columns + i) - mean, 2) / count;
    const double scale = 1 / std::sqrt(variance + kEpsilon);
    for (int64_t i = 0; i < columns; ++i) {
      const double expected = (x.at(row * columns + i) - mean) * scale;
      const double bound = (count + 8) * kRoundoff * (mean_of_sizes * scale + std::abs(expected));
      compare(f32_at(out, row * columns + i), expected, bound, concat("(", row, ",", i, ")"), why);
    }
  }
  return why;
}

}  // namespace

Case prepare_rows(JobKind kind, int64_t rows, int64_t columns) {
  const auto a = make_array({rows, columns}, 1);
  const Tensor x = tensor_of(*a);
  Case result;
  result.arrays = {a};
  result.build = [x, kind] { return kind == JobKind::kSoftmax ? softmax(x) : layernorm(x); };
  result.job = {.kind = kind, .a = a->data(), .m = rows, .n = columns, .epsilon = kEpsilon};
  result.out_size = rows * columns;
  result.why_wrong = [=](const std::byte* out) {
    return kind == JobKind::kSoftmax ? why_softmax_wrong(*a, rows, columns, out)
                                     : why_layernorm_wrong(*a, rows, columns, out);
  };
  return result;
}

Case prepare_transpose(int64_t rows, int64_t columns) {
  const auto a = make_array({rows, columns}, 1);
  const Tensor x = tensor_of(*a);
  Case result;
  result.arrays = {a};
  result.build = [x] { return x.transpose().contiguous(); };
  result.job = {.kind = JobKind::kTranspose, .a = a->data(), .m = rows, .n = columns};
  result.out_size = rows * columns;
  result.why_wrong = [=](const std::byte* out) {
    std::optional<std::string> why;
    for (const int64_t i : sampled(rows * columns, 100'000, 1)) {
      const int64_t column = i / rows;
      const int64_t row = i % rows;
      compare(f32_at(out, i), a->at(row * columns + column), 0, concat("(", column, ",", row, ")"),
              why);
    }
    return why;
  };
  return result;
}

namespace {

Workload make(std::string name, const char* group, int64_t num_bytes, LimitKind limit,
              int64_t limit_bytes, double goal, std::function<Case()> prepare) {
  return {.name = std::move(name),
          .group = group,
          .unit = "GB/s",
          .work = 1e-9 * static_cast<double>(num_bytes),
          .limit = limit,
          .limit_bytes = limit_bytes,
          .is_against_limit = false,
          .goal = goal,
          .prepare = std::move(prepare)};
}

}  // namespace

std::vector<Workload> stream_workloads(bool is_quick) {
  const int64_t size = is_quick ? int64_t{1} << 18 : int64_t{1} << 26;
  const std::string size_name = is_quick ? "256k" : "64m";
  const int64_t rows = is_quick ? 64 : 4096;
  const int64_t columns = is_quick ? 256 : 1024;
  const int64_t side = is_quick ? 512 : 8192;
  const std::string row_name = concat("_", rows, "x", columns);
  std::vector<Workload> all;
  all.push_back(make("relu_" + size_name, "elementwise", 16 * size, LimitKind::kCopy, 4 * size,
                     0.85, [=] { return prepare_relu(size); }));
  all.push_back(make("sum_" + size_name, "sum", 4 * size, LimitKind::kRead, 4 * size, 0.85,
                     [=] { return prepare_sum(size); }));
  for (Workload& workload : all)
    workload.is_against_limit = true;
  for (const auto& [name, kind] :
       {std::pair("softmax", JobKind::kSoftmax), std::pair("layernorm", JobKind::kLayernorm)}) {
    all.push_back(make(name + row_name, name, 8 * rows * columns, LimitKind::kCopy,
                       4 * rows * columns, 1.0,
                       [=, kind = kind] { return prepare_rows(kind, rows, columns); }));
  }
  all.push_back(make(concat("transpose_", side), "transpose", 8 * side * side, LimitKind::kCopy,
                     4 * side * side, 3.0, [=] { return prepare_transpose(side, side); }));
  return all;
}

}  // namespace tenon::bench
