// SPDX-License-Identifier: MIT

#include "tenon/engine/events.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

namespace tenon {
namespace {

struct HookState {
  std::atomic<bool> is_set = false;
  std::mutex mutex;
  // Shared: a thread calls the hook outside the lock while another may replace it.
  std::shared_ptr<const EventHook> hook;
};

HookState& state() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const instance = new HookState;
  return *instance;
}

}  // namespace

void set_event_hook(EventHook hook) {
  const std::lock_guard lock(state().mutex);
  state().is_set = static_cast<bool>(hook);
  state().hook = hook ? std::make_shared<const EventHook>(std::move(hook)) : nullptr;
}

bool has_event_hook() {
  return state().is_set.load(std::memory_order_relaxed);
}

void send_event(const EngineEvent& event) {
  if (!has_event_hook()) return;
  std::shared_ptr<const EventHook> hook;
  {
    const std::lock_guard lock(state().mutex);
    hook = state().hook;
  }
  if (hook) (*hook)(event);
}

}  // namespace tenon
