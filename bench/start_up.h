// Processes that compute one small result and end: how long is it from start to result?
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tenon::bench {

struct StartUps {
  std::vector<double> times_ns;  ///< from starting the process to reading its result
  int64_t kernels = 0;           ///< launches of each
};

/// Starts this executable `repeats` times with kFirstResultOption. Warm: all share one cache on
/// disk, which a first one, not counted, has filled. Else each has an empty one. Throws kInternal
/// if one fails or gives another result than [2,3,4].
StartUps time_start_ups(const std::string& device, bool is_warm, int repeats);

/// What such a process prints.
void print_first_result(int64_t kernels, const std::vector<int32_t>& result);

}  // namespace tenon::bench
