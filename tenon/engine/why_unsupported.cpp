// What realize() would refuse, found by doing all of it that looks at the Target.
// SPDX-License-Identifier: MIT

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/engine/program_store.h"
#include "tenon/engine/storage.h"
#include "tenon/rules/supports.h"
#include "tenon/schedule/schedule.h"

namespace tenon {

std::vector<Reason> why_unsupported(std::span<const Node> nodes, const Device& device) {
  std::vector<Reason> reasons;
  const auto add_if_refused = [&](const auto& step) {
    try {
      step();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      Reason reason;
      reason.text = error.what();
      if (error.reason() != nullptr) reason = *error.reason();
      if (std::ranges::find(reasons, reason) == reasons.end()) reasons.push_back(reason);
    }
  };
  add_if_refused([&] {
    ScheduleOptions options = schedule_options(device.target());
    options.is_known = [](const Node& node) { return static_cast<bool>(storage_of(node)); };
    const Schedule schedule = schedule_graph(nodes, options);
    for (const ScheduledCall& call : schedule.calls) {
      if (call.copy_from >= 0) continue;
      add_if_refused([&] { lower_for(engine_device(device), call.kernel); });
    }
  });
  return reasons;
}

}  // namespace tenon
