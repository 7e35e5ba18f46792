// posix_spawn with anonymous files as stdin, stdout and stderr: nothing can block on a full pipe,
// a grandchild that keeps stdout open cannot hold us up, and no temporary file is left behind.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "tenon/base/error.h"

namespace tenon::cpu {
namespace {

constexpr size_t kMaxCapturedBytes = size_t{1} << 30;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// An empty file in memory whose descriptor is not 0, 1 or 2 (a host may have closed those, and
/// then the child's redirections would overwrite each other).
FileDescriptor make_memory_file(const std::string& tool) {
  const FileDescriptor first(memfd_create("tenon-tool", MFD_CLOEXEC));
  FileDescriptor file(first.get() < 0 ? -1 : fcntl(first.get(), F_DUPFD_CLOEXEC, 3));
  TENON_CHECK(file.get() >= 0, ErrorCode::kIo, "running '", tool,
              "': no file for its input or output: ", std::strerror(errno));
  return file;
}

void write_text(int fd, std::string_view text, const std::string& tool) {
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count =
        pwrite(fd, text.data() + written, text.size() - written, static_cast<off_t>(written));
    if (count < 0 && errno == EINTR) continue;
    TENON_CHECK(count > 0, ErrorCode::kIo, "running '", tool,
                "': writing its input failed: ", std::strerror(errno));
    written += static_cast<size_t>(count);
  }
}

std::string read_text(int fd, const std::string& tool) {
  struct stat status {};
  TENON_CHECK(fstat(fd, &status) == 0, ErrorCode::kIo, "running '", tool,
              "': reading its output failed: ", std::strerror(errno));
  std::string text(std::min(static_cast<size_t>(status.st_size), kMaxCapturedBytes), '\0');
  size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t count =
        pread(fd, text.data() + filled, text.size() - filled, static_cast<off_t>(filled));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    filled += static_cast<size_t>(count);
  }
  text.resize(filled);
  return text;
}

/// What posix_spawn is told: redirections, and default signals whatever this thread has blocked.
class SpawnSetup {
 public:
  SpawnSetup(int input, int output, int errors) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, errors, STDERR_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);  // the host's files
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return SpawnResult::kUnknownExit;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

SpawnResult run_tool(std::span<const std::string> argv, std::string_view stdin_text) {
  TENON_ASSERT(!argv.empty(), "run_tool: no program named");
  const std::string& tool = argv[0];
  const FileDescriptor input = make_memory_file(tool);
  const FileDescriptor output = make_memory_file(tool);
  const FileDescriptor errors = make_memory_file(tool);
  write_text(input.get(), stdin_text, tool);

  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::string locale = "LC_ALL=C";
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
  const std::array<char*, 3> environment = {locale.data(), path.data(), nullptr};

  const SpawnSetup setup(input.get(), output.get(), errors.get());
  pid_t child = 0;
  const int error = posix_spawn(&child, tool.c_str(), setup.actions(), setup.attributes(),
                                arguments.data(), environment.data());
  TENON_CHECK(error == 0 || error == EAGAIN || error == ENOMEM, ErrorCode::kNotFound, "running '",
              tool, "' failed: ", std::strerror(error));
  TENON_CHECK(error == 0, ErrorCode::kIo, "running '", tool,
              "' failed: no process left: ", std::strerror(error));
  SpawnResult result;
  result.exit_code = wait_for(child);
  result.output = read_text(output.get(), tool);
  result.errors = read_text(errors.get(), tool);
  return result;
}

}  // namespace tenon::cpu
