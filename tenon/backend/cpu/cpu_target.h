// What codegen may assume of an x86-64 CPU with given instruction sets, as a Target. Used by the
// CPU backend's descriptor, device and compiler. SPDX-License-Identifier: MIT

#pragma once

#include <string_view>

#include "tenon/backend/cpu/cpu_features.h"
#include "tenon/types/target.h"

namespace tenon::cpu {

/// `local_bytes` is the group memory of one worker, `threads` how many run at once.
Target make_target(const CpuFeatureSet& features, int64_t local_bytes, int threads,
                   const CacheSizes& caches = {});

/// Target of the ARCH field of a device name, with this machine's caches and cores: TENON_THREADS
/// changes no Plan, so no bit of a sum. In builds with the thread sanitizer this machine has no
/// AVX.
Target target_of_arch(std::string_view arch);

/// The instruction sets of such a Target. Throws kInvalidArgument for another arch's.
CpuFeatureSet features_of(const Target& target);

/// The larger of half of L2 and a quarter of one core's share of L3.
int64_t local_bytes_of(const CacheSizes& caches, int cores);

}  // namespace tenon::cpu
