// Whether this is a sanitizer's build: five to thirty times slower, and its kernels hold the
// sanitizer's calls. Tests use fewer cases then. SPDX-License-Identifier: MIT

#pragma once

namespace tenon::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace tenon::testing
