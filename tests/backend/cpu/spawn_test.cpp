// Child processes: input, both outputs, exit codes, signals, descriptors and zombies.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/spawn.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/expect_error.h"

namespace tenon::cpu {
namespace {

SpawnResult run_shell(const std::string& script, std::string_view input = "") {
  const std::vector<std::string> argv = {"/bin/sh", "-c", script};
  return run_tool(argv, input);
}

TEST(Spawn, PassesInputAndReturnsBothOutputsAndTheCode) {
  const SpawnResult result = run_shell("cat; echo oops >&2; exit 7", "hello\nworld");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.output, "hello\nworld");
  EXPECT_EQ(result.errors, "oops\n");
}

TEST(Spawn, BigInputAndOutputCannotBlock) {
  std::string big(3'000'000, 'x');
  for (size_t i = 0; i < big.size(); i += 97)
    big[i] = static_cast<char>('a' + i % 26);
  const SpawnResult result = run_shell("cat | tee /dev/stderr", big);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.output == big);
}

TEST(Spawn, AFileSizeLimitDoesNotCount) {
  const std::string big(100'000, 'x');
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit tight{1024, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const SpawnResult result = run_shell("cat", big);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.output == big);
}

TEST(Spawn, ASignalIsReportedAsAShellDoes) {
  EXPECT_EQ(run_shell("kill -9 $$").exit_code, 128 + 9);
}

TEST(Spawn, NoShellReadsTheArguments) {
  const std::vector<std::string> argv = {"/bin/echo", "$HOME; `ls` \"'*"};
  EXPECT_EQ(run_tool(argv, "").output, "$HOME; `ls` \"'*\n");
}

TEST(Spawn, AMissingProgramIsNamed) {
  const std::vector<std::string> argv = {"/no/such/tool"};
  EXPECT_ERROR(run_tool(argv, ""), ErrorCode::kNotFound, "/no/such/tool", "No such file");
  const std::vector<std::string> folder = {"/tmp"};
  EXPECT_ERROR(run_tool(folder, ""), ErrorCode::kNotFound, "/tmp", "ermission denied");
}

TEST(Spawn, TheChildInheritsNoFilesAndNoEnvironment) {
  EXPECT_EQ(run_shell("ls /proc/self/fd | wc -l").output, "4\n");  // 0, 1, 2 and ls's own
  const std::vector<std::string> argv = {"/usr/bin/env"};
  EXPECT_EQ(run_tool(argv, "").output, "LC_ALL=C\nPATH=/usr/local/bin:/usr/bin:/bin\n");
}

TEST(Spawn, BlockedSignalsOfTheCallerAreNotInherited) {
  std::thread([] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    EXPECT_EQ(run_shell("grep SigBlk /proc/self/status").output, "SigBlk:\t0000000000000000\n");
    EXPECT_EQ(run_shell("kill -TERM $$; exit 3").exit_code, 128 + SIGTERM);
  }).join();
}

TEST(Spawn, ManyThreadsAtOnceAndNoZombies) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 10; ++round) {
        const std::string text = std::to_string(t * 100 + round);
        const SpawnResult result = run_shell("cat; exit " + std::to_string(round), text);
        EXPECT_EQ(result.exit_code, round);
        EXPECT_EQ(result.output, text);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Spawn, AHostThatIgnoresChildrenGetsTheOutputAllTheSame) {
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGCHLD, &ignore, &before);
  const SpawnResult result = run_shell("echo fine");
  sigaction(SIGCHLD, &before, nullptr);
  EXPECT_EQ(result.exit_code, SpawnResult::kUnknownExit);
  EXPECT_EQ(result.output, "fine\n");
}

}  // namespace
}  // namespace tenon::cpu
