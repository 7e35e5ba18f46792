// posix_spawn with pipes as stdin, stdout and stderr, served until the child has ended: nothing
// can block on a full pipe, a grandchild that keeps stdout open cannot hold us up, no file is left
// behind, and a limit on the size of files does not count. SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/spawn.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "tenon/base/error.h"

extern "C" {  // which the header of glibc 2.36 forgets
#include <sys/pidfd.h>
}

namespace tenon::cpu {
namespace {

constexpr size_t kMaxCapturedBytes = size_t{1} << 30;

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor() { reset(); }
  int get() const { return fd_; }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

/// Two connected ends, one for the child. Neither is 0, 1 or 2: a host may have closed those, and
/// then the child's redirections would overwrite each other.
struct Channel {
  FileDescriptor ours;
  FileDescriptor theirs;
};

// Input goes through sockets, which can be told to raise no signal where nobody reads; outputs
// through pipes, which tools may open by name (/dev/stderr).
Channel make_channel(bool is_input, const std::string& tool) {
  int ends[2] = {-1, -1};
  const int made =
      is_input ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) : pipe2(ends, O_CLOEXEC);
  const FileDescriptor first(made == 0 ? ends[0] : -1);
  const FileDescriptor second(made == 0 ? ends[1] : -1);
  Channel channel{FileDescriptor(made == 0 ? fcntl(first.get(), F_DUPFD_CLOEXEC, 3) : -1),
                  FileDescriptor(made == 0 ? fcntl(second.get(), F_DUPFD_CLOEXEC, 3) : -1)};
  const bool is_good = channel.ours.get() >= 0 && channel.theirs.get() >= 0 &&
                       fcntl(channel.ours.get(), F_SETFL, O_NONBLOCK) == 0;
  TENON_CHECK(is_good, ErrorCode::kIo, "running '", tool,
              "': no channel for its input or output: ", std::strerror(errno));
  return channel;
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/// Sends what fits; true when nothing is left or nobody reads any more.
bool send_some(int fd, std::string_view& rest) {
  while (!rest.empty()) {
    const ssize_t count = send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0 && would_block()) return false;
    if (count < 0) break;
    rest.remove_prefix(static_cast<size_t>(count));
  }
  shutdown(fd, SHUT_WR);
  return true;
}

/// Takes what is there; true at the end. What is beyond the limit is dropped.
bool receive_some(int fd, std::string& text) {
  std::array<char, 1 << 16> bytes;
  for (;;) {
    const ssize_t count = read(fd, bytes.data(), bytes.size());
    if (count < 0 && would_block()) return false;
    if (count <= 0) return true;
    const size_t room = kMaxCapturedBytes - text.size();
    text.append(bytes.data(), std::min(static_cast<size_t>(count), room));
  }
}

/// Feeds the child and listens to it until it has ended; what its children still write is dropped.
void serve(const FileDescriptor& ended, const Channel& input, const Channel& output,
           const Channel& errors, std::string_view stdin_text, SpawnResult& result) {
  pollfd waits[4] = {{ended.get(), POLLIN, 0},
                     {input.ours.get(), POLLOUT, 0},
                     {output.ours.get(), POLLIN, 0},
                     {errors.ours.get(), POLLIN, 0}};
  std::string_view rest = stdin_text;
  for (bool is_over = false; !is_over;) {
    while (poll(waits, 4, -1) < 0 && errno == EINTR) {
    }
    const bool has_ended = waits[0].revents != 0;
    // A negative descriptor is passed over.
    if (waits[1].fd >= 0 && waits[1].revents != 0 && send_some(waits[1].fd, rest)) waits[1].fd = -1;
    if (waits[2].fd >= 0 && receive_some(waits[2].fd, result.output)) waits[2].fd = -1;
    if (waits[3].fd >= 0 && receive_some(waits[3].fd, result.errors)) waits[3].fd = -1;
    is_over = has_ended || (waits[2].fd < 0 && waits[3].fd < 0);
  }
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
  Channel input = make_channel(true, tool);
  Channel output = make_channel(false, tool);
  Channel errors = make_channel(false, tool);

  std::vector<char*> arguments;
  arguments.reserve(argv.size() + 1);
  for (const std::string& argument : argv)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  std::string locale = "LC_ALL=C";
  std::string path = "PATH=/usr/local/bin:/usr/bin:/bin";
  const std::array<char*, 3> environment = {locale.data(), path.data(), nullptr};

  const SpawnSetup setup(input.theirs.get(), output.theirs.get(), errors.theirs.get());
  pid_t child = 0;
  const int error = posix_spawn(&child, tool.c_str(), setup.actions(), setup.attributes(),
                                arguments.data(), environment.data());
  TENON_CHECK(error == 0 || error == EAGAIN || error == ENOMEM, ErrorCode::kNotFound, "running '",
              tool, "' failed: ", std::strerror(error));
  TENON_CHECK(error == 0, ErrorCode::kIo, "running '", tool,
              "' failed: no process left: ", std::strerror(error));
  for (Channel* channel : {&input, &output, &errors})
    channel->theirs.reset();
  SpawnResult result;
  // None if a host that ignores its children has lost it already: then the outputs end by
  // themselves.
  const FileDescriptor ended(pidfd_open(child, 0));
  serve(ended, input, output, errors, stdin_text, result);
  result.exit_code = wait_for(child);
  return result;
}

}  // namespace tenon::cpu
