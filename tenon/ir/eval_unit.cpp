// SPDX-License-Identifier: MIT

#include "tenon/ir/eval_unit.h"

#include <array>
#include <utility>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

constexpr uint64_t kF32Sign = 0x80000000U;
constexpr uint64_t kF32Exponent = 0x7f800000U;

// The k products of one element of the result.
class Dot {
 public:
  Dot(const MatrixUnit& unit, FusedF32 fused_f32) : unit_(unit), fused_(fused_f32) {}

  /// In the accumulator's dtype, as the products take them.
  std::vector<uint64_t> widened(std::span<const uint64_t> elements, DType dtype) const {
    std::vector<uint64_t> wide;
    wide.reserve(elements.size());
    const bool are_halves = dtype == DType::kBF16 && unit_.acc == DType::kF32;  // of the bits
    for (const uint64_t bits : elements)
      wide.push_back(flushed(are_halves ? bits << 16 : eval_cast(bits, dtype, unit_.acc)));
    return wide;
  }

  // a: k widened elements one after the other; b: from pair to pair as the group says.
  template <typename GetA, typename GetB>
  uint64_t run(uint64_t acc, const GetA& a, const GetB& b) const {
    const auto step = [&](int k, uint64_t sum) { return fused(a(k), b(k), sum); };
    if (unit_.sum == UnitSum::kTwoSums) {
      std::array<uint64_t, 2> sums{};
      for (int k = 0; k < unit_.k; ++k)
        sums[static_cast<size_t>(k % 2)] = step(k, sums[static_cast<size_t>(k % 2)]);
      return added(acc, added(sums[0], sums[1]));
    }
    const int flip = unit_.sum == UnitSum::kOddFirst ? 1 : 0;
    for (int k = 0; k < unit_.k; ++k)
      acc = step(k ^ flip, acc);
    return acc;
  }

 private:
  uint64_t flushed(uint64_t bits) const {
    const bool is_small = unit_.acc == DType::kF32 && (bits & kF32Exponent) == 0;
    return unit_.flushes_denormals && is_small ? bits & kF32Sign : bits;
  }

  uint64_t fused(uint64_t a, uint64_t b, uint64_t sum) const {
    if (is_int(unit_.acc)) return canonical_bits(unit_.acc, a * b + sum);
    if (unit_.acc == DType::kF32 && fused_ != nullptr) return flushed(fused_(a, b, flushed(sum)));
    return flushed(eval_fused_mulacc(unit_.acc, a, b, flushed(sum)));
  }

  uint64_t added(uint64_t a, uint64_t b) const {
    return flushed(eval_op(Op::kAdd, unit_.acc, std::array{flushed(a), flushed(b)}));
  }

  const MatrixUnit& unit_;
  const FusedF32 fused_;
};

}  // namespace

void eval_unit(const MatrixUnit& unit, std::span<const uint64_t> a, std::span<const uint64_t> b,
               std::span<uint64_t> acc, FusedF32 fused) {
  const auto m = static_cast<size_t>(unit.m);
  const auto n = static_cast<size_t>(unit.n);
  const auto k = static_cast<size_t>(unit.k);
  const auto group = static_cast<size_t>(unit.group);
  TENON_ASSERT(a.size() == m * k && b.size() == k * n && acc.size() == m * n,
               "eval_unit: ", a.size(), ", ", b.size(), " and ", acc.size(), " elements for ",
               to_text(unit));
  const Dot dot(unit, fused);
  const std::vector<uint64_t> wide_a = dot.widened(a, unit.a);
  const std::vector<uint64_t> wide_b = dot.widened(b, unit.b);
  for (size_t row = 0; row < m; ++row) {
    for (size_t column = 0; column < n; ++column) {
      uint64_t& element = acc[row * n + column];
      element = dot.run(
          element, [&](int i) { return wide_a[row * k + static_cast<size_t>(i)]; },
          [&](int i) {
            const auto depth = static_cast<size_t>(i);
            return wide_b[(depth / group * n + column) * group + depth % group];
          });
    }
  }
}

}  // namespace tenon
