// SPDX-License-Identifier: MIT

#include "tenon/base/host_memory.h"

#include <cstdlib>
#include <limits>
#include <new>
#include <string>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

/// The number behind a name of /proc/meminfo, which counts in KiB; -1: it is not there.
int64_t entry_of(const std::string& text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string::npos) return -1;
  return std::strtoll(text.c_str() + at + name.size(), nullptr, 10) * 1024;
}

}  // namespace

int64_t available_host_bytes() {
  constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  try {
    const std::string text = read_file("/proc/meminfo");
    const int64_t available = entry_of(text, "MemAvailable:");
    const int64_t swap = entry_of(text, "SwapFree:");
    return available < 0 || swap < 0 ? kUnknown : available + swap;
  } catch (const Error&) {
    return kUnknown;
  }
}

std::vector<std::byte> host_bytes(int64_t size_bytes, std::string_view what) {
  constexpr int64_t kAlwaysThere = int64_t{64} << 20;
  const auto refuse = [&](int64_t available) {
    fail(ErrorCode::kOutOfMemory, what, ": ", format_bytes(static_cast<uint64_t>(size_bytes)),
         " of the host's memory are wanted, ", format_bytes(static_cast<uint64_t>(available)),
         " are available. Use smaller tensors");
  };
  if (size_bytes > kAlwaysThere) {
    const int64_t available = available_host_bytes();
    if (size_bytes > available) refuse(available);
  }
  try {
    return std::vector<std::byte>(static_cast<size_t>(size_bytes));
  } catch (const std::bad_alloc&) {
    refuse(available_host_bytes());
  }
  return {};
}

}  // namespace tenon
