// SPDX-License-Identifier: MIT

#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tenon/base/error.h"

namespace tenon::bench {

Summary summarize(std::span<const double> times) {
  TENON_ASSERT(!times.empty(), "summarize: no times");
  std::vector<double> sorted(times.begin(), times.end());
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  const double median =
      sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  return {.best = sorted[0], .median = median, .windows = static_cast<int>(sorted.size())};
}

double geometric_mean(std::span<const double> values) {
  if (values.empty()) return 0;
  double sum_of_logs = 0;
  for (const double value : values)
    sum_of_logs += std::log(value);
  return std::exp(sum_of_logs / static_cast<double>(values.size()));
}

}  // namespace tenon::bench
