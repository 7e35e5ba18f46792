// Files: caps, atomic writes under contention, maps, errors with path and system text.
// SPDX-License-Identifier: MIT
#include "tenon/base/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/base/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tenon {
namespace {

using testing::TempFolder;

size_t count_entries(const std::string& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++count;
  }
  return count;
}

TEST(File, ReadsBackWhatWasWritten) {
  const TempFolder folder;
  std::string bytes(100'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(i * 31 % 251);
  }
  write_file_atomic(folder / "a", bytes);
  EXPECT_EQ(read_file(folder / "a"), bytes);
  write_file_atomic(folder / "a", "");
  EXPECT_EQ(read_file(folder / "a"), "");
  EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(File, ReadsFilesWhoseSizeIsNotKnown) {
  EXPECT_NE(read_file("/proc/self/status").find("Name:"), std::string::npos);
}

TEST(File, CapIsInclusive) {
  const TempFolder folder;
  write_file_atomic(folder / "a", "12345");
  EXPECT_EQ(read_file(folder / "a", 5), "12345");
  EXPECT_ERROR(read_file(folder / "a", 4), ErrorCode::kInvalidArgument, folder / "a", "5 bytes",
               "at most 4");
  EXPECT_ERROR(read_file("/dev/zero", 10'000), ErrorCode::kInvalidArgument, "/dev/zero",
               "at most 10000");
}

TEST(File, ErrorsNameThePathAndTheReason) {
  const TempFolder folder;
  EXPECT_ERROR(read_file(folder / "none"), ErrorCode::kNotFound, folder / "none",
               "No such file or directory");
  EXPECT_ERROR(read_file(folder.path()), ErrorCode::kIo, folder.path(), "Is a directory");
  EXPECT_ERROR(write_file_atomic(folder / "no/file", "x"), ErrorCode::kNotFound, "no/file",
               "No such file or directory");
  EXPECT_ERROR(OpenFile::existing(folder / "none"), ErrorCode::kNotFound, folder / "none",
               "opening");
  EXPECT_ERROR(OpenFile::existing(folder.path()), ErrorCode::kIo, folder.path(), "regular file");
}

TEST(File, AFileSizeLimitIsAnErrorNotASignal) {
  const TempFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(9);
    write_file_atomic(folder / "a", std::string(4096, 'a'));
    try {
      write_file_atomic(folder / "b", std::string(4097, 'b'));  // SIGXFSZ would end the process
    } catch (const Error& error) {
      _exit(std::string_view(error.what()).find("File too large") == std::string_view::npos);
    }
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(File, FailedWriteLeavesNoRest) {
  const TempFolder folder;
  create_folders(folder / "taken/below");
  EXPECT_ERROR(write_file_atomic(folder / "taken", "x"), ErrorCode::kIo, folder / "taken",
               "writing");
  EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(File, WritersInThreadsNeverShowAPart) {
  const TempFolder folder;
  const std::string path = folder / "shared";
  write_file_atomic(path, std::string(50'000, 'a'));
  std::atomic<bool> is_torn = false;
  std::vector<std::jthread> threads;
  for (const char letter : {'a', 'b', 'c'}) {
    threads.emplace_back([&path, letter] {
      for (int i = 0; i < 50; ++i) {
        write_file_atomic(path, std::string(50'000, letter));
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 200; ++i) {
      const std::string seen = read_file(path);
      if (seen != std::string(50'000, seen.empty() ? 'x' : seen[0])) is_torn = true;
    }
  });
  threads.clear();
  EXPECT_FALSE(is_torn);
  EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(File, CreateFolders) {
  const TempFolder folder;
  create_folders(folder / "a/b/c");
  create_folders(folder / "a/b/c");
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
  write_file_atomic(folder / "file", "x");
  EXPECT_ERROR(create_folders(folder / "file/below"), ErrorCode::kIo, "file/below");
}

TEST(File, FindProgramWantsAFileThatMayRun) {
  EXPECT_TRUE(find_program("sh").has_value());
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_EQ(find_program("no-such-program-here"), std::nullopt);
  EXPECT_EQ(find_program("/tmp"), std::nullopt);
  const TempFolder folder;
  write_file_atomic(folder / "tool", "#!/bin/sh\n");
  EXPECT_EQ(find_program(folder / "tool"), std::nullopt);
  ASSERT_EQ(::chmod((folder / "tool").c_str(), 0755), 0);
  EXPECT_EQ(find_program(folder / "tool"), folder / "tool");
}

std::string read_from(const OpenFile& file, uint64_t offset, size_t size) {
  std::string text(size, '?');
  file.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST(OpenFile, ReadsAtOffsetsAndMoves) {
  const TempFolder folder;
  write_file_atomic(folder / "a", "first");
  OpenFile a = OpenFile::existing(folder / "a");
  EXPECT_EQ(a.size_bytes(), 5u);
  EXPECT_EQ(read_from(a, 1, 3), "irs");
  const OpenFile moved = std::move(a);
  EXPECT_EQ(read_from(moved, 5, 0), "");
  EXPECT_ERROR(read_from(moved, 3, 3), ErrorCode::kIo, folder / "a", "3 to 6", "ends at 5");
  EXPECT_ERROR(read_from(moved, 100, 1), ErrorCode::kIo, "ends at 100");
}

TEST(OpenFile, SurvivesReplacementAndNotesChanges) {
  const TempFolder folder;
  write_file_atomic(folder / "a", "old");
  const OpenFile file = OpenFile::existing(folder / "a");
  write_file_atomic(folder / "a", "new and longer");
  EXPECT_EQ(read_from(file, 0, 3), "old");
  const OpenFile changed = OpenFile::existing(folder / "a");
  std::filesystem::resize_file(folder / "a", 2);
  EXPECT_ERROR(read_from(changed, 0, 1), ErrorCode::kIo, "it had 14 bytes, now it has 2");
}

TEST(OpenFile, ANewOneAppearsWhenItIsPublished) {
  const TempFolder folder;
  write_file_atomic(folder / "a", "old");
  {
    OpenFile file = OpenFile::create(folder / "a");
    file.write_at(3, bytes_of("def"));
    file.write_at(0, bytes_of("abc"));
    EXPECT_EQ(read_from(file, 0, 6), "abcdef");
    EXPECT_EQ(read_file(folder / "a"), "old");
    file.publish();
    EXPECT_EQ(read_file(folder / "a"), "abcdef");
    EXPECT_EQ(read_from(file, 2, 2), "cd");
  }
  {
    OpenFile file = OpenFile::create(folder / "b");
    file.write_at(0, bytes_of("x"));
  }
  EXPECT_EQ(count_entries(folder.path()), 1u);
}

TEST(OpenFile, AFileSizeLimitIsAnErrorNotASignal) {
  const TempFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(9);
    try {
      OpenFile file = OpenFile::create(folder / "a");
      file.write_at(4090, bytes_of("1234567"));
    } catch (const Error& error) {
      _exit(std::string_view(error.what()).find("File too large") == std::string_view::npos);
    }
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(count_entries(folder.path()), 0u);
}

}  // namespace
}  // namespace tenon
