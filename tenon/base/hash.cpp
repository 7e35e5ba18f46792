// XXH3 behind hash.h; the only file that sees xxhash.
// SPDX-License-Identifier: MIT
#include "tenon/base/hash.h"

#define XXH_INLINE_ALL
#include <fmt/format.h>
#include <xxhash.h>

#include <array>
#include <bit>

namespace tenon {

uint64_t hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 hash128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {.low = hash.low64, .high = hash.high64};
}

std::string to_string(const Hash128& hash) {
  return fmt::format(FMT_STRING("{:016x}{:016x}"), hash.high, hash.low);
}

std::string to_hex(uint64_t hash) {
  return fmt::format(FMT_STRING("{:016x}"), hash);
}

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh);
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

// Kind and number in nine bytes, little endian on every host.
void Hasher::add_mark(char kind, uint64_t size) {
  std::array<char, 9> bytes = {kind};
  for (size_t i = 0; i < 8; ++i) {
    bytes[i + 1] = static_cast<char>((size >> (8 * i)) & 0xff);
  }
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

Hasher& Hasher::add(std::string_view text) {
  add_mark('s', text.size());
  XXH3_128bits_update(&state_->xxh, text.data(), text.size());
  return *this;
}

Hasher& Hasher::add(std::span<const std::byte> bytes) {
  add_mark('b', bytes.size());
  XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
  return *this;
}

Hasher& Hasher::add(const Hash128& hash) {
  add_mark('h', hash.low);
  add_mark('h', hash.high);
  return *this;
}

Hasher& Hasher::add(double value) {
  add_mark('f', std::bit_cast<uint64_t>(value));
  return *this;
}

Hasher& Hasher::add_integer(uint64_t bits, bool is_negative) {
  add_mark(is_negative ? 'n' : 'i', bits);
  return *this;
}

Hash128 Hasher::hash() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {.low = hash.low64, .high = hash.high64};
}

}  // namespace tenon
