// How fast the checked interpreter is: `tenon bench --interp`. SPDX-License-Identifier: MIT

#pragma once

#include <vector>

#include "bench/report.h"

namespace tenon::bench {

/// Kernels as INTERP and as the default CPU would run them, and a tree of many lanes with barriers:
/// executed instructions times lanes times vector width, with every check on.
std::vector<Row> interp_rows(bool is_quick);

}  // namespace tenon::bench
