// Child processes: this executable once more with --probe, and a plain fork.
// SPDX-License-Identifier: MIT

#include "tests/cases/child_process.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/tensor/creation.h"
#include "tests/support/temp_folder.h"

namespace tenon::cases {
namespace {

namespace fs = std::filesystem;

struct ChildOutput {
  int status = 0;
  std::string text;    ///< standard output
  std::string errors;  ///< standard error
};

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

ChildOutput run_child(const std::string& cache_folder, const std::string& device) {
  const testing::TempFolder folder;
  const std::string executable = fs::read_symlink("/proc/self/exe").string();
  const std::string command =
      concat("TENON_CACHE_DIR='", cache_folder, "' '", executable, "' --probe ",
             device.empty() ? "" : concat("--device '", device, "' "), "> '", folder / "out",
             "' 2> '", folder / "err", "'");
  const int status = ::system(command.c_str());
  return {.status = status, .text = read_text(folder / "out"), .errors = read_text(folder / "err")};
}

std::string find_fault(const ChildOutput& got, const ChildOutput& want, const std::string& when) {
  if (got.status != 0) return concat(when, ": the process failed: ", got.errors);
  return got.text == want.text && !got.text.empty() ? "" : concat(when, ": other bits");
}

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

void break_entry(const fs::path& path, int kind) {
  const auto size = static_cast<int64_t>(fs::file_size(path));
  if (kind == 0) fs::resize_file(path, static_cast<uintmax_t>(size / 2));
  if (kind == 1) fs::resize_file(path, 0);
  if (kind == 2) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    for (int64_t at = size / 3; at < size; at += 97) {
      file.seekp(at);
      file.put('\x5a');
    }
  }
  if (kind == 3) std::ofstream(path, std::ios::trunc) << "no program at all";
}

}  // namespace

std::string check_cold_and_warm_cache(const std::string& device) {
  const testing::TempFolder folder;
  const ChildOutput cold = run_child(folder / "cache", device);
  if (!fs::exists(folder / "cache") || entries_of(folder / "cache").empty()) {
    return concat("the cache holds nothing after a run: ", cold.errors);
  }
  const ChildOutput warm = run_child(folder / "cache", device);
  const std::string fault = find_fault(cold, cold, "cold");
  return fault.empty() ? find_fault(warm, cold, "warm") : fault;
}

std::string check_broken_cache(const std::string& device) {
  const testing::TempFolder folder;
  const ChildOutput want = run_child(folder / "cache", device);
  for (int kind = 0; kind < 4; ++kind) {
    const std::vector<fs::path> entries = entries_of(folder / "cache");
    if (entries.empty()) return "the cache holds nothing";
    for (const fs::path& path : entries)
      break_entry(path, kind);
    for (const char* when : {"broken", "after that"}) {
      const std::string fault = find_fault(run_child(folder / "cache", device), want,
                                           concat("entries broken in way ", kind, ", ", when));
      if (!fault.empty()) return fault;
    }
  }
  return "";
}

std::string check_unusable_cache(const std::string& device) {
  const testing::TempFolder folder;
  const ChildOutput want = run_child(folder / "cache", device);
  std::ofstream(folder / "file") << "a file where a folder is wanted";
  for (const std::string& path : {folder / "file", folder / "file/below", std::string("/proc/none"),
                                  std::string("/dev/null/x")}) {
    const ChildOutput got = run_child(path, device);
    const std::string fault = find_fault(got, want, concat("cache folder ", path));
    if (!fault.empty()) return fault;
    const bool is_one_line = std::count(got.errors.begin(), got.errors.end(), '\n') == 1;
    if (!is_one_line || got.errors.find(path) == std::string::npos) {
      return concat("cache folder ", path, ": no single warning that names it: ", got.errors);
    }
  }
  return "";
}

std::string check_fork() {
  const Tensor x = Tensor::from_data(std::vector<int64_t>(100000, 3), {100000});
  if ((x * 2).sum().item<int64_t>() != 600000) return "wrong before the fork";
  const pid_t child = ::fork();
  if (child < 0) return "fork failed";
  if (child == 0) {
    int status = 1;
    try {
      status = (x * 5).sum().item<int64_t>() == 1500000 ? 0 : 1;
    } catch (const Error& error) {  // that it names the fork is an answer too
      status = error.code() == ErrorCode::kDeviceFailed &&
                       std::string_view(error.what()).find("fork") != std::string_view::npos
                   ? 0
                   : 3;
    } catch (...) {
      status = 2;
    }
    ::_exit(status);
  }
  for (int tenths = 0; tenths < 100; ++tenths) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) && WEXITSTATUS(status) == 0
                 ? ""
                 : concat("the child ended with wait status ", status);
    }
    const timespec tenth{.tv_sec = 0, .tv_nsec = 100'000'000};
    ::nanosleep(&tenth, nullptr);
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return "the child hangs";
}

}  // namespace tenon::cases
