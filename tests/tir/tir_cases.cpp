// Inputs and expected outputs. SPDX-License-Identifier: MIT

#include "tests/tir/tir_cases.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tenon/base/text.h"

namespace tenon::testing {
namespace {

F32Bits bits_of(const std::vector<float>& values) {
  F32Bits bits;
  for (const float value : values)
    bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

float value_of(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// What is wrong with element `i`, which must have these bits.
std::string difference(size_t i, uint32_t got, uint32_t expected) {
  if (got == expected) return "";
  return concat("element ", i, " is ", value_of(got), ", expected ", value_of(expected));
}

std::string find_difference(const F32Bits& got, const F32Bits& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    std::string text = difference(i, got[i], expected[i]);
    if (!text.empty()) return text;
  }
  return "";
}

// Small, so that sums of products are exact in f32 in any order.
std::vector<int64_t> whole_numbers(size_t count, int64_t multiplier) {
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<int64_t>(i) * multiplier % 23 - 11;
  return values;
}

F32Bits bits_of(const std::vector<int64_t>& values) {
  return bits_of(std::vector<float>(values.begin(), values.end()));
}

// a (M,K), b (K,N), bias (N) -> y (M,N); the relu cuts off about the half of them.
TirCase matmul_case() {
  constexpr size_t M = 31, N = 100, K = 70;
  const std::vector<int64_t> a = whole_numbers(M * K, 7);
  const std::vector<int64_t> b = whole_numbers(K * N, 5);
  const std::vector<int64_t> bias = whole_numbers(N, 3);
  std::vector<int64_t> y;
  for (size_t m = 0; m < M; ++m) {
    for (size_t n = 0; n < N; ++n) {
      int64_t sum = bias[n];
      for (size_t k = 0; k < K; ++k)
        sum += a[m * K + k] * b[k * N + n];
      y.push_back(std::max<int64_t>(sum, 0));
    }
  }
  return {.file = "matmul.tir",
          .inputs = {bits_of(a), bits_of(b), bits_of(bias)},
          .num_outputs = M * N,
          .find_fault = [expected = bits_of(y)](const F32Bits& output) {
            return find_difference(output, expected);
          }};
}

// a (M,K), b (K/2,N,2) -> y (M,N).
TirCase pairs_case() {
  constexpr size_t M = 3, N = 16, K = 10;
  const std::vector<int64_t> a = whole_numbers(M * K, 7);
  const std::vector<int64_t> b = whole_numbers(K * N, 5);
  std::vector<int64_t> y;
  for (size_t m = 0; m < M; ++m) {
    for (size_t n = 0; n < N; ++n) {
      int64_t sum = 0;
      for (size_t k = 0; k < K; ++k)
        sum += a[m * K + k] * b[(k / 2 * N + n) * 2 + k % 2];
      y.push_back(sum);
    }
  }
  return {.file = "pairs.tir",
          .inputs = {bits_of(a), bits_of(b)},
          .num_outputs = M * N,
          .units = {parse_matrix_unit("bf16*bf16>f32:1x16x2/2:vectors:odd_first:flush:ready")},
          .find_fault = [expected = bits_of(y)](const F32Bits& output) {
            return find_difference(output, expected);
          }};
}

// x (R,C) -> y (R,C), rows of different heights.
TirCase softmax_case() {
  constexpr size_t R = 7, C = 100;
  std::vector<float> x(R * C);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = 9.0F * std::sin(static_cast<float>(i) * 0.731F) + static_cast<float>(i / C) * 40;
  const auto find_fault = [x](const F32Bits& output) -> std::string {
    for (size_t r = 0; r < R; ++r) {
      const double largest = *std::max_element(&x[r * C], &x[r * C] + C);
      double sum = 0;
      for (size_t c = 0; c < C; ++c)
        sum += std::exp(x[r * C + c] - largest);
      for (size_t c = 0; c < C; ++c) {
        const double distance = largest - x[r * C + c];
        const double expected = std::exp(-distance) / sum;
        // Polynomial, scaling, the sum of 100 terms and the division: 8 ulp; and x - m is rounded
        // once, an absolute error that exp makes a relative one.
        const double bound = (8 * 0x1p-23 + distance * 0x1p-24) * expected;
        const double got = value_of(output[r * C + c]);
        if (std::abs(got - expected) <= bound) continue;
        return concat("row ", r, ", column ", c, " is ", got, ", expected ", expected, " +- ",
                      bound);
      }
    }
    return "";
  };
  return {.file = "softmax.tir",
          .inputs = {bits_of(x)},
          .num_outputs = R * C,
          .find_fault = find_fault};
}

// x (R,C) -> y (C,R); any bits, NaNs with payloads among them.
TirCase transpose_case() {
  constexpr size_t R = 37, C = 50;
  F32Bits x(R * C);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<uint32_t>(i * 2654435761U + 0x7f800001U);
  F32Bits y(R * C);
  for (size_t r = 0; r < R; ++r) {
    for (size_t c = 0; c < C; ++c)
      y[c * R + r] = x[r * C + c];
  }
  return {.file = "transpose.tir",
          .inputs = {x},
          .num_outputs = R * C,
          .find_fault = [y](const F32Bits& output) { return find_difference(output, y); }};
}

// x (G,C) -> y (G): 256 partial sums, then the tree; the order is part of the meaning.
TirCase tree_sum_case() {
  constexpr size_t G = 5, C = 1000, kLanes = 256;
  std::vector<float> x(G * C);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<float>(i)) * 1000.0F;
  std::vector<float> y;
  for (size_t g = 0; g < G; ++g) {
    std::vector<float> part(kLanes, 0.0F);
    for (size_t c = 0; c < C; ++c)
      part[c % kLanes] += x[g * C + c];
    for (size_t half = kLanes / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i)
        part[i] += part[i + half];
    }
    y.push_back(part[0]);
  }
  return {.file = "tree_sum.tir",
          .inputs = {bits_of(x)},
          .num_outputs = G,
          .find_fault = [expected = bits_of(y)](const F32Bits& output) {
            return find_difference(output, expected);
          }};
}

}  // namespace

std::vector<TirCase> tir_cases() {
  return {matmul_case(), softmax_case(), transpose_case(), tree_sum_case(), pairs_case()};
}

}  // namespace tenon::testing
