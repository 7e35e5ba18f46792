// SPDX-License-Identifier: MIT

#include "tenon/device/queue.h"

#include <algorithm>
#include <atomic>
#include <system_error>

#include "tenon/base/error.h"
#include "tenon/device/device.h"

namespace tenon {
namespace {

/// More failures that nobody asks for are known to the buffers only.
constexpr size_t kMaxKept = 64;

void check_not_forked(const ForkWatch& watch) {
  TENON_CHECK(!watch.is_forked(), ErrorCode::kDeviceFailed,
              "a queue of jobs: this process was forked after its device had been opened; its "
              "thread does not survive that. Open devices after fork, or start a new program");
}

}  // namespace

// --- Queue ---------------------------------------------------------------------------------------

bool Queue::are_ready(std::span<const BufferUse> uses, std::span<const Event> after) {
  std::vector<Event> waits;
  for (const BufferUse& use : uses) {
    const BufferHistory* const history = use.buffer->history();
    if (history == nullptr) continue;
    history->add_waits(use.access, nullptr, waits);
    if (!waits.empty()) return false;
  }
  return std::ranges::all_of(after, &Event::is_done);
}

Queue::Job Queue::make_job(std::span<const BufferUse> uses, std::span<const Event> after,
                           std::function<void()> run, std::string words) const {
  Job job{.uses = {}, .after = {}, .run = std::move(run), .words = std::move(words)};
  const Event own = last();
  for (const BufferUse& use : uses) {
    job.uses.push_back({*use.buffer, use.access});
    if (const BufferHistory* const history = use.buffer->history()) {
      history->add_waits(use.access, own.timeline(), job.after);
    }
  }
  for (const Event& event : after) {
    if (event.timeline() != own.timeline() && !event.is_done()) job.after.push_back(event);
  }
  return job;
}

FailurePtr Queue::failure_of(std::span<const BufferUse> uses) {
  for (const BufferUse& use : uses) {
    const BufferHistory* const history = use.buffer->history();
    if (history == nullptr || !is_read(use.access)) continue;
    if (FailurePtr failure = history->failure()) return failure;
  }
  return nullptr;
}

void Queue::settle(std::span<const BufferUse> uses, const FailurePtr& failure) {
  for (const BufferUse& use : uses) {
    if (!is_written(use.access)) continue;
    if (failure != nullptr) {
      use.buffer->make_history().set_failure(failure);
    } else if (BufferHistory* const history = use.buffer->history()) {
      history->set_failure(nullptr);
    }
  }
}

void Queue::poison_here(std::span<const BufferUse> uses) {
  settle(uses, current_failure());
}

void Queue::finish_here() {
  driver_.synchronize();
}

void Queue::note_uses(std::span<const Use> uses, const Event& event) {
  for (const Use& use : uses)
    use.buffer.make_history().add(use.access, event);
}

void Queue::run_job(Job& job, uint64_t number) {
  std::vector<BufferUse> uses;
  for (const Use& use : job.uses)
    uses.push_back({&use.buffer, use.access});
  FailurePtr failure = failure_of(uses);
  if (failure == nullptr) {
    try {
      with_context(
          [&] {
            const std::unique_lock<std::mutex> turn = take_turn();
            job.run();
            driver_.synchronize();
          },
          job.words);
    } catch (...) {
      failure = current_failure();
      keep(failure, number);
    }
  }
  settle(uses, failure);
}

void Queue::keep(FailurePtr failure, uint64_t number) {
  const std::lock_guard lock(kept_mutex_);
  std::erase_if(kept_, [](const Kept& kept) { return kept.failure->is_reported.load(); });
  if (kept_.size() < kMaxKept) kept_.push_back({number, std::move(failure)});
}

void Queue::wait(const Event& event) {
  event.wait();
  if (event.timeline() != last().timeline()) return;
  FailurePtr first;
  {
    const std::lock_guard lock(kept_mutex_);
    std::erase_if(kept_, [&](const Kept& kept) {
      if (kept.failure->is_reported) return true;
      if (kept.number > event.value()) return false;
      if (first == nullptr) first = kept.failure;
      return true;
    });
  }
  if (first != nullptr) throw_failure(*first);
}

// --- HostQueue -----------------------------------------------------------------------------------

class HostQueue::Progress final : public Timeline {
 public:
  uint64_t reached() const override { return reached_.load(std::memory_order_acquire); }
  void wait(uint64_t value) const override {
    if (reached() >= value) return;
    check_not_forked(watch_);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return reached() >= value; });
  }
  void advance() {
    {
      const std::lock_guard lock(mutex_);
      reached_.fetch_add(1, std::memory_order_release);
    }
    changed_.notify_all();
  }

 private:
  const ForkWatch watch_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::atomic<uint64_t> reached_ = 0;
};

HostQueue::HostQueue(DeviceDriver& driver, Mode mode)
    : Queue(driver), mode_(mode), progress_(std::make_shared<Progress>()) {}

HostQueue::~HostQueue() {
  if (!thread_.joinable()) return;
  if (watch_.is_forked()) {  // the thread is in the parent alone
    thread_.detach();
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Event HostQueue::last() const {
  return {progress_, submitted_.load()};
}

bool HostQueue::runs_here() const {
  return mode_ != Mode::kThread && progress_->reached() == submitted_.load();
}

std::unique_lock<std::mutex> HostQueue::take_turn() {
  if (mode_ != Mode::kCaller) return {};
  return std::unique_lock(turn_);
}

Event HostQueue::enqueue(Job job) {
  check_not_forked(watch_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return jobs_.size() < kMaxJobs; });
  try {
    if (!thread_.joinable()) thread_ = start_thread("tenon-queue", [this] { work(); });
  } catch (const std::system_error& error) {
    fail(ErrorCode::kOutOfMemory, "a queue of jobs: no thread is to be had (", error.what(), ")");
  }
  // Noted before the lock goes: the thread takes no job meanwhile, so no event is reached too soon.
  const Event event(progress_, submitted_ + 1);
  jobs_.push_back(std::move(job));
  ++submitted_;
  note_uses(jobs_.back().uses, event);
  lock.unlock();
  changed_.notify_all();
  return event;
}

void HostQueue::work() {
  uint64_t number = 0;
  for (;;) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_over_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    changed_.notify_all();
    for (const Event& event : job.after)
      event.wait();
    run_job(job, ++number);
    job = {};  // what it holds goes before anybody hears that it is done
    progress_->advance();
  }
}

}  // namespace tenon
