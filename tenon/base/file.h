// Files: whole reads with a size cap, writes that appear at once or not at all, read-only maps.
// Used by the compile cache, io/ and the CLI. Errors name the path and the system's words.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

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

/// The bytes of a file, mapped for reading; pages are read when they are touched. The file must
/// not shrink while it is mapped (the system would raise SIGBUS): replace files by rename, as
/// write_file_atomic does. An empty file is an empty map.
class MappedFile {
 public:
  /// Throws kNotFound if there is no such file and kIo if it is none that can be mapped.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  /// Valid until this object is destroyed or moved from.
  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  std::string_view text() const;
  size_t size_bytes() const { return size_bytes_; }

 private:
  void unmap() noexcept;
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

}  // namespace tenon
