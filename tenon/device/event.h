// Events: points of a queue's timeline, and what a buffer remembers of the jobs that use it. Made
// by Queue (queue.h), waited for by jobs of other queues and by the host (Buffer).
// SPDX-License-Identifier: MIT

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/types/signature.h"

namespace tenon {

/// How far a queue has come: its value counts jobs, in the order of submission. Safe from any
/// thread.
class Timeline {
 public:
  Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  virtual ~Timeline() = default;

  /// The jobs up to this one are done.
  virtual uint64_t reached() const = 0;
  /// Returns when reached() is `value` or more. Throws in a forked child (kDeviceFailed), nowhere
  /// else: failures of jobs are told by Queue and Buffer.
  virtual void wait(uint64_t value) const = 0;
};

/// "Job `value` of that queue is done", and all before it. The timeline is shared since events may
/// outlive their queue, which ends with all of its jobs done.
class Event {
 public:
  Event() = default;  ///< done
  Event(std::shared_ptr<const Timeline> timeline, uint64_t value)
      : timeline_(std::move(timeline)), value_(value) {}

  bool is_done() const { return timeline_ == nullptr || timeline_->reached() >= value_; }
  void wait() const {
    if (timeline_ != nullptr) timeline_->wait(value_);
  }
  const Timeline* timeline() const { return timeline_.get(); }
  uint64_t value() const { return value_; }

 private:
  std::shared_ptr<const Timeline> timeline_;
  uint64_t value_ = 0;
};

/// Why a job did not do its work. Kept by its queue and by each buffer that it should have written,
/// so shared: the last of them to go is known to nobody.
struct Failure {
  Failure(ErrorCode failure_code, std::string failure_text)
      : code(failure_code), text(std::move(failure_text)) {}

  const ErrorCode code;
  const std::string text;
  std::atomic<bool> is_reported = false;  ///< somebody has got it as an Error
};
using FailurePtr = std::shared_ptr<Failure>;

/// The exception that is being handled.
FailurePtr current_failure();
[[noreturn]] void throw_failure(Failure& failure);

/// Which jobs use a buffer, and whether its bytes are what they should be. Safe from any thread.
class BufferHistory {
 public:
  /// Adds what a job, or the host, has to wait for before it uses the buffer in this way, the
  /// events of `known` (null: none) left out.
  void add_waits(ArgumentAccess access, const Timeline* known, std::vector<Event>& waits) const;
  /// A job that uses it was submitted.
  void add(ArgumentAccess access, const Event& event);

  /// Not null: the buffer is poisoned, its bytes mean nothing.
  FailurePtr failure() const;
  void set_failure(FailurePtr failure);

 private:
  mutable std::mutex mutex_;
  Event write_;               ///< the latest
  std::vector<Event> reads_;  ///< since then: the latest of each queue
  FailurePtr failure_;
};

inline bool is_read(ArgumentAccess access) {
  return access != ArgumentAccess::kWrite;
}
inline bool is_written(ArgumentAccess access) {
  return access != ArgumentAccess::kRead;
}

}  // namespace tenon
