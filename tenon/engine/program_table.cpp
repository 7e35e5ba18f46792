// SPDX-License-Identifier: MIT

#include "tenon/engine/program_table.h"

#include "tenon/base/error.h"

namespace tenon {

ProgramTable::Claims::~Claims() {
  for (const Hash128& key : open_)
    table_.settle(key, nullptr);
}

ProgramTable::Found ProgramTable::Claims::find_or_claim(const Hash128& key) {
  open_.push_back(key);  // first: a claim that is not noted would never end
  Found found = table_.find_or_claim(key);
  if (found.program != nullptr || found.pending.valid()) open_.pop_back();
  return found;
}

ProgramPtr ProgramTable::Claims::settle(const Hash128& key, Program program) {
  auto shared = std::make_shared<const Program>(std::move(program));
  TENON_ASSERT(std::erase(open_, key) == 1, "a program is settled that was not claimed");
  table_.settle(key, shared);
  return shared;
}

ProgramTable::Found ProgramTable::find_or_claim(const Hash128& key) {
  const std::lock_guard lock(mutex_);
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    programs_.splice(programs_.begin(), programs_, found->second);
    return {.program = found->second->second, .pending = {}};
  }
  const auto [place, is_new] = pending_.try_emplace(key);
  if (!is_new) return {.program = nullptr, .pending = place->second.future};
  place->second.future = place->second.promise.get_future().share();
  return {};
}

void ProgramTable::settle(const Hash128& key, const ProgramPtr& program) {
  std::promise<ProgramPtr> promise;
  std::list<Entry> dropped;  // unloaded after the lock is given back
  {
    const std::lock_guard lock(mutex_);
    const auto pending = pending_.find(key);
    promise = std::move(pending->second.promise);
    pending_.erase(pending);
    if (program != nullptr) {
      programs_.emplace_front(key, program);
      by_key_.emplace(key, programs_.begin());
    }
    while (programs_.size() > max_programs_) {
      by_key_.erase(programs_.back().first);
      dropped.splice(dropped.begin(), programs_, std::prev(programs_.end()));
    }
  }
  promise.set_value(program);
}

size_t ProgramTable::size() const {
  const std::lock_guard lock(mutex_);
  return programs_.size();
}

}  // namespace tenon
