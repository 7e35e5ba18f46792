// The compile cache: what comes back is what went in or nothing, in every mishap.
// SPDX-License-Identifier: MIT

#include "tenon/device/compile_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tenon/base/file.h"
#include "tenon/base/hash.h"
#include "tenon/base/settings.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tenon {
namespace {

using tenon::testing::TempFolder;

std::string key_of(int number) {
  return to_string(Hasher().add(number).hash());
}

/// Bytes that depend on `number` in every place.
std::vector<std::byte> payload_of(int number, size_t size) {
  std::vector<std::byte> bytes(size);
  uint64_t state = static_cast<uint64_t>(number) + 1;
  for (std::byte& byte : bytes) {
    state = hash_combine(state, 7);
    byte = static_cast<std::byte>(state);
  }
  return bytes;
}

int64_t folder_bytes(const std::string& folder) {
  int64_t total = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    total += static_cast<int64_t>(file.file_size());
  }
  return total;
}

size_t num_files(const std::string& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                           std::filesystem::directory_iterator()));
}

TEST(CompileCache, GivesBackWhatWasPut) {
  const TempFolder folder;
  CompileCache cache(folder / "a/b");
  EXPECT_EQ(cache.get(key_of(1)), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(folder / "a"));
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{300'000}}) {
    const int number = static_cast<int>(size);
    cache.put(key_of(number), payload_of(number, size));
    EXPECT_EQ(cache.get(key_of(number)), payload_of(number, size)) << size;
  }
  CompileCache other(folder / "a/b");
  EXPECT_EQ(other.get(key_of(1000)), payload_of(1000, 1000));
  EXPECT_EQ(other.get(key_of(999)), std::nullopt);
  other.put(key_of(1000), payload_of(5, 10));
  EXPECT_EQ(cache.get(key_of(1000)), payload_of(5, 10));
  EXPECT_EQ(num_files(folder / "a/b"), 4u);
}

TEST(CompileCache, KeysAreHexadecimal) {
  const TempFolder folder;
  CompileCache cache(folder.path());
  for (const std::string& key : {std::string(), std::string("1234567"), std::string("../../etc/x"),
                                 std::string("ABCDEF0123"), std::string(129, 'a')}) {
    EXPECT_ERROR(cache.get(key), ErrorCode::kInvalidArgument, "key", "hexadecimal");
    EXPECT_ERROR(cache.put(key, {}), ErrorCode::kInvalidArgument, "key", "hexadecimal");
  }
}

TEST(CompileCache, EveryDamagedByteIsAMissAndIsRepaired) {
  const TempFolder folder;
  CompileCache cache(folder.path());
  const std::vector<std::byte> payload = payload_of(1, 50);
  cache.put(key_of(1), payload);
  const std::string path = folder / (key_of(1) + ".entry");
  const std::string good = read_file(path);
  for (size_t index = 0; index < good.size(); ++index) {
    std::string damaged = good;
    damaged[index] = static_cast<char>(damaged[index] ^ 0x10);
    write_file_atomic(path, damaged);
    EXPECT_EQ(cache.get(key_of(1)), std::nullopt) << index;
  }
  cache.put(key_of(1), payload);
  EXPECT_EQ(cache.get(key_of(1)), payload);
}

TEST(CompileCache, EveryOtherLengthIsAMiss) {
  const TempFolder folder;
  CompileCache cache(folder.path());
  cache.put(key_of(1), payload_of(1, 50));
  const std::string path = folder / (key_of(1) + ".entry");
  const std::string good = read_file(path);
  for (size_t size = 0; size < good.size(); ++size) {
    write_file_atomic(path, good.substr(0, size));
    EXPECT_EQ(cache.get(key_of(1)), std::nullopt) << size;
  }
  write_file_atomic(path, good + "x");
  EXPECT_EQ(cache.get(key_of(1)), std::nullopt);
}

TEST(CompileCache, AnEntryUnderAnotherKeyIsAMiss) {
  const TempFolder folder;
  CompileCache cache(folder.path());
  cache.put(key_of(1), payload_of(1, 50));
  std::filesystem::rename(folder / (key_of(1) + ".entry"), folder / (key_of(2) + ".entry"));
  EXPECT_EQ(cache.get(key_of(2)), std::nullopt);
}

TEST(CompileCache, ThingsThatAreNoFilesAreMisses) {
  const TempFolder folder;
  CompileCache cache(folder.path());
  std::filesystem::create_directory(folder / (key_of(1) + ".entry"));
  EXPECT_EQ(cache.get(key_of(1)), std::nullopt);
  ASSERT_EQ(mkfifo((folder / (key_of(2) + ".entry")).c_str(), 0600), 0);
  EXPECT_EQ(cache.get(key_of(2)), std::nullopt);
}

TEST(CompileCache, SizeStaysBoundedAndTheOldestGo) {
  const TempFolder folder;
  constexpr int64_t kMax = 100'000;
  CompileCache cache(folder.path(), {.max_bytes = kMax, .on_warning = {}});
  constexpr int kEntries = 100;
  for (int number = 0; number < kEntries; ++number) {
    cache.put(key_of(number), payload_of(number, 5000));
    EXPECT_LE(folder_bytes(folder.path()), kMax + kMax / 16 + 5040) << number;
    // One entry stays old on disk but is marked as used: it must survive.
    const std::string first = folder / (key_of(0) + ".entry");
    ASSERT_EQ(utimensat(AT_FDCWD, first.c_str(), nullptr, 0), 0) << number;
  }
  EXPECT_NE(cache.get(key_of(0)), std::nullopt);
  EXPECT_EQ(cache.get(key_of(1)), std::nullopt);
  EXPECT_NE(cache.get(key_of(kEntries - 1)), std::nullopt);
  EXPECT_GT(folder_bytes(folder.path()), kMax / 2);
}

TEST(CompileCache, UsingAnOldEntryMarksItAsUsed) {
  const TempFolder folder;
  CompileCache cache(folder.path());
  cache.put(key_of(1), payload_of(1, 50));
  const std::string path = folder / (key_of(1) + ".entry");
  const timespec times[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_NE(cache.get(key_of(1)), std::nullopt);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_GT(status.st_mtim.tv_sec, 1'000'000);
}

TEST(CompileCache, EntriesLargerThanTheCacheAreNotKept) {
  const TempFolder folder;
  CompileCache cache(folder.path(), {.max_bytes = 1000, .on_warning = {}});
  cache.put(key_of(1), payload_of(1, 100));
  cache.put(key_of(2), payload_of(2, 1000));
  EXPECT_EQ(cache.get(key_of(2)), std::nullopt);
  EXPECT_NE(cache.get(key_of(1)), std::nullopt);
}

TEST(CompileCache, RestsOfDeadWritersAreRemoved) {
  const TempFolder folder;
  const std::string old_rest = folder / (key_of(9) + ".entry.tmp.1.2.3");
  const std::string new_rest = folder / (key_of(9) + ".entry.tmp.1.2.4");
  std::ofstream(old_rest) << "half";
  std::ofstream(new_rest) << "half";
  const timespec times[2] = {{.tv_sec = 1000, .tv_nsec = 0}, {.tv_sec = 1000, .tv_nsec = 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, old_rest.c_str(), times, 0), 0);
  CompileCache(folder.path()).put(key_of(1), payload_of(1, 10));
  EXPECT_FALSE(std::filesystem::exists(old_rest));
  EXPECT_TRUE(std::filesystem::exists(new_rest));
}

TEST(CompileCache, ZeroSizeSwitchesItOff) {
  const TempFolder folder;
  CompileCache cache(folder / "off", {.max_bytes = 0, .on_warning = {}});
  cache.put(key_of(1), payload_of(1, 10));
  EXPECT_EQ(cache.get(key_of(1)), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(folder / "off"));
}

TEST(CompileCache, OptionsComeFromTheSettings) {
  const ScopedSetting size(Setting::kCacheMaxMb, "3");
  {
    const ScopedSetting on(Setting::kCache, "1");
    EXPECT_EQ(cache_options_from_settings().max_bytes, 3 * 1024 * 1024);
  }
  const ScopedSetting off(Setting::kCache, "0");
  EXPECT_EQ(cache_options_from_settings().max_bytes, 0);
}

TEST(CompileCache, AFolderUnderAFileWarnsOnceAndWorksWithout) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  std::vector<std::string> warnings;
  CompileCache cache(folder / "file/cache", {.max_bytes = 1000, .on_warning = [&](auto& text) {
                                               warnings.push_back(text);
                                             }});
  for (int number = 0; number < 3; ++number) {
    cache.put(key_of(number), payload_of(number, 10));
    EXPECT_EQ(cache.get(key_of(number)), std::nullopt);
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("file/cache"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("TENON_CACHE_DIR"), std::string::npos) << warnings[0];
}

TEST(CompileCache, AReadOnlyFolderIsReadAndWarnsOnce) {
  const TempFolder folder;
  CompileCache(folder / "ro").put(key_of(1), payload_of(1, 10));
  const pid_t child = fork();
  if (child == 0) {
    // Root may write anywhere: become somebody else, in the child only.
    chmod(folder.path().c_str(), 0755);
    chmod((folder / "ro").c_str(), 0555);
    chmod((folder / ("ro/" + key_of(1) + ".entry")).c_str(), 0444);
    if (getuid() == 0 && setuid(65534) != 0) _exit(9);
    int num_warnings = 0;
    CompileCache cache(folder / "ro",
                       {.max_bytes = 10'000, .on_warning = [&](auto&) { ++num_warnings; }});
    cache.put(key_of(2), payload_of(2, 10));
    cache.put(key_of(3), payload_of(3, 10));
    const bool is_right = num_warnings == 1 && cache.get(key_of(1)) == payload_of(1, 10) &&
                          cache.get(key_of(2)) == std::nullopt;
    _exit(is_right ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(CompileCache, AFileSizeLimitNeitherKillsNorLeavesRests) {
  const TempFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(9);
    std::string warning;
    int num_warnings = 0;
    CompileCache cache(folder / "c", {.max_bytes = 1'000'000, .on_warning = [&](auto& text) {
                                        ++num_warnings;
                                        warning = text;
                                      }});
    cache.put(key_of(1), payload_of(1, 100));
    cache.put(key_of(2), payload_of(2, 100'000));  // SIGXFSZ would end the process here
    cache.put(key_of(3), payload_of(3, 100'000));
    cache.put(key_of(4), payload_of(4, 200));  // small ones still fit
    sigset_t pending;
    sigset_t mask;
    sigpending(&pending);
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    if (sigismember(&pending, SIGXFSZ) != 0 || sigismember(&mask, SIGXFSZ) != 0) _exit(2);
    if (num_warnings != 1 || warning.find("File too large") == std::string::npos) _exit(3);
    if (cache.get(key_of(1)) != payload_of(1, 100) || cache.get(key_of(2)) != std::nullopt) {
      _exit(4);
    }
    _exit(cache.get(key_of(4)) == payload_of(4, 200) ? 0 : 5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(num_files(folder / "c"), 2u);
}

TEST(CompileCache, AFolderRemovedMeanwhileIsMadeAgain) {
  const TempFolder folder;
  CompileCache cache(folder / "c");
  cache.put(key_of(1), payload_of(1, 10));
  std::filesystem::remove_all(folder / "c");
  cache.put(key_of(2), payload_of(2, 10));
  EXPECT_EQ(cache.get(key_of(2)), payload_of(2, 10));
}

/// Puts and gets the same few keys again and again, with a size that forces evictions.
bool hammer(const std::string& folder, int writer) {
  CompileCache cache(folder, {.max_bytes = 60'000, .on_warning = [](auto&) { _exit(7); }});
  bool is_right = true;
  for (int round = 0; round < 150; ++round) {
    const int number = (round * 5 + writer * 3) % 20;
    const auto found = cache.get(key_of(number));
    if (found && *found != payload_of(number, 3000 + static_cast<size_t>(number))) is_right = false;
    if (!found || round % 4 == 0) {
      cache.put(key_of(number), payload_of(number, 3000 + static_cast<size_t>(number)));
    }
  }
  return is_right;
}

TEST(CompileCache, EightProcessesAtOnce) {
  const TempFolder folder;
  std::vector<pid_t> children;
  for (int writer = 0; writer < 8; ++writer) {
    const pid_t child = fork();
    if (child == 0) _exit(hammer(folder / "c", writer) ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const auto& file : std::filesystem::directory_iterator(folder / "c")) {
    EXPECT_EQ(file.path().extension(), ".entry") << file.path();
  }
  EXPECT_LE(folder_bytes(folder / "c"), 60'000 + 8 * (60'000 / 16 + 3100));
}

TEST(CompileCache, SeveralThreadsOnOneCache) {
  const TempFolder folder;
  CompileCache cache(folder.path(), {.max_bytes = 60'000, .on_warning = {}});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < 4; ++writer) {
    threads.emplace_back([&, writer] {
      for (int round = 0; round < 100; ++round) {
        const int number = (round * 5 + writer) % 20;
        cache.put(key_of(number), payload_of(number, 3000));
        const auto found = cache.get(key_of(number));
        if (found && *found != payload_of(number, 3000)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tenon
