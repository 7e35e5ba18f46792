// Random numbers that are the same on every machine and library: splitmix64 (G. Steele, D. Lea,
// C. Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
// For all property tests. SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace tenon::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15U;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    return z ^ z >> 31;
  }
  /// 0 <= value < limit.
  int64_t below(int64_t limit) {
    return static_cast<int64_t>(next() % static_cast<uint64_t>(limit));
  }
  int64_t between(int64_t min, int64_t max) { return min + below(max - min + 1); }
  bool percent(int64_t chance) { return below(100) < chance; }

  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int64_t>(choices.size()))];
  }
  template <typename Container>
  const auto& pick_from(const Container& choices) {
    return choices[static_cast<size_t>(below(static_cast<int64_t>(choices.size())))];
  }

 private:
  uint64_t state_;
};

}  // namespace tenon::testing
