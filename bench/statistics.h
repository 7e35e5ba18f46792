// What a list of measured times says: best, median, geometric mean. Used by the harness and the
// report. SPDX-License-Identifier: MIT

#pragma once

#include <span>

namespace tenon::bench {

/// Of several windows of one contestant. The best stands for what the code can do, since others
/// share the machine and only ever add time; the median says how much they did.
struct Summary {
  double best = 0;
  double median = 0;
  int windows = 0;
};

/// Of times: the smallest is the best. The median of an even number is the mean of the middle two.
/// `times` is not empty.
Summary summarize(std::span<const double> times);

/// Of positive numbers; 0 of none.
double geometric_mean(std::span<const double> values);

}  // namespace tenon::bench
