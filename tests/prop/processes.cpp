// SPDX-License-Identifier: MIT

#include "tests/prop/processes.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <thread>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tests/support/temp_folder.h"

namespace tenon::prop {
namespace {

struct Ended {
  std::string output;
  int status = 0;  // as wait() gives it
};

/// Runs this program again. The words hold no quotes.
Ended run_again(const std::string& words) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command = concat("exec '", program, "' ", words, " 2>&1");
  FILE* const pipe = popen(command.c_str(), "r");  // NOLINT(cert-env33-c): our own words
  TENON_CHECK(pipe != nullptr, ErrorCode::kIo, "cannot start '", command, "'");
  Ended ended;
  std::array<char, 4096> part{};
  while (const size_t count = fread(part.data(), 1, part.size(), pipe))
    ended.output.append(part.data(), count);
  ended.status = pclose(pipe);
  return ended;
}

std::string common_words(const std::string& device, const RunOptions& options) {
  return concat("--device ", device, " --second ", options.second, " --count ", options.count,
                " --first ", options.first_seed);
}

// The last line that starts with the word; else all of the text.
std::string last_line(const std::string& text, std::string_view word) {
  std::string found = text;
  for (const std::string_view line : split(text, '\n')) {
    if (line.starts_with(word)) found = line;
  }
  return found;
}

}  // namespace

bool hunt_in_processes(const std::vector<PlantedFaultInfo>& faults, const std::string& device,
                       const RunOptions& options) {
  std::vector<std::string> lines(faults.size());
  std::atomic<size_t> next = 0;
  std::atomic<int> survivors = 0;
  std::atomic<int> crashes = 0;
  std::atomic<int> wrong_values = 0;
  const auto work = [&] {
    for (size_t i = next++; i < faults.size(); i = next++) {
      const Ended ended =
          run_again(concat("--fault ", faults[i].name, " ", common_words(device, options)));
      const bool is_crash = !WIFEXITED(ended.status);
      const bool is_found = is_crash || WEXITSTATUS(ended.status) == 0;
      if (!is_found) ++survivors;
      if (is_crash) ++crashes;
      const std::string end = is_crash ? concat("found by a crash (signal ", WTERMSIG(ended.status),
                                                ") while ", last_line(ended.output, "running"))
                                       : last_line(ended.output, is_found ? "found" : "survived");
      if (end.starts_with("found by a wrong value")) ++wrong_values;
      const std::string line = concat(faults[i].area, " ", faults[i].name, ": ", end, "\n");
      std::cout << line << std::flush;
    }
  };
  const size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(cores, faults.size()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread& thread : threads)
    thread.join();
  const int found = static_cast<int>(faults.size()) - survivors;
  std::cout << concat(device, ": planted ", faults.size(), " faults, found ", found, " within ",
                      options.count, " graphs: ", wrong_values.load(), " by a wrong value, ",
                      crashes.load(), " by a crash, ", found - wrong_values - crashes,
                      " by an error\n");
  return survivors == 0;
}

bool have_processes_same_text(const std::string& device, const RunOptions& options) {
  const testing::TempFolder folder;
  std::array<std::string, 2> texts;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string path = folder / concat("dump", i);
    const Ended ended = run_again(concat("--dump ", path, " ", common_words(device, options)));
    if (ended.status != 0) {
      std::cout << "the dump failed: " << ended.output;
      return false;
    }
    texts[i] = read_file(path);
  }
  const auto at = std::ranges::mismatch(texts[0], texts[1]);
  const auto offset = static_cast<size_t>(at.in1 - texts[0].begin());
  std::cout << concat("two processes wrote ", texts[0].size(), " and ", texts[1].size(),
                      " bytes of text for ", options.count, " graphs on ", device, "\n");
  if (texts[0] == texts[1]) return true;
  const size_t begin = offset < 200 ? 0 : offset - 200;
  std::cout << concat("they differ at byte ", offset, ":\n", texts[0].substr(begin, 400),
                      "\n----\n", texts[1].substr(begin, 400), "\n");
  return false;
}

}  // namespace tenon::prop
