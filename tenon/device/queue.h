// Queue: the order of a device's jobs (launches and copies), what they wait for, and what becomes
// of those that fail. Filled by engine/ and by tools that launch programs; made by a DeviceDriver.
// SPDX-License-Identifier: MIT

#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/base/threads.h"
#include "tenon/device/buffer_pool.h"
#include "tenon/device/event.h"

namespace tenon {

class DeviceDriver;

/// A buffer that a job uses, of this device or another one; borrowed until submit() returns.
struct BufferUse {
  const Buffer* buffer;
  ArgumentAccess access;
};

/// Jobs of one queue are done in the order of their submission, each after the jobs of any queue
/// that it has to wait for because of its buffers: those that wrote what it reads, and those that
/// use what it writes. A job keeps its buffers, and what its function holds, until it is done.
///
/// A job that throws is a failure; its function must leave the device usable. What it should have
/// written is poisoned; jobs that read poisoned buffers are not run, and poison theirs for the same
/// reason. The reason is thrown, as the Error it was, by each read of a poisoned buffer
/// (Buffer::wait, copy_out), and once by the queue (wait, synchronize) unless it was told before.
///
/// Safe from any thread. In a forked child everything that could wait throws kDeviceFailed.
class Queue {
 public:
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  /// Of derived classes: all jobs are done then.
  virtual ~Queue() = default;

  /// `run` must be copyable and wait for no buffer of its own. It may run here and now, in which
  /// case what it throws leaves submit(), or later on another thread: then `describe()` has been
  /// asked for words that say what it is for ("while <words>", part of the failure). The event is
  /// that of its end. `after`: more to wait for.
  template <typename Run, typename Describe>
  Event submit(std::span<const BufferUse> uses, Run run, const Describe& describe,
               std::span<const Event> after = {}) {
    if (!runs_here() || !are_ready(uses, after)) {
      return enqueue(make_job(uses, after, std::function<void()>(std::move(run)), describe()));
    }
    if (const FailurePtr failure = failure_of(uses)) {
      settle(uses, failure);
      return {};
    }
    try {
      const std::unique_lock<std::mutex> turn = take_turn();
      run();
      finish_here();
    } catch (...) {
      poison_here(uses);
      throw;
    }
    settle(uses, nullptr);
    return {};
  }

  /// Waits for the event of a job and all before it, or for all jobs; throws the first failure
  /// among them that nobody has got so far.
  void wait(const Event& event);
  void synchronize() { wait(last()); }
  /// The end of all jobs submitted so far.
  virtual Event last() const = 0;

 protected:
  struct Use {
    Buffer buffer;
    ArgumentAccess access;
  };
  struct Job {
    std::vector<Use> uses;
    std::vector<Event> after;  ///< of other queues
    std::function<void()> run;
    std::string words;
  };

  explicit Queue(DeviceDriver& driver) : driver_(driver) {}

  /// An idle queue may run a job on the thread that submits it.
  virtual bool runs_here() const = 0;
  /// Held while a job runs and is synchronized, or no lock: then others may run meanwhile.
  virtual std::unique_lock<std::mutex> take_turn() { return {}; }
  /// Takes the job. Whoever derives: note_uses() before the next job can be submitted, run_job()
  /// when its events are reached, then drop it, and then only is its own event reached.
  virtual Event enqueue(Job job) = 0;

  static void note_uses(std::span<const Use> uses, const Event& event);
  /// Runs it to its end, or poisons what it writes. `number` is that of its event.
  void run_job(Job& job, uint64_t number);

 private:
  struct Kept {
    uint64_t number;
    FailurePtr failure;
  };

  static bool are_ready(std::span<const BufferUse> uses, std::span<const Event> after);
  Job make_job(std::span<const BufferUse> uses, std::span<const Event> after,
               std::function<void()> run, std::string words) const;
  static FailurePtr failure_of(std::span<const BufferUse> uses);
  static void settle(std::span<const BufferUse> uses, const FailurePtr& failure);
  static void poison_here(std::span<const BufferUse> uses);
  void finish_here();
  void keep(FailurePtr failure, uint64_t number);

  DeviceDriver& driver_;
  std::mutex kept_mutex_;
  std::vector<Kept> kept_;  ///< what nobody has got, the oldest first
};

/// For drivers whose launches and copies are done when they return, or when synchronize() does:
/// each job is run and synchronized before the next one.
class HostQueue final : public Queue {
 public:
  enum class Mode : uint8_t {
    kCaller,   ///< an idle queue runs jobs on their callers' threads, one at a time
    kCallers,  ///< several at once: for drivers whose launches and copies are done when they return
    kThread,   ///< all jobs run on the queue's own thread: the host goes on meanwhile
  };
  /// `driver` must outlive it. The thread is started when it is first needed.
  HostQueue(DeviceDriver& driver, Mode mode);
  /// Waits for all jobs.
  ~HostQueue() override;

  Event last() const override;

 private:
  class Progress;

  /// Submission waits while so many jobs are under way: they hold memory.
  static constexpr size_t kMaxJobs = 256;

  bool runs_here() const override;
  std::unique_lock<std::mutex> take_turn() override;
  Event enqueue(Job job) override;
  void work();

  const Mode mode_;
  const ForkWatch watch_;
  std::mutex turn_;  ///< of kCaller: whose failure synchronize() throws
  const std::shared_ptr<Progress> progress_;
  std::mutex mutex_;
  std::condition_variable changed_;  ///< of jobs_ and is_over_
  std::deque<Job> jobs_;
  std::atomic<uint64_t> submitted_ = 0;  ///< written under the lock
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace tenon
