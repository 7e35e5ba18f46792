// Content hashes for cache keys and checksums: the same bytes give the same hash in every
// process, on every machine and in every version (XXH3). Not cryptographic.
// SPDX-License-Identifier: MIT
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tenon {

/// A 128-bit content hash. Equal content gives equal hashes; unequal content never collides in
/// practice, so it may stand for the content in a cache key.
struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr): it takes the 0 of the comparison for a pointer
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
};

uint64_t hash64(std::string_view bytes, uint64_t seed = 0);
Hash128 hash128(std::string_view bytes);
inline uint64_t hash64(std::span<const std::byte> bytes, uint64_t seed = 0) {
  return hash64(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()), seed);
}
inline Hash128 hash128(std::span<const std::byte> bytes) {
  return hash128(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

/// 32 lower-case hex digits, high half first.
std::string to_string(const Hash128& hash);
/// 16 lower-case hex digits.
std::string to_hex(uint64_t hash);

/// Mixes `value` into `seed` for hash tables in memory; the order of calls matters.
/// The finalizer is MurmurHash3's fmix64 (A. Appleby, public domain).
constexpr uint64_t hash_combine(uint64_t seed, uint64_t value) {
  uint64_t mixed = seed * 0x9e3779b97f4a7c15u + value;
  mixed = (mixed ^ (mixed >> 33)) * 0xff51afd7ed558ccdu;
  mixed = (mixed ^ (mixed >> 33)) * 0xc4ceb9fe1a85ec53u;
  return mixed ^ (mixed >> 33);
}

/// Hashes a sequence of values unambiguously: each goes in with its kind and, for text, its
/// length, so ("ab","c") and ("a","bc"), or 1 and "1", differ. Integers of all widths and signs
/// with the same value are the same, and so are float and double.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& add(std::string_view text);
  Hasher& add(const char* text) { return add(std::string_view(text)); }
  Hasher& add(const std::string& text) { return add(std::string_view(text)); }
  Hasher& add(std::span<const std::byte> bytes);
  Hasher& add(const Hash128& hash);
  Hasher& add(double value);
  template <std::integral T>
  Hasher& add(T value) {
    return add_integer(static_cast<uint64_t>(value), std::cmp_less(value, 0));
  }
  Hasher& add(bool value) { return add_integer(value ? 1 : 0, false); }
  Hasher& add(char value) { return add(std::string_view(&value, 1)); }
  /// A list with its length.
  template <std::integral T>
  Hasher& add(std::span<const T> values) {
    add_mark('l', values.size());
    for (const T value : values) {
      add(value);
    }
    return *this;
  }

  /// The hash of what was added so far; more may be added after.
  Hash128 hash() const;

 private:
  struct State;
  Hasher& add_integer(uint64_t bits, bool is_negative);
  void add_mark(char kind, uint64_t size);
  std::unique_ptr<State> state_;
};

}  // namespace tenon

template <>
struct std::hash<tenon::Hash128> {
  size_t operator()(const tenon::Hash128& key) const noexcept { return key.low ^ key.high; }
};
