// SPDX-License-Identifier: MIT

#include "tenon/cli/console.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tenon/base/error.h"
#include "tenon/base/text.h"

namespace tenon::cli {

void print(std::string_view text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  TENON_CHECK(is_written && std::fflush(stdout) == 0, ErrorCode::kIo,
              "writing to standard output failed: ", std::strerror(errno));
}

void print_note(std::string_view text) {
  // One call, so that lines of several threads do not mix. Nothing can be done if it fails.
  const std::string line = concat("tenon: ", text, text.ends_with('\n') ? "" : "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

std::string shown_name(std::string_view name) {
  const bool is_printable =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; });
  return is_printable ? std::string(name) : quoted(name);
}

std::string format_time(int64_t time_ns) {
  const double ns = static_cast<double>(time_ns);
  if (time_ns < 1'000'000) return fmt::format("{:.1f} us", ns / 1e3);
  if (time_ns < 1'000'000'000) return fmt::format("{:.2f} ms", ns / 1e6);
  return fmt::format("{:.2f} s", ns / 1e9);
}

std::string Table::text(size_t indent) const {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t column = 0; column + 1 < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line(indent, ' ');
    for (size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      if (column + 1 < row.size()) line.append(widths[column] + 2 - row[column].size(), ' ');
    }
    while (line.ends_with(' '))
      line.pop_back();
    append(text, line, "\n");
  }
  return text;
}

}  // namespace tenon::cli
