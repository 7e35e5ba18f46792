// SPDX-License-Identifier: MIT

#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"

namespace tenon::test {
namespace {

constexpr std::string_view kBorder = "----\n";

GoldenFile read_golden(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::stringstream text;
  text << stream.rdbuf();
  std::string rest = text.str();
  GoldenFile file{.path = path.string(), .name = path.stem().string()};
  while (rest.rfind("# ", 0) == 0) {
    const size_t end = rest.find('\n') + 1;
    file.head += rest.substr(0, end);
    rest.erase(0, end);
  }
  TENON_CHECK(!file.head.empty(), ErrorCode::kInvalidArgument, file.path, ": no `# action` line");
  file.action = file.head.substr(2, file.head.find_first_of(" :\n", 2) - 2);
  const size_t border = rest.find(kBorder);
  file.input = rest.substr(0, border);
  if (border != std::string::npos) file.expected = rest.substr(border + kBorder.size());
  return file;
}

}  // namespace

std::vector<GoldenFile> golden_files(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  const std::filesystem::path root =
      std::filesystem::path(TENON_SOURCE_DIR) / "tests" / "golden" / folder;
  for (const auto& entry : std::filesystem::directory_iterator(root)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  TENON_CHECK(!paths.empty(), ErrorCode::kNotFound, "no golden files in ", root.string());
  std::vector<GoldenFile> files;
  for (const auto& path : paths)
    files.push_back(read_golden(path));
  return files;
}

void check_golden(const std::string& folder,
                  const std::function<std::string(const GoldenFile&)>& transform) {
  const bool is_update = setting_bool(Setting::kUpdateGolden);
  for (const GoldenFile& file : golden_files(folder)) {
    const bool must_fail = file.name.rfind("fail_", 0) == 0;
    std::string got;
    bool has_failed = false;
    try {
      got = transform(file);
    } catch (const Error& error) {
      has_failed = true;
      got = std::string(error.what()) + "\n";
    }
    EXPECT_EQ(has_failed, must_fail) << file.path << "\n" << got;
    if (is_update) {
      std::ofstream(file.path) << file.head << file.input << kBorder << got;
    } else {
      EXPECT_EQ(got, file.expected) << file.path;
    }
  }
}

}  // namespace tenon::test
