// What the engine does, told as it happens: the command prints it (TENON_DEBUG), tests count it.
// Library code itself prints nothing. SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace tenon {

struct EngineEvent {
  enum class Kind : uint8_t {
    kLowered,   ///< one kernel became source text
    kCompiled,  ///< one kernel was compiled; its batch took `time_ns`
    kFound,     ///< its program came from the disk cache
    kLaunched,  ///< and done
    kCopied,    ///< from one device to another; `kernel` is empty
    kWarning,   ///< something is slower than it should be; see `text`
  };
  Kind kind;
  std::string_view kernel;  ///< name in reports
  std::string_view device;
  int64_t time_ns = 0;
  std::string_view text = {};  ///< kLowered: the source; kCopied: which way; kWarning: the words
};

/// Views are valid during the call. Called on the thread that works, a queue's maybe, without a
/// lock of the engine's; must not throw, nor realise anything: it may be called while other threads
/// wait for the program that is being made.
using EventHook = std::function<void(const EngineEvent&)>;

/// Replaces the hook of the process; an empty one ends it. Threads that are inside the old one may
/// still be when this returns.
void set_event_hook(EventHook hook);

bool has_event_hook();

/// Costs one atomic load where no hook is set.
void send_event(const EngineEvent& event);

}  // namespace tenon
