// Starts a tool (a compiler) as a child process and waits for it. Called by clang_compiler.cpp.
// Invariants: no shell, no zombie, and no open file reaches the child but 0, 1 and 2.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tenon::cpu {

struct SpawnResult {
  /// Exit code; 128 + n after signal n; kUnknownExit where the host process ignores SIGCHLD or
  /// another thread of it reaped the child, so that nobody can know.
  int exit_code = 0;
  std::string output;  ///< what it wrote to stdout
  std::string errors;  ///< what it wrote to stderr

  static constexpr int kUnknownExit = -1;
};

/// Runs `argv` (argv[0] is a path; PATH is not searched) with `stdin_text` as its input, waits
/// for it, and returns what it wrote. The environment is fixed ("LC_ALL=C" and a plain PATH), so
/// that the user's variables cannot change what a compiler makes. Safe from any thread.
/// Throws kNotFound if the file cannot be started, kIo if the system has no descriptors or
/// processes left.
SpawnResult run_tool(std::span<const std::string> argv, std::string_view stdin_text);

}  // namespace tenon::cpu
