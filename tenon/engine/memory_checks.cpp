// SPDX-License-Identifier: MIT

#include "tenon/engine/memory_checks.h"

#include <atomic>

namespace tenon {
namespace {

struct State {
  std::atomic<bool> poison = false;
  std::atomic<int64_t> guard_bytes = 0;
};

State& state() {
  static State instance;  // trivially destroyed
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
