// What all commands share: printing, wrong usage as an exception, numbers for people to read.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon::cli {

/// The command line itself is wrong: main prints the text and exits with 2. Not an Error, since no
/// library call failed.
class WrongUsage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// To standard output, at once. Throws kIo if it cannot be written.
void print(std::string_view text);
/// "tenon: TEXT" and a line end, to standard error.
void print_note(std::string_view text);

/// A name from a file as it may be printed: quoted if it holds anything but printable ASCII.
std::string shown_name(std::string_view name);

/// "18.2 us", "1.53 ms", "2.10 s".
std::string format_time(int64_t time_ns);

/// Cells in columns, two spaces between them; the last column is not padded.
class Table {
 public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  /// Each line starts with `indent` spaces and ends with a line end.
  std::string text(size_t indent = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tenon::cli
