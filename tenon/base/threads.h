// Threads of ours inside somebody else's process, and whether that process is a forked child, in
// which no thread but one, no driver's state and no held lock is what it was. Used by device/,
// engine/ and backends with threads. SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace tenon {

/// Starts a thread that takes none of the host's signals (faults stay deliverable where they
/// happen) and rounds as by default, whatever its maker's mode. `name`: at most 15 characters.
/// Throws std::system_error where the system refuses one.
std::thread start_thread(const std::string& name, std::function<void()> body);

/// How many of this process and its ancestors are forked children, since the first call in any of
/// them. Costs an atomic load; throws kOutOfMemory on the first call alone.
int64_t fork_count();

/// Remembers the process that made it.
class ForkWatch {
 public:
  bool is_forked() const { return fork_count() != made_at_; }

 private:
  int64_t made_at_ = fork_count();
};

}  // namespace tenon
