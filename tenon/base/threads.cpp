// SPDX-License-Identifier: MIT

#include "tenon/base/threads.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cfenv>
#include <utility>

#include "tenon/base/error.h"

namespace tenon {
namespace {

std::atomic<int64_t>& forks() {
  static std::atomic<int64_t> instance = 0;  // trivially destroyed
  return instance;
}

/// While it lives the calling thread, and what it starts, takes only the signals of faults.
class SignalBlock {
 public:
  SignalBlock() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) {
      sigdelset(&blocked, fault);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalBlock() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

std::thread start_thread(const std::string& name, std::function<void()> body) {
  const SignalBlock block;
  std::thread thread([body = std::move(body)] {
    std::fesetenv(FE_DFL_ENV);
    body();
  });
  pthread_setname_np(thread.native_handle(), name.c_str());
  return thread;
}

int64_t fork_count() {
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { forks().fetch_add(1, std::memory_order_relaxed); });
  TENON_CHECK(registered == 0, ErrorCode::kOutOfMemory, "watching forks: pthread_atfork failed");
  return forks().load(std::memory_order_relaxed);
}

}  // namespace tenon
