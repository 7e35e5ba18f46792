// POSIX calls behind file.h. Every call that can be interrupted is repeated on EINTR.
// SPDX-License-Identifier: MIT
#include "tenon/base/file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"

namespace tenon {

namespace {

[[noreturn]] void fail_system(std::string_view doing, const std::string& path, int error) {
  const ErrorCode code =
      error == ENOENT || error == ENOTDIR ? ErrorCode::kNotFound : ErrorCode::kIo;
  fail(code, doing, " file '", path, "' failed: ", std::system_category().message(error));
}

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

int open_retrying(const char* path, int flags, mode_t mode) {
  for (;;) {
    const int number = ::open(path, flags | O_CLOEXEC, mode);
    if (number >= 0 || errno != EINTR) return number;
  }
}

// Fills all of `room` unless the file ends first; returns the bytes read, or -1 with errno.
ssize_t read_fully(int number, char* room, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(number, room + done, size - done);
    if (count == 0) break;
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return static_cast<ssize_t>(done);
}

bool write_fully(int number, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(number, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<size_t>(count));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

/// Holds back the SIGXFSZ that a write over the file size limit sends to its thread, so that the
/// write fails with EFBIG instead of ending the process. The host's handlers are not touched.
class FileSizeSignalGuard {
 public:
  FileSizeSignalGuard() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~FileSizeSignalGuard() {
    if (!was_pending_) {  // one that was there before is not ours to take
      constexpr timespec kNow = {};
      while (sigtimedwait(&signal_, nullptr, &kNow) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalGuard(const FileSizeSignalGuard&) = delete;
  FileSizeSignalGuard& operator=(const FileSizeSignalGuard&) = delete;

 private:
  sigset_t signal_;
  sigset_t before_;
  bool was_pending_ = false;
};

int64_t time_ns(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// Names of different processes differ by number and start time, those of threads by the counter.
std::string temporary_name(const std::string& path) {
  static std::atomic<uint64_t> counter = 0;
  return concat(path, ".tmp.", ::getpid(), ".", now_ns(), ".", counter.fetch_add(1));
}

}  // namespace

std::string read_file(const std::string& path, uint64_t max_bytes) {
  const Descriptor file(open_retrying(path.c_str(), O_RDONLY, 0));
  if (file.get() < 0) fail_system("opening", path, errno);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) fail_system("reading", path, errno);
  const auto check_cap = [&](uint64_t size_bytes) {
    TENON_CHECK(size_bytes <= max_bytes, ErrorCode::kInvalidArgument, "reading file '", path,
                "': it has ", size_bytes, " bytes or more; at most ", max_bytes, " are taken here");
  };
  const bool is_regular = S_ISREG(status.st_mode);
  if (is_regular) check_cap(static_cast<uint64_t>(status.st_size));
  // The size may be wrong (0 in /proc) or change: it is only where reading starts.
  std::string bytes;
  size_t step = is_regular ? static_cast<size_t>(status.st_size) + 1 : 4096;
  for (;;) {
    const size_t done = bytes.size();
    bytes.resize(done + step);
    const ssize_t count = read_fully(file.get(), bytes.data() + done, step);
    if (count < 0) fail_system("reading", path, errno);
    bytes.resize(done + static_cast<size_t>(count));
    check_cap(bytes.size());
    if (static_cast<size_t>(count) < step) return bytes;
    step = std::max<size_t>(4096, bytes.size());
  }
}

void write_file_atomic(const std::string& path, std::string_view bytes) {
  const FileSizeSignalGuard guard;
  const std::string temporary = temporary_name(path);
  Descriptor file(open_retrying(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666));
  if (file.get() < 0) fail_system("writing", path, errno);
  // close reports errors of delayed writes; the descriptor is gone whatever it returns.
  const bool is_written = write_fully(file.get(), bytes) && ::close(file.release()) == 0;
  if (!is_written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail_system("writing", path, error);
  }
}

void create_folders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  TENON_CHECK(!error, ErrorCode::kIo, "making folder '", path, "' failed: ", error.message());
}

std::optional<std::string> find_program(const std::string& name) {
  const auto is_program = [](const std::string& path) {
    struct stat status = {};
    return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
           ::access(path.c_str(), X_OK) == 0;
  };
  if (name.find('/') != std::string::npos) {
    return is_program(name) ? std::optional(name) : std::nullopt;
  }
  for (const std::string& folder : program_folders()) {
    std::string path = concat(folder, "/", name);
    if (is_program(path)) return path;
  }
  return std::nullopt;
}

// --- OpenFile ------------------------------------------------------------------------------------

OpenFile OpenFile::existing(const std::string& path) {
  Descriptor opened(open_retrying(path.c_str(), O_RDONLY | O_NONBLOCK, 0));
  if (opened.get() < 0) fail_system("opening", path, errno);
  OpenFile file(path, opened.release());
  file.note_state();
  return file;
}

OpenFile OpenFile::create(const std::string& path) {
  struct stat status = {};
  TENON_CHECK(::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode), ErrorCode::kIo,
              "writing file '", path, "' failed: what is there is not a regular file");
  std::string temporary = temporary_name(path);
  const int opened = open_retrying(temporary.c_str(), O_RDWR | O_CREAT | O_EXCL, 0666);
  if (opened < 0) fail_system("writing", path, errno);
  OpenFile file(path, opened);
  file.temporary_ = std::move(temporary);
  return file;
}

OpenFile::~OpenFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_),
      changed_ns_(other.changed_ns_) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(temporary_, other.temporary_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(changed_ns_, other.changed_ns_);
  return *this;
}

void OpenFile::note_state() {
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) fail_system("opening", path_, errno);
  TENON_CHECK(S_ISREG(status.st_mode), ErrorCode::kIo, "opening file '", path_,
              "' failed: it is not a regular file");
  size_bytes_ = static_cast<uint64_t>(status.st_size);
  changed_ns_ = time_ns(status.st_mtim);
}

void OpenFile::read_at(uint64_t offset, std::span<std::byte> bytes) const {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(descriptor_, bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count == 0) break;
    if (count > 0) {
      done += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      fail_system("reading", path_, errno);
    }
  }
  // Looked at afterwards: a change of size, or of the time as finely as the file system counts it.
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) fail_system("reading", path_, errno);
  const bool is_changed =
      temporary_.empty() && (static_cast<uint64_t>(status.st_size) != size_bytes_ ||
                             time_ns(status.st_mtim) != changed_ns_);
  TENON_CHECK(!is_changed, ErrorCode::kIo, "reading file '", path_,
              "' failed: it was changed after it had been opened; it had ", size_bytes_,
              " bytes, now it has ", status.st_size, ". Open it again");
  TENON_CHECK(done == bytes.size(), ErrorCode::kIo, "reading file '", path_, "' failed: bytes ",
              offset, " to ", offset + bytes.size(), " are wanted, it ends at ", offset + done);
}

void OpenFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  const FileSizeSignalGuard guard;
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset + done));
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno != EINTR) {
      fail_system("writing", path_, errno);
    }
  }
}

void OpenFile::publish() {
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_system("writing", path_, errno);
  temporary_.clear();
  note_state();
}

}  // namespace tenon
