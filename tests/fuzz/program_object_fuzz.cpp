// Fuzz entry of the .tpo reader. Size and checksum are made right first, so that the fields behind
// them are reached; what is read must be written back as the same bytes.
// SPDX-License-Identifier: MIT

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/hash.h"
#include "tenon/types/program_object.h"

namespace {

void put(std::vector<std::byte>& bytes, size_t at, uint64_t value) {
  for (size_t i = 0; i < 8; ++i)
    bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

void check(std::span<const std::byte> bytes) {
  try {
    const tenon::ProgramObject object = tenon::parse_program_object(bytes);
    const std::vector<std::byte> written = tenon::serialize_program_object(object);
    if (!std::equal(written.begin(), written.end(), bytes.begin(), bytes.end())) std::abort();
  } catch (const tenon::Error& error) {
    if (error.code() != tenon::ErrorCode::kInvalidArgument) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto raw = std::as_bytes(std::span(data, size));
  check(raw);
  constexpr size_t kSizeAt = 12;
  constexpr size_t kLeast = 36;
  if (size < kLeast) return 0;
  std::vector<std::byte> sealed(raw.begin(), raw.end());
  put(sealed, kSizeAt, size);
  const tenon::Hash128 hash =
      tenon::hash128(std::span<const std::byte>(sealed).first(sealed.size() - 16));
  put(sealed, size - 16, hash.low);
  put(sealed, size - 8, hash.high);
  check(sealed);
  return 0;
}
