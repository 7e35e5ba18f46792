// SPDX-License-Identifier: MIT

#include "tenon/ir/eval_unit.h"

#include <array>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/ir/eval_op.h"

namespace tenon {
namespace {

constexpr uint64_t kF32Sign = 0x80000000U;
constexpr uint64_t kF32Exponent = 0x7f800000U;

// The k products of one element of the result.
class Dot {
 public:
  explicit Dot(const MatrixUnit& unit) : unit_(unit) {}

  // a: k elements one after the other; b: from pair to pair as the group says.
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
    const uint64_t wide_a = flushed(eval_cast(a, unit_.a, unit_.acc));
    const uint64_t wide_b = flushed(eval_cast(b, unit_.b, unit_.acc));
    if (is_int(unit_.acc)) {
      const uint64_t product = eval_op(Op::kMul, unit_.acc, std::array{wide_a, wide_b});
      return eval_op(Op::kAdd, unit_.acc, std::array{product, sum});
    }
    return flushed(eval_fused_mulacc(unit_.acc, wide_a, wide_b, flushed(sum)));
  }

  uint64_t added(uint64_t a, uint64_t b) const {
    return flushed(eval_op(Op::kAdd, unit_.acc, std::array{flushed(a), flushed(b)}));
  }

  const MatrixUnit& unit_;
};

}  // namespace

void eval_unit(const MatrixUnit& unit, std::span<const uint64_t> a, std::span<const uint64_t> b,
               std::span<uint64_t> acc) {
  const auto m = static_cast<size_t>(unit.m);
  const auto n = static_cast<size_t>(unit.n);
  const auto k = static_cast<size_t>(unit.k);
  const auto group = static_cast<size_t>(unit.group);
  TENON_ASSERT(a.size() == m * k && b.size() == k * n && acc.size() == m * n,
               "eval_unit: ", a.size(), ", ", b.size(), " and ", acc.size(), " elements for ",
               to_text(unit));
  const Dot dot(unit);
  for (size_t row = 0; row < m; ++row) {
    for (size_t column = 0; column < n; ++column) {
      uint64_t& element = acc[row * n + column];
      element = dot.run(
          element, [&](int i) { return a[row * k + static_cast<size_t>(i)]; },
          [&](int i) {
            const auto depth = static_cast<size_t>(i);
            return b[(depth / group * n + column) * group + depth % group];
          });
    }
  }
}

}  // namespace tenon
