// Memory of the host for data of users' sizes: asked for before it is touched, since the system
// promises more than it has and ends the process that takes it at its word.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tenon {

/// What the system could still give this process, swap included; the largest int64 if it does not
/// say.
int64_t available_host_bytes();

/// That many zero bytes. Throws kOutOfMemory with the numbers; `what` says what they are for.
std::vector<std::byte> host_bytes(int64_t size_bytes, std::string_view what);

}  // namespace tenon
