// Launch protocol: the caller fills `job`, opens `state`, wakes helpers and works too. Helpers
// that come while it is open join (count themselves into `state`); when the caller finds no work
// left it closes `state` and waits for those inside. A helper that wakes late finds it closed and
// sleeps on, so a short launch never waits for a slow wake-up (20-40 us on a virtual machine).
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/thread_pool.h"

#include <immintrin.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/backend/cpu/cpu_features.h"
#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/threads.h"
#include "tenon/base/timing.h"

namespace tenon::cpu {
namespace {

constexpr uint32_t kOpen = uint32_t{1} << 31;  // of Shared::state; below: helpers inside
constexpr int64_t kSpinNs = 40'000;  // a sleeping thread and back: 42 us on a virtual Zen 4
constexpr int kMaxWorkers = 4096;
constexpr size_t kCacheLine = 64;

/// True on threads that are inside a launch: a nested one must not wait for the pool.
bool& inside_launch() {
  thread_local bool inside = false;
  return inside;
}

/// Round to nearest, denormals kept, all exceptions masked; then the caller's mode again.
class FloatModeGuard {
 public:
  FloatModeGuard() : before_(_mm_getcsr()) {
    if (before_ != kDefaultMode) _mm_setcsr(kDefaultMode);
  }
  ~FloatModeGuard() {
    // Status flags raised meanwhile are dropped with the rest.
    if (before_ != kDefaultMode) _mm_setcsr(before_);
  }
  FloatModeGuard(const FloatModeGuard&) = delete;
  FloatModeGuard& operator=(const FloatModeGuard&) = delete;

 private:
  static constexpr unsigned kDefaultMode = 0x1f80;
  unsigned before_;
};

/// A half-open range of tickets in one word, so that it can be split by one compare-exchange.
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;
  uint32_t size() const { return end - begin; }
};
uint64_t pack(Range range) {
  return uint64_t{range.end} << 32 | range.begin;
}
Range unpack(uint64_t word) {
  return {static_cast<uint32_t>(word), static_cast<uint32_t>(word >> 32)};
}

/// Spins for a while, then sleeps, until `word` is not `old` any more.
template <typename Word>
void wait_while(const std::atomic<Word>& word, Word old, int64_t spin_ns) {
  constexpr int kPausesPerLook = 64;
  if (spin_ns > 0) {
    const int64_t deadline = now_ns() + spin_ns;
    do {
      for (int i = 0; i < kPausesPerLook; ++i) {
        if (word.load(std::memory_order_acquire) != old) return;
        _mm_pause();
      }
    } while (now_ns() < deadline);
  }
  while (word.load(std::memory_order_acquire) == old)
    word.wait(old, std::memory_order_acquire);
}

}  // namespace

/// Keeps the workers of a launch on cores of their own. Linux may wake a helper on its caller's
/// core while another is idle (it does not look for one where a small cache's cores were busy) and
/// leave it there for many launches, which then take as long as with one thread.
class CoreClaims {
 public:
  CoreClaims() : claims_(static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)))) {}

  /// By the caller, before helpers join: forgets the claims of launches before.
  void start_launch() {
    launch_.store(launch_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    claim_current();
  }

  /// By a helper that has joined: claims its core, or moves to one without a claim. It stays there
  /// for the scheduler's reasons only: its affinity is the same afterwards.
  void claim() {
    if (claim_current()) return;
    cpu_set_t before;  // of a machine with more cores than it holds: no move
    if (sched_getaffinity(0, sizeof before, &before) != 0) return;
    cpu_set_t unclaimed = before;
    const uint32_t launch = launch_.load(std::memory_order_relaxed);
    for (size_t core = 0; core < std::min<size_t>(claims_.size(), CPU_SETSIZE); ++core) {
      if (claims_[core].load(std::memory_order_relaxed) == launch) CPU_CLR(core, &unclaimed);
    }
    if (CPU_COUNT(&unclaimed) == 0) return;
    if (sched_setaffinity(0, sizeof unclaimed, &unclaimed) != 0) return;
    claim_current();
    sched_setaffinity(0, sizeof before, &before);
  }

 private:
  /// False where another worker of this launch has claimed the core that this thread is on.
  bool claim_current() {
    const int core = sched_getcpu();
    if (core < 0 || static_cast<size_t>(core) >= claims_.size()) return true;
    const uint32_t launch = launch_.load(std::memory_order_relaxed);
    return claims_[static_cast<size_t>(core)].exchange(launch, std::memory_order_relaxed) != launch;
  }

  std::atomic<uint32_t> launch_ = 0;
  std::vector<std::atomic<uint32_t>> claims_;  // by core: the launch whose worker was there last
};

// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): padded on purpose
struct ThreadPool::Shared {
  struct Slot {
    alignas(kCacheLine) std::atomic<uint64_t> range = 0;   // tickets that this worker still has
    alignas(kCacheLine) std::atomic<uint32_t> signal = 0;  // changes when the helper should look
  };
  /// Written by the caller before `state` opens, read by helpers that joined.
  struct Job {
    const GroupBody* body = nullptr;
    int64_t groups = 0;
    int64_t groups_per_ticket = 1;
    int workers = 0;
  };

  explicit Shared(int num_workers)
      : slots(static_cast<size_t>(num_workers)),
        spin_ns(num_workers <= num_available_cores() ? kSpinNs : 0) {}

  void help(int worker);
  void work(int worker);
  bool take_own(int worker);
  bool steal(int worker);
  void wake_children(int worker);
  bool join();
  void leave();
  void close_and_wait();

  Job job;
  std::vector<Slot> slots;
  CoreClaims cores;
  int64_t spin_ns;
  std::atomic<bool> stop = false;
  alignas(kCacheLine) std::atomic<uint32_t> state = 0;
  std::vector<std::thread> helpers;
};

/// The life of one helper thread.
void ThreadPool::Shared::help(int worker) {
  inside_launch() = true;
  Slot& slot = slots[static_cast<size_t>(worker)];
  uint32_t seen = 0;
  while (true) {
    wait_while(slot.signal, seen, spin_ns);
    seen = slot.signal.load(std::memory_order_acquire);
    if (stop.load(std::memory_order_acquire)) return;
    if (!join()) continue;
    if (worker < job.workers) {
      cores.claim();
      wake_children(worker);
      work(worker);
    }
    leave();
  }
}

void ThreadPool::Shared::work(int worker) {
  while (take_own(worker) || steal(worker)) {
  }
}

/// Runs a part from the near end of the own range; the rest stays for thieves.
bool ThreadPool::Shared::take_own(int worker) {
  constexpr uint32_t kParts = 8;
  std::atomic<uint64_t>& own = slots[static_cast<size_t>(worker)].range;
  uint64_t word = own.load(std::memory_order_relaxed);
  while (true) {
    const Range range = unpack(word);
    if (range.size() == 0) return false;
    const uint32_t count = std::max<uint32_t>(1, range.size() / kParts);
    if (own.compare_exchange_weak(word, pack({range.begin + count, range.end}),
                                  std::memory_order_relaxed)) {
      const int64_t begin = range.begin * job.groups_per_ticket;
      const int64_t end = (int64_t{range.begin} + count) * job.groups_per_ticket;
      (*job.body)(begin, std::min(end, job.groups), worker);
      return true;
    }
  }
}

/// Moves the far half of another worker's range into the own one, which is empty. No ticket is
/// ever in two ranges at once. A range may take an earlier value again (a single ticket stolen
/// back); then it holds just that ticket again, so a compare-exchange that succeeds is right.
bool ThreadPool::Shared::steal(int worker) {
  for (int step = 1; step < job.workers; ++step) {
    std::atomic<uint64_t>& other = slots[static_cast<size_t>((worker + step) % job.workers)].range;
    uint64_t word = other.load(std::memory_order_relaxed);
    while (true) {
      const Range range = unpack(word);
      if (range.size() == 0) break;
      const uint32_t middle = range.end - (range.size() + 1) / 2;
      if (other.compare_exchange_weak(word, pack({range.begin, middle}),
                                      std::memory_order_relaxed)) {
        slots[static_cast<size_t>(worker)].range.store(pack({middle, range.end}),
                                                       std::memory_order_relaxed);
        return true;
      }
    }
  }
  return false;
}

/// Waking is a tree: with many workers no thread makes all the system calls.
void ThreadPool::Shared::wake_children(int worker) {
  for (int child = 2 * worker + 1; child <= 2 * worker + 2 && child < job.workers; ++child) {
    std::atomic<uint32_t>& signal = slots[static_cast<size_t>(child)].signal;
    signal.fetch_add(1, std::memory_order_release);
    signal.notify_one();
  }
}

bool ThreadPool::Shared::join() {
  uint32_t seen = state.load(std::memory_order_relaxed);
  while ((seen & kOpen) != 0) {
    // Acquire: sees the job that the caller wrote before it opened.
    if (state.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) return true;
  }
  return false;
}

void ThreadPool::Shared::leave() {
  // Release: the caller, and through it the next launch, sees what this helper did.
  if (state.fetch_sub(1, std::memory_order_release) == 1) state.notify_one();
}

void ThreadPool::Shared::close_and_wait() {
  uint32_t seen = state.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
  while (seen != 0) {
    wait_while(state, seen, spin_ns);
    seen = state.load(std::memory_order_acquire);
  }
}

ThreadPool::ThreadPool(int num_workers) : num_workers_(num_workers), start_fork_(-1) {
  int64_t wanted = num_workers_ != 0 ? num_workers_ : setting_int(Setting::kThreads);
  if (wanted == 0) wanted = std::min(num_available_cores(), kMaxWorkers);
  TENON_CHECK(wanted > 0 && wanted <= kMaxWorkers, ErrorCode::kInvalidArgument,
              "thread pool: number of workers is ", wanted, ", expected 1 to ", kMaxWorkers,
              ". Set TENON_THREADS to such a number, or to 0 for one worker a core");
  num_workers_ = static_cast<int>(wanted);
  fork_count();  // begins to count
  shared_ = std::make_unique<Shared>(num_workers_);
}

ThreadPool::~ThreadPool() {
  if (is_forked()) {
    // The threads exist only in the parent: nothing to join, and std::thread would terminate.
    static_cast<void>(shared_.release());
    return;
  }
  shared_->stop.store(true, std::memory_order_release);
  for (Shared::Slot& slot : shared_->slots) {
    slot.signal.fetch_add(1, std::memory_order_release);
    slot.signal.notify_one();
  }
  for (std::thread& helper : shared_->helpers)
    helper.join();
}

bool ThreadPool::is_forked() const {
  const int64_t start = start_fork_.load(std::memory_order_relaxed);
  return start >= 0 && start != fork_count();
}

/// Starts the threads; where the system refuses some, the launch goes on with fewer.
void ThreadPool::start_helpers() {
  if (start_fork_.load(std::memory_order_relaxed) >= 0) return;
  start_fork_.store(fork_count(), std::memory_order_relaxed);
  try {
    Shared* const shared = shared_.get();
    for (int worker = 1; worker < num_workers_; ++worker) {
      shared->helpers.push_back(
          start_thread(concat("tenon-", worker), [shared, worker] { shared->help(worker); }));
    }
  } catch (const std::system_error&) {
    // No more threads to be had. A missing helper's home range is stolen like any other.
  }
}

void ThreadPool::run(int64_t groups, GroupBody body) {
  TENON_CHECK(!is_forked(), ErrorCode::kDeviceFailed,
              "thread pool: this process was forked after the CPU device had started its threads, "
              "which a fork does not copy. Open devices after fork, or use exec");
  TENON_ASSERT(groups >= 0, "thread pool: launch of ", groups, " groups");
  if (groups == 0) return;
  const FloatModeGuard float_mode;
  if (groups == 1 || num_workers_ == 1 || inside_launch()) {
    body(0, groups, 0);
    return;
  }
  const std::lock_guard lock(launch_mutex_);
  start_helpers();
  constexpr int64_t kMaxTickets = int64_t{1} << 31;
  const int64_t per_ticket = (groups - 1) / kMaxTickets + 1;
  const int64_t tickets = (groups - 1) / per_ticket + 1;
  const auto workers = static_cast<int>(std::min<int64_t>(num_workers_, tickets));
  shared_->job = {
      .body = &body, .groups = groups, .groups_per_ticket = per_ticket, .workers = workers};
  for (int64_t worker = 0; worker < workers; ++worker) {
    const Range home = {static_cast<uint32_t>(tickets * worker / workers),
                        static_cast<uint32_t>(tickets * (worker + 1) / workers)};
    shared_->slots[static_cast<size_t>(worker)].range.store(pack(home), std::memory_order_relaxed);
  }
  inside_launch() = true;
  shared_->cores.start_launch();
  shared_->state.store(kOpen, std::memory_order_release);
  shared_->wake_children(0);
  shared_->work(0);
  shared_->close_and_wait();
  inside_launch() = false;
}

ThreadPool& ThreadPool::shared() {
  // Leaked on purpose: launches may come from destructors of static objects.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): leaked on purpose
  static auto* const pool = new ThreadPool;
  return *pool;
}

}  // namespace tenon::cpu
