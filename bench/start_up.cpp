// SPDX-License-Identifier: MIT

#include "bench/start_up.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "bench/compile_bench.h"
#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/base/timing.h"
#include "tenon/cli/console.h"

namespace tenon::bench {
namespace {

/// A folder that is removed with all in it.
class ScratchFolder {
 public:
  ScratchFolder() : path_(temporary_folder() + "/tenon-bench-XXXXXX") {
    TENON_CHECK(::mkdtemp(path_.data()) != nullptr, ErrorCode::kIo, "bench: making a folder in ",
                temporary_folder(), " failed: ", std::strerror(errno));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<std::string> environment_with_cache(const std::string& folder) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("TENON_CACHE")) environment.emplace_back(text);
  }
  environment.push_back("TENON_CACHE_DIR=" + folder);
  return environment;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Everything up to the end of the process's output; `result_ns` is when its first line was there.
std::string read_all(int file, int64_t& result_ns) {
  std::string text;
  char buffer[256];
  for (;;) {
    const ssize_t count = ::read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer, static_cast<size_t>(count));
    if (result_ns == 0 && text.find('\n') != std::string::npos) result_ns = now_ns();
  }
}

/// One process; its time in nanoseconds. `output` is what it printed.
double run_process(const std::string& device, const std::string& cache_folder,
                   std::string& output) {
  std::vector<std::string> words{"tenon", "bench", kFirstResultOption, "--device", device};
  std::vector<std::string> environment = environment_with_cache(cache_folder);
  int ends[2] = {-1, -1};
  TENON_CHECK(::pipe2(ends, O_CLOEXEC) == 0, ErrorCode::kIo,
              "bench: making a pipe failed: ", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  pid_t child = -1;
  const int64_t start_ns = now_ns();
  const int failure = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr,
                                    pointers_to(words).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  int64_t result_ns = 0;
  if (failure == 0) output = read_all(ends[0], result_ns);
  ::close(ends[0]);
  TENON_CHECK(failure == 0, ErrorCode::kIo,
              "bench: starting the own executable failed: ", std::strerror(failure));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  TENON_CHECK(status == 0 && output.ends_with(" (2,3,4)\n"), ErrorCode::kInternal,
              "bench: a process for the first result ended with status ", status, " and printed ",
              tenon::quoted(output), ", expected \"KERNELS (2,3,4)\"");
  return static_cast<double>(result_ns - start_ns);
}

}  // namespace

StartUps time_start_ups(const std::string& device, bool is_warm, int repeats) {
  const ScratchFolder warm_cache;
  std::string output;
  if (is_warm) run_process(device, warm_cache.path(), output);
  StartUps starts;
  for (int i = 0; i < repeats; ++i) {
    const ScratchFolder cold_cache;
    const std::string& folder = is_warm ? warm_cache.path() : cold_cache.path();
    starts.times_ns.push_back(run_process(device, folder, output));
  }
  const std::string_view text = output;
  starts.kernels = parse_int(text.substr(0, text.find(' '))).value_or(0);
  return starts;
}

void print_first_result(int64_t kernels, const std::vector<int32_t>& result) {
  cli::print(concat(kernels, " ", result, "\n"));
}

}  // namespace tenon::bench
