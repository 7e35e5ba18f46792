// Checks for value tests, not part of the public API: outputs filled with a pattern before each
// launch, so that an element nobody wrote is seen, and guard zones around each buffer, so that a
// write outside is. Off unless a test, the conformance kit or TENON_GUARD switches them on.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>

namespace tenon {

/// Bytes of an output before its kernel runs: as f32 -1.2e17, as i8 -37, as bool no value.
inline constexpr std::byte kPoisonByte{0xdb};

struct MemoryChecks {
  bool poison_outputs = false;
  int64_t guard_bytes = 0;  ///< before and after each buffer that is made while it is set
};

inline constexpr MemoryChecks kAllMemoryChecks{.poison_outputs = true, .guard_bytes = 256};

/// In force in all threads while it lives; scopes end in reverse order. With guards, realize()
/// throws kInternal, naming the kernel, when a zone of a buffer it bound has changed.
class ScopedMemoryChecks {
 public:
  explicit ScopedMemoryChecks(MemoryChecks checks = kAllMemoryChecks);
  ~ScopedMemoryChecks();
  ScopedMemoryChecks(const ScopedMemoryChecks&) = delete;
  ScopedMemoryChecks& operator=(const ScopedMemoryChecks&) = delete;

 private:
  MemoryChecks before_;
};

MemoryChecks memory_checks();

}  // namespace tenon
