// SPDX-License-Identifier: MIT

#include "bench/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon::bench {

std::vector<Workload> all_workloads(bool is_quick, std::optional<uint32_t> draw) {
  std::vector<Workload> all = matmul_workloads(is_quick, draw);
  for (auto& more :
       {stream_workloads(is_quick), conv_workloads(is_quick), attention_workloads(is_quick)})
    all.insert(all.end(), more.begin(), more.end());
  all.push_back(digits_workload(is_quick));
  return all;
}

std::vector<Workload> chosen_workloads(std::vector<Workload> all,
                                       const std::vector<std::string>& names) {
  if (names.empty()) return all;
  for (const std::string& name : names) {
    std::vector<std::string> known;
    for (const Workload& workload : all) {
      known.push_back(workload.name);
      known.push_back(workload.group);
    }
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::optional<std::string> nearest = nearest_name(name, known);
    fail(ErrorCode::kInvalidArgument, "bench: there is no workload or group '", name, "'",
         nearest ? concat("; did you mean '", *nearest, "'?") : ".",
         " tenon bench --list shows them");
  }
  std::erase_if(all, [&](const Workload& workload) {
    return std::none_of(names.begin(), names.end(), [&](const std::string& name) {
      return name == workload.name || name == workload.group;
    });
  });
  return all;
}

Tensor tensor_of(const HostArray& array) {
  Tensor tensor = Tensor::from_bytes(array.bytes(), array.dtype(), array.shape());
  return tensor.realize();
}

std::vector<int64_t> sampled(int64_t size, int count, uint64_t seed) {
  std::vector<int64_t> positions{0, size - 1};
  for (int i = 0; i < count; ++i)
    positions.push_back(static_cast<int64_t>(next_random(seed) % static_cast<uint64_t>(size)));
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

void compare(double found, double expected, double bound, const std::string& where,
             std::optional<std::string>& why) {
  if (why || std::abs(found - expected) <= bound) return;  // a NaN does not return
  why = fmt::format("element {} is {:.9g}, expected {:.9g} within {:.3g}", where, found, expected,
                    bound);
}

double unit_roundoff(DType dtype) {
  if (dtype == DType::kF32) return 0x1p-24;
  return dtype == DType::kBF16 ? 0x1p-8 : 0;
}

}  // namespace tenon::bench
