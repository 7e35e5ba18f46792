// SPDX-License-Identifier: MIT

#include "tenon/cli/debug_output.h"

#include <string>

#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/cli/console.h"
#include "tenon/engine/events.h"

namespace tenon::cli {
namespace {

std::string_view verb_of(EngineEvent::Kind kind) {
  switch (kind) {
    case EngineEvent::Kind::kLowered: return "lowered";
    case EngineEvent::Kind::kCompiled: return "compiled";
    case EngineEvent::Kind::kFound: return "found";
    case EngineEvent::Kind::kLaunched: return "launched";
    case EngineEvent::Kind::kCopied: return "copied";
    case EngineEvent::Kind::kWarning: return "warning";
  }
  return "";
}

void print_event(const EngineEvent& event, int64_t level) {
  if (event.kind == EngineEvent::Kind::kWarning) {
    print_note(concat("warning: ", event.text));
    return;
  }
  if (level < 1) return;
  std::string line = concat(verb_of(event.kind), " ");
  if (!event.kernel.empty()) append(line, event.kernel, " ");
  append(line, "on ", event.device, ": ", format_time(event.time_ns));
  if (level >= 2 && event.kind == EngineEvent::Kind::kLowered) append(line, "\n", event.text);
  print_note(line);
}

}  // namespace

void start_debug_output() {
  const int64_t level = setting_int(Setting::kDebug);
  set_event_hook([level](const EngineEvent& event) { print_event(event, level); });
}

}  // namespace tenon::cli
