// SPDX-License-Identifier: MIT

#include "tenon/engine/memory_checks.h"

#include <atomic>

#include "tenon/base/settings.h"

namespace tenon {
namespace {

struct State {
  explicit State(const MemoryChecks& checks)
      : poison(checks.poison_outputs), guard_bytes(checks.guard_bytes) {}
  std::atomic<bool> poison;
  std::atomic<int64_t> guard_bytes;
};

State& state() {
  // Trivially destroyed.
  static State instance(setting_bool(Setting::kGuard) ? kAllMemoryChecks : MemoryChecks{});
  return instance;
}

void set_checks(const MemoryChecks& checks) {
  state().poison = checks.poison_outputs;
  state().guard_bytes = checks.guard_bytes;
}

}  // namespace

MemoryChecks memory_checks() {
  return {.poison_outputs = state().poison.load(std::memory_order_relaxed),
          .guard_bytes = state().guard_bytes.load(std::memory_order_relaxed)};
}

ScopedMemoryChecks::ScopedMemoryChecks(MemoryChecks checks) : before_(memory_checks()) {
  set_checks(checks);
}

ScopedMemoryChecks::~ScopedMemoryChecks() {
  set_checks(before_);
}

}  // namespace tenon
