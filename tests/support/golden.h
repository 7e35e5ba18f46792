// Golden files: what a pass makes of an input, as text. A file is a head of `# ` comment lines (the
// first word of the first one is the name of what runs), then the input, a line `----`, the
// expected output. Names that begin with fail_ must fail with the text given. TENON_UPDATE_GOLDEN=1
// writes the outputs anew. SPDX-License-Identifier: MIT

#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tenon::test {

struct GoldenFile {
  std::string path;
  std::string name;    ///< without folder and extension
  std::string action;  ///< first word of the first comment line
  std::string head;    ///< the comment lines
  std::string input;
  std::string expected;
};

/// All files of tests/golden/<folder>, by name. Throws if there is none.
std::vector<GoldenFile> golden_files(const std::string& folder);

/// Runs `transform` on every file and compares; an Error's text is the output of fail_ files.
void check_golden(const std::string& folder,
                  const std::function<std::string(const GoldenFile&)>& transform);

}  // namespace tenon::test
