// Entries are files: header (magic, version, size, checksum over key and payload) and payload,
// written beside and renamed. Names: <key>.entry; base/file names unfinished ones <path>.tmp.*.
// SPDX-License-Identifier: MIT

#include "tenon/device/compile_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <system_error>
#include <type_traits>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/hash.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

constexpr std::string_view kEntrySuffix = ".entry";
constexpr std::string_view kTemporaryMark = ".entry.tmp.";
constexpr time_t kTouchAfterSeconds = 3600;     // a use younger than this is not worth a write
constexpr time_t kTemporaryLifeSeconds = 3600;  // no write takes that long: its process died

/// As stored, little-endian like every machine that this runs on.
struct EntryHeader {
  std::array<char, 8> magic = {'T', 'e', 'n', 'o', 'n', 'C', 'C', '\n'};
  uint64_t version = 1;
  uint64_t payload_bytes = 0;
  uint64_t checksum_low = 0;
  uint64_t checksum_high = 0;
};
static_assert(std::is_trivially_copyable_v<EntryHeader> && sizeof(EntryHeader) == 40);

EntryHeader make_header(std::string_view key, std::span<const std::byte> payload) {
  const Hash128 checksum = Hasher().add(key).add(payload).hash();
  EntryHeader header;
  header.payload_bytes = payload.size();
  header.checksum_low = checksum.low;
  header.checksum_high = checksum.high;
  return header;
}

void check_key(std::string_view key) {
  const bool is_hex = key.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  TENON_CHECK(is_hex && key.size() >= 8 && key.size() <= 128, ErrorCode::kInvalidArgument,
              "compile cache: key ", quoted(key),
              " is malformed; expected 8 to 128 lower-case hexadecimal digits");
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

bool read_exactly(int fd, void* data, size_t size) {
  auto* next = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t count = ::read(fd, next, size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    next += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

struct StoredFile {
  timespec used;
  int64_t size_bytes;
  std::string path;
};

}  // namespace

CompileCache::CompileCache(std::string folder, CompileCacheOptions options)
    : folder_(std::move(folder)),
      options_(std::move(options)),
      unseen_bytes_(std::numeric_limits<int64_t>::max() / 2) {  // the first put measures
  if (options_.max_bytes <= 0 || folder_.empty()) is_usable_ = false;
}

std::string CompileCache::entry_path(std::string_view key) const {
  return concat(folder_, "/", key, kEntrySuffix);
}

std::optional<std::vector<std::byte>> CompileCache::get(std::string_view key) const {
  check_key(key);
  if (options_.max_bytes <= 0 || folder_.empty()) return std::nullopt;
  // O_NONBLOCK: whatever lies there under the entry's name must not block us.
  const Descriptor file(::open(entry_path(key).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  EntryHeader header;
  const EntryHeader expected;
  if (!read_exactly(file.get(), &header, sizeof(header)) || header.magic != expected.magic ||
      header.version != expected.version ||
      header.payload_bytes != static_cast<uint64_t>(status.st_size) - sizeof(header)) {
    return std::nullopt;
  }
  std::vector<std::byte> payload(header.payload_bytes);  // the file is that long
  if (!read_exactly(file.get(), payload.data(), payload.size())) return std::nullopt;
  const EntryHeader found = make_header(key, payload);
  if (header.checksum_low != found.checksum_low || header.checksum_high != found.checksum_high) {
    return std::nullopt;
  }
  if (status.st_mtim.tv_sec < std::time(nullptr) - kTouchAfterSeconds) {
    static_cast<void>(::futimens(file.get(), nullptr));  // fails in a read-only folder: no matter
  }
  return payload;
}

void CompileCache::put(std::string_view key, std::span<const std::byte> bytes) {
  check_key(key);
  if (!is_usable_.load(std::memory_order_relaxed)) return;
  const int64_t entry_bytes = static_cast<int64_t>(bytes.size() + sizeof(EntryHeader));
  if (entry_bytes > options_.max_bytes) return;
  const EntryHeader header = make_header(key, bytes);
  std::string entry(static_cast<size_t>(entry_bytes), '\0');
  std::memcpy(entry.data(), &header, sizeof(header));
  if (!bytes.empty()) std::memcpy(entry.data() + sizeof(header), bytes.data(), bytes.size());
  try {
    write_entry(entry_path(key), entry);
  } catch (const Error& error) {
    warn(error.what());
    return;
  }
  note_written(entry_bytes);
}

void CompileCache::write_entry(const std::string& path, std::string_view bytes) {
  try {
    write_file_atomic(path, bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    // No folder yet, or somebody removed it while we ran.
    try {
      create_folders(folder_);
    } catch (const Error&) {
      is_usable_.store(false, std::memory_order_relaxed);
      throw;
    }
    write_file_atomic(path, bytes);
  }
}

void CompileCache::warn(const std::string& cause) {
  if (is_warned_.exchange(true) || !options_.on_warning) return;
  options_.on_warning(
      concat("compile cache: cannot write to '", folder_, "': ", cause,
             ". Kernels are compiled again in each process; set TENON_CACHE_DIR to another folder, "
             "or TENON_CACHE=0"));
}

void CompileCache::note_written(int64_t size_bytes) {
  constexpr int64_t kPart = 16;
  const int64_t unseen = unseen_bytes_.fetch_add(size_bytes, std::memory_order_relaxed);
  if (unseen + size_bytes <= options_.max_bytes / kPart) return;
  const std::unique_lock lock(evict_mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;  // another thread is at it
  unseen_bytes_.store(0, std::memory_order_relaxed);
  evict();
}

/// Measures the folder; if it is too large removes the longest unused entries, a little more than
/// needed so that the next call is far away. Another process may do the same at the same time.
void CompileCache::evict() const {
  std::vector<StoredFile> entries;
  int64_t total_bytes = 0;
  const time_t now = std::time(nullptr);
  std::error_code error;
  std::filesystem::directory_iterator it(folder_, error);
  for (; !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    std::string path = it->path().string();
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    if (path.find(kTemporaryMark) != std::string::npos) {
      if (status.st_mtim.tv_sec < now - kTemporaryLifeSeconds) ::unlink(path.c_str());
      continue;
    }
    if (!path.ends_with(kEntrySuffix)) continue;
    total_bytes += status.st_size;
    entries.push_back({status.st_mtim, status.st_size, std::move(path)});
  }
  if (total_bytes <= options_.max_bytes) return;
  std::sort(entries.begin(), entries.end(), [](const StoredFile& a, const StoredFile& b) {
    if (a.used.tv_sec != b.used.tv_sec) return a.used.tv_sec < b.used.tv_sec;
    return a.used.tv_nsec != b.used.tv_nsec ? a.used.tv_nsec < b.used.tv_nsec : a.path < b.path;
  });
  const int64_t goal_bytes = options_.max_bytes - options_.max_bytes / 8;
  for (const StoredFile& entry : entries) {
    if (total_bytes <= goal_bytes) break;
    ::unlink(entry.path.c_str());
    total_bytes -= entry.size_bytes;
  }
}

CompileCacheOptions cache_options_from_settings() {
  CompileCacheOptions options;
  const int64_t max_mb = std::min(setting_int(Setting::kCacheMaxMb), int64_t{1} << 40);
  options.max_bytes = setting_bool(Setting::kCache) ? max_mb << 20 : 0;
  return options;
}

}  // namespace tenon
