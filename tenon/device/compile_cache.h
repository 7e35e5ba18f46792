// The compile cache on disk: bytes found by the hash of everything that decides them. Used by
// compilers and by the engine, from any number of threads and processes at once.
// Invariant: `get` returns exactly what some `put` of that key was given, or nothing.
// SPDX-License-Identifier: MIT

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct CompileCacheOptions {
  int64_t max_bytes = int64_t{1} << 30;  ///< of all entries; 0 switches the cache off
  /// Called at most once per cache, from the thread that found that entries cannot be written.
  std::function<void(const std::string&)> on_warning = {};
};

/// One folder of entries. It is made by the first `put`. A folder that cannot be used, a full
/// disk or a damaged entry is never an error: the entry is missing and gets compiled again.
class CompileCache {
 public:
  explicit CompileCache(std::string folder, CompileCacheOptions options = {});
  CompileCache(const CompileCache&) = delete;
  CompileCache& operator=(const CompileCache&) = delete;

  /// `key`: 8 to 128 lower-case hexadecimal digits, the hash of source, compiler fingerprint,
  /// Target and version. Throws kInvalidArgument for any other key, and nothing else.
  std::optional<std::vector<std::byte>> get(std::string_view key) const;

  /// Stores `bytes` (which replace an entry of that key) and now and then removes the entries
  /// that were not used for longest, so that the folder stays within max_bytes, give or take a
  /// sixteenth for each process that is writing. Throws as `get` does.
  void put(std::string_view key, std::span<const std::byte> bytes);

  const std::string& folder() const { return folder_; }

 private:
  std::string entry_path(std::string_view key) const;
  void write_entry(const std::string& path, std::string_view bytes);
  void warn(const std::string& cause);
  void note_written(int64_t size_bytes);
  void evict() const;

  const std::string folder_;
  const CompileCacheOptions options_;
  std::atomic<bool> is_usable_ = true;   // false: the folder cannot be made or written
  std::atomic<bool> is_warned_ = false;  // on_warning has been called
  std::mutex evict_mutex_;
  std::atomic<int64_t> unseen_bytes_;  // written since the folder was last measured
};

/// Options from the settings TENON_CACHE and TENON_CACHE_MAX_MB.
CompileCacheOptions cache_options_from_settings();

}  // namespace tenon
