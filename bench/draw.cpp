// SPDX-License-Identifier: MIT

#include "bench/draw.h"

#include <charconv>
#include <cmath>

#include "tenon/base/error.h"

namespace tenon::bench {

uint64_t next_random(uint64_t& state) {
  state += 0x9e3779b97f4a7c15U;
  uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31);
}

uint32_t draw_seed(std::string_view hash) {
  const std::string_view digits = hash.substr(0, 8);
  uint32_t seed = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed, 16);
  TENON_CHECK(digits.size() == 8 && error == std::errc() && end == digits.data() + 8,
              ErrorCode::kInvalidArgument, "bench: --draw takes at least 8 hex digits; got '", hash,
              "'. Give the hash of a commit");
  return seed;
}

std::vector<MatmulShape> drawn_shapes(uint32_t seed, int count) {
  uint64_t state = seed;
  const auto draw = [&state] {
    const double uniform = static_cast<double>(next_random(state) >> 11) * 0x1p-53;
    return static_cast<int64_t>(
        std::llround(std::pow(static_cast<double>(kLargestDrawn), uniform)));
  };
  std::vector<MatmulShape> shapes;
  for (int i = 0; i < count; ++i) {
    MatmulShape shape;
    shape.m = draw();
    shape.n = draw();
    shape.k = draw();
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace tenon::bench
