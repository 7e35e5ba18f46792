// Properties that need a second process: caches on disk and fork. Each returns what is wrong, empty
// if nothing is. Used by the tenon_cases program. SPDX-License-Identifier: MIT

#pragma once

#include <string>

namespace tenon::cases {

/// An empty cache and the full one give the same bits.
std::string check_cold_and_warm_cache(const std::string& device);
/// Every entry truncated, overwritten or emptied: the same bits, and no crash.
std::string check_broken_cache(const std::string& device);
/// A cache folder that cannot be made or written: the same bits, and at most one warning.
std::string check_unusable_cache(const std::string& device);
/// A child forked after work was done ends within 10 s, whatever it is told.
std::string check_fork();

}  // namespace tenon::cases
