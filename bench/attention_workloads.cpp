// Attention as a composition: softmax(q k^T / sqrt(d)) v for each head, with and without a causal
// mask. Flops are those of the two products, mask or not. SPDX-License-Identifier: MIT

#include <cmath>

#include "bench/cases.h"
#include "tenon/base/text.h"
#include "tenon/tensor/creation.h"
#include "tenon/tensor/nn_ops.h"

namespace tenon::bench {
namespace {

constexpr double kRoundoff = 0x1p-24;  // of f32

/// One row of the result against sums in double. Scores are within (d + 2) u sum |q k| scale, and
/// so is each exponent twice (its own and that of the largest); exp and the division add 10
/// roundings (bounded_ulp of rules/decompose.h), the two sums one for each key.
void check_row(const Attention& job, const HostArray& q, const HostArray& k, const HostArray& v,
               int64_t head, int64_t row, const std::byte* out, std::optional<std::string>& why) {
  const int64_t num_keys = job.is_causal ? row + 1 : job.size;
  const int64_t query = (head * job.size + row) * job.width;
  std::vector<double> scores;
  double largest = -INFINITY;
  double largest_size = 0;
  for (int64_t key = 0; key < num_keys; ++key) {
    double sum = 0;
    double size = 0;
    for (int64_t i = 0; i < job.width; ++i) {
      const double term = q.at(query + i) * k.at((head * job.size + key) * job.width + i);
      sum += term;
      size += std::abs(term);
    }
    scores.push_back(sum * job.scale());
    largest = std::max(largest, scores.back());
    largest_size = std::max(largest_size, size * job.scale());
  }
  double total = 0;
  double lowest = largest;
  for (double& score : scores) {
    lowest = std::min(lowest, score);
    score = std::exp(score - largest);
    total += score;
  }
  const double steps = 2 * static_cast<double>(job.width + 2) * largest_size +
                       2 * static_cast<double>(num_keys) + 10 + 2 * (largest - lowest);
  for (int64_t i = 0; i < job.width; ++i) {
    double sum = 0;
    double size = 0;
    for (int64_t key = 0; key < num_keys; ++key) {
      const double weight = scores[static_cast<size_t>(key)] / total;
      const double term = weight * v.at((head * job.size + key) * job.width + i);
      sum += term;
      size += std::abs(term);
    }
    compare(HostArray::element(out, DType::kF32, query + i), sum, steps * kRoundoff * size,
            concat("(", head, ",", row, ",", i, ")"), why);
  }
}

}  // namespace

Case prepare_attention(const Attention& job) {
  std::vector<std::shared_ptr<HostArray>> arrays;
  std::vector<Tensor> inputs;
  for (uint64_t number = 1; number <= 3; ++number) {
    arrays.push_back(std::make_shared<HostArray>(DType::kF32, Shape{job.heads, job.size, job.width},
                                                 Fill::kUniform, number));
    inputs.push_back(tensor_of(*arrays.back()));
  }
  Case result;
  result.arrays = arrays;
  result.build = [job, inputs] {
    Tensor scores = inputs[0].matmul(inputs[1].matrix_transpose()) * job.scale();
    if (job.is_causal) {
      const Tensor places = arange(job.size);
      const Tensor is_seen = places.reshape({1, job.size}) <= places.reshape({job.size, 1});
      scores = where(is_seen, scores, -INFINITY);
    }
    return softmax(scores).matmul(inputs[2]);
  };
  result.out_size = job.heads * job.size * job.width;
  result.why_wrong = [job, arrays](const std::byte* out) {
    std::optional<std::string> why;
    for (const int64_t head : sampled(job.heads, 3, 1)) {
      for (const int64_t row : sampled(job.size, 10, 2))
        check_row(job, *arrays[0], *arrays[1], *arrays[2], head, row, out, why);
    }
    return why;
  };
  return result;
}

std::vector<Workload> attention_workloads(bool is_quick) {
  std::vector<Workload> all;
  for (const bool is_causal : {false, true}) {
    Attention job{.heads = 16, .size = 1024, .width = 64, .is_causal = is_causal};
    if (is_quick) job = {.heads = 4, .size = 256, .width = 16, .is_causal = is_causal};
    const char* const kind = is_causal ? "attention_causal_" : "attention_";
    Workload workload{.name = concat(kind, job.heads, "x", job.size, "x", job.width),
                      .group = "attention",
                      .unit = "GFLOP/s"};
    workload.work = 4e-9 * static_cast<double>(job.heads * job.size * job.size * job.width);
    workload.limit = LimitKind::kFmaF32;
    workload.is_against_limit = true;
    workload.goal = 0.6;
    workload.prepare = [job] { return prepare_attention(job); };
    all.push_back(std::move(workload));
  }
  return all;
}

}  // namespace tenon::bench
