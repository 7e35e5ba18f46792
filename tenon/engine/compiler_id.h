// Which Tenon this is, for cache keys: programs made by other sources are never reused.
// The values are generated when the library is built. SPDX-License-Identifier: MIT

#pragma once

#include <string_view>

namespace tenon {

std::string_view tenon_version();  ///< "0.1.0"
/// Hash of the sources that decide what a kernel compiles to.
std::string_view compiler_id();

}  // namespace tenon
