// SPDX-License-Identifier: MIT

#include "tests/cli/run_tenon.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/io/npy.h"

namespace tenon::testing {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(std::map<std::string, std::string> variables) {
  static const TempFolder cache;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    if (equals == std::string_view::npos || name == "DEV" || name == "TENON_DEBUG") continue;
    variables.emplace(name, text.substr(equals + 1));
  }
  variables.emplace("TENON_CACHE_DIR", cache.path());
  variables.emplace("TENON_GUARD", "1");
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables)
    environment.push_back(concat(name, "=", value));
  return environment;
}

}  // namespace

TenonResult run_tenon(const std::vector<std::string>& arguments,
                      const std::map<std::string, std::string>& variables) {
  const TempFolder folder;
  std::vector<std::string> words{TENON_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment = environment_with(variables);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string out = folder / "out";
  const std::string err = folder / "err";
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT, 0600);
  pid_t child = -1;
  const int failure = posix_spawn(&child, TENON_PROGRAM, &actions, nullptr,
                                  pointers_to(words).data(), pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failure, 0) << TENON_PROGRAM << ": " << std::strerror(failure);
  if (failure != 0) return {-1, "", ""};
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
          .out = read_file(out),
          .err = read_file(err)};
}

std::vector<std::byte> npy_bytes(const std::string& path, DType dtype, const Shape& shape) {
  const NpyFile file(path);
  const ArrayView view = file.view();
  EXPECT_EQ(dtype_name(view.dtype), dtype_name(dtype)) << path;
  EXPECT_EQ(view.shape, shape) << path;
  return {view.bytes.begin(), view.bytes.end()};
}

}  // namespace tenon::testing
