// Files: whole reads with a size cap, writes that appear at once or not at all, reads at offsets.
// Used by the compile cache, io/, DISK and the CLI. Errors name the path and the system's words.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tenon {

/// Largest file that read_file takes if the caller names no cap.
inline constexpr uint64_t kMaxReadBytes = uint64_t{1} << 30;

/// The bytes of a file. Throws kNotFound if there is none, kIo if it cannot be read, and
/// kInvalidArgument if it has more than `max_bytes` (pipes and /proc files count too).
std::string read_file(const std::string& path, uint64_t max_bytes = kMaxReadBytes);

/// Writes a file beside `path` and renames it, so readers and other writers, in any process, see
/// the old bytes or the new, never a part. Not synced: after a power cut either may be there,
/// or an empty file. Throws kNotFound if the folder does not exist, else kIo; leaves no rest.
void write_file_atomic(const std::string& path, std::string_view bytes);

/// Makes a folder and those above it; nothing to do if it is there. Throws kIo.
void create_folders(const std::string& path);

/// The first program of that name in PATH that may be run; a name with a slash is only checked.
std::optional<std::string> find_program(const std::string& name);

/// A regular file that stays open, for reads at offsets from any thread. Nothing is mapped: bytes
/// that are gone by the time they are read are an error, where a map would raise SIGBUS.
class OpenFile {
 public:
  /// One that is there, for reading. Throws kNotFound, or kIo if it cannot be read or is not a
  /// regular file (a pipe is not waited for).
  static OpenFile existing(const std::string& path);
  /// A new one, for writing too. It lies beside `path` until publish(), and goes away without.
  /// Throws kNotFound if the folder does not exist, else kIo.
  static OpenFile create(const std::string& path);
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;

  const std::string& path() const { return path_; }
  /// When it was opened or published.
  uint64_t size_bytes() const { return size_bytes_; }
  /// Throws kIo if the file ends before, or was changed since it was opened or published.
  void read_at(uint64_t offset, std::span<std::byte> bytes) const;
  /// Of a new one, before publish(). Throws kIo.
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  /// Puts it in the place of what is at `path`, which stays whole for those who have it open.
  void publish();

 private:
  OpenFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}
  /// Notes size and time of change.
  void note_state();

  std::string path_;
  std::string temporary_;  ///< where a new one lies before publish()
  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  int64_t changed_ns_ = 0;
};

}  // namespace tenon
