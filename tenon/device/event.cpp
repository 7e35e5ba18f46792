// SPDX-License-Identifier: MIT

#include "tenon/device/event.h"

#include <algorithm>
#include <exception>
#include <new>

namespace tenon {

FailurePtr current_failure() {
  try {
    throw;
  } catch (const Error& error) {
    return std::make_shared<Failure>(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return std::make_shared<Failure>(ErrorCode::kOutOfMemory, "the host has no memory");
  } catch (const std::exception& error) {
    return std::make_shared<Failure>(ErrorCode::kInternal, error.what());
  } catch (...) {
    return std::make_shared<Failure>(ErrorCode::kInternal, "something was thrown, no exception");
  }
}

void throw_failure(Failure& failure) {
  failure.is_reported = true;
  throw Error(failure.code, failure.text);
}

void BufferHistory::add_waits(ArgumentAccess access, const Timeline* known,
                              std::vector<Event>& waits) const {
  const std::lock_guard lock(mutex_);
  const auto want = [&](const Event& event) {
    if (!event.is_done() && event.timeline() != known) waits.push_back(event);
  };
  want(write_);
  if (!is_written(access)) return;
  std::ranges::for_each(reads_, want);
}

void BufferHistory::add(ArgumentAccess access, const Event& event) {
  const std::lock_guard lock(mutex_);
  if (is_written(access)) {
    write_ = event;
    reads_.clear();
    return;
  }
  std::erase_if(reads_, [&](const Event& read) {
    return read.is_done() || (read.timeline() == event.timeline() && read.value() < event.value());
  });
  reads_.push_back(event);
}

FailurePtr BufferHistory::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void BufferHistory::set_failure(FailurePtr failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
}

}  // namespace tenon
