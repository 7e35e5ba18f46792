// Which sanitizer this build of Tenon runs under; kernels are instrumented to match.
// Used by the object loader (which runtime names may stay open) and the compiler driver (flags).
// SPDX-License-Identifier: MIT

#pragma once

namespace tenon::cpu {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#else
inline constexpr bool kThreadSanitizer = false;
#endif

inline constexpr bool kSanitizerBuild = kAddressSanitizer || kThreadSanitizer;

}  // namespace tenon::cpu
