// Matmul shapes that nobody chose: drawn by digits that were fixed before the code was, such as
// those of a commit's hash. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon::bench {

inline constexpr int kNumDrawn = 20;
inline constexpr int64_t kLargestDrawn = 4096;

/// (m,k) x (k,n).
struct MatmulShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  friend bool operator==(const MatmulShape&, const MatmulShape&) = default;
};

/// The first 8 hex digits of `hash` as a number. Throws kInvalidArgument if it has fewer.
uint32_t draw_seed(std::string_view hash);

/// Each size is 4096^u rounded, u uniform in [0,1): log-uniform from 1 to 4096. Numbers come from
/// splitmix64 (S. Vigna, public domain) in the order m, n, k of each shape.
std::vector<MatmulShape> drawn_shapes(uint32_t seed, int count = kNumDrawn);

/// splitmix64's next number.
uint64_t next_random(uint64_t& state);

}  // namespace tenon::bench
