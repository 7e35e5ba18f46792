// SPDX-License-Identifier: MIT

#include "bench/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <thread>

#include "bench/limits.h"
#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"

namespace tenon::bench {
namespace {

/// The first line of a file of /proc or /sys; "?" where there is none.
std::string line_of(const std::string& path) {
  try {
    const std::string text = read_file(path);
    return std::string(trim(split(text, '\n')[0]));
  } catch (const Error&) {
    return "?";
  }
}

/// "AMD EPYC, family 25 model 17".
std::string cpu_name() {
  std::string text;
  try {
    text = read_file("/proc/cpuinfo");
  } catch (const Error&) {
    return "?";
  }
  const auto field = [&](std::string_view name) -> std::string {
    for (const std::string_view line : split(text, '\n')) {
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos || trim(line.substr(0, colon)) != name) continue;
      return std::string(trim(line.substr(colon + 1)));
    }
    return "?";
  };
  return concat(field("model name"), ", family ", field("cpu family"), " model ", field("model"));
}

/// "L1 Data 32K, L2 Unified 1024K, ...": sysfs, since sysconf reports the host's on virtual
/// machines.
std::string caches() {
  std::string text;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = concat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    const std::string level = line_of(folder + "level");
    const std::string type = line_of(folder + "type");
    if (level == "?" || type == "Instruction") continue;
    append(text, text.empty() ? "" : ", ", "L", level, " ", line_of(folder + "size"), " (cores ",
           line_of(folder + "shared_cpu_list"), ")");
  }
  return text.empty() ? "?" : text;
}

/// The best of some runs, GB/s.
double best_rate(const Probe& probe) {
  int64_t best_ns = probe.run();
  for (int i = 0; i < 5; ++i)
    best_ns = std::min(best_ns, probe.run());
  return probe.work / static_cast<double>(best_ns);
}

}  // namespace

std::string describe_machine(const Target& target) {
  constexpr int64_t kStoreBytes = int64_t{32} << 20;
  const double one = best_rate(make_store_probe(1, kStoreBytes));
  const double two = best_rate(make_store_probe(2, kStoreBytes));
  return concat("cpu:       ", cpu_name(), "; ", std::thread::hardware_concurrency(), " cores\n",
                "features:  ", join(target.features, " "), "\ncaches:    ", caches(),
                "\npages:     ", "transparent huge pages ",
                line_of("/sys/kernel/mm/transparent_hugepage/enabled"), "\n",
                fmt::format("cores:     a line there and back {:.0f} ns; NT stores of one thread "
                            "{:.1f} GB/s, of two {:.1f} GB/s\n",
                            ping_pong_ns(), one, two));
}

}  // namespace tenon::bench
