// Threads of ours: their signals and rounding, and forks. SPDX-License-Identifier: MIT

#include "tenon/base/threads.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>

namespace tenon {
namespace {

TEST(OwnThreads, TakeNoSignalsOfTheHostAndRoundAsByDefault) {
  bool blocks_term = false;
  bool takes_faults = false;
  int rounding = -1;
  std::fesetround(FE_UPWARD);
  start_thread("tenon-test", [&] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocks_term = sigismember(&mask, SIGTERM) == 1;
    takes_faults = sigismember(&mask, SIGSEGV) == 0 && sigismember(&mask, SIGFPE) == 0;
    rounding = std::fegetround();
  }).join();
  EXPECT_EQ(std::fegetround(), FE_UPWARD);
  std::fesetround(FE_TONEAREST);
  EXPECT_TRUE(blocks_term);
  EXPECT_TRUE(takes_faults);
  EXPECT_EQ(rounding, FE_TONEAREST);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGTERM), 0);
}

TEST(ForkWatch, KnowsAChildAndItsChild) {
  const ForkWatch watch;
  EXPECT_FALSE(watch.is_forked());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ForkWatch of_child;
    const bool is_right = watch.is_forked() && !of_child.is_forked();
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(watch.is_forked() && of_child.is_forked() ? 0 : 1);
    int status = 1;
    waitpid(grandchild, &status, 0);
    _exit(is_right && status == 0 ? 0 : 1);
  }
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(watch.is_forked());
}

}  // namespace
}  // namespace tenon
