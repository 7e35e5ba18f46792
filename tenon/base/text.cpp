// Splitting, spelling and number forms declared in text.h.
// SPDX-License-Identifier: MIT
#include "tenon/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace tenon {

namespace {

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

template <typename Name>
std::optional<std::string> nearest_of(std::string_view name, std::span<const Name> candidates) {
  std::optional<std::string> best;
  size_t best_distance = 0;
  for (const Name& candidate : candidates) {
    const size_t longer = std::max(name.size(), candidate.size());
    const size_t distance = edit_distance(name, candidate);
    // A change of every character means nothing, however short the word.
    if (distance >= longer || distance > std::max<size_t>(2, longer / 3)) continue;
    if (!best || distance < best_distance) {
      best = std::string(candidate);
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace

namespace detail {

void append_int(std::string& out, int64_t value) {
  fmt::format_to(std::back_inserter(out), FMT_STRING("{}"), value);
}
void append_uint(std::string& out, uint64_t value) {
  fmt::format_to(std::back_inserter(out), FMT_STRING("{}"), value);
}
void append_float(std::string& out, float value) {
  fmt::format_to(std::back_inserter(out), FMT_STRING("{}"), value);
}
void append_float(std::string& out, double value) {
  fmt::format_to(std::back_inserter(out), FMT_STRING("{}"), value);
}

}  // namespace detail

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t start = 0;
  for (;;) {
    const size_t end = text.find(separator, start);
    if (end == std::string_view::npos) {
      parts.push_back(text.substr(start));
      return parts;
    }
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_space(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

std::string to_lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), lower);
  return out;
}

std::string to_upper(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), upper);
  return out;
}

bool equal_ignoring_case(std::string_view lhs, std::string_view rhs) {
  return std::equal(lhs.begin(), lhs.end(), rhs.begin(), rhs.end(),
                    [](char a, char b) { return lower(a) == lower(b); });
}

// R. A. Wagner, M. J. Fischer, "The String-to-String Correction Problem", JACM 21(1), 1974,
// with one row of the table kept.
size_t edit_distance(std::string_view lhs, std::string_view rhs) {
  std::vector<size_t> row(rhs.size() + 1);
  for (size_t column = 0; column <= rhs.size(); ++column) {
    row[column] = column;
  }
  for (size_t line = 1; line <= lhs.size(); ++line) {
    size_t diagonal = row[0];
    row[0] = line;
    for (size_t column = 1; column <= rhs.size(); ++column) {
      const size_t replace = diagonal + (lower(lhs[line - 1]) == lower(rhs[column - 1]) ? 0 : 1);
      diagonal = row[column];
      row[column] = std::min({replace, row[column] + 1, row[column - 1] + 1});
    }
  }
  return row[rhs.size()];
}

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string_view> candidates) {
  return nearest_of(name, candidates);
}

std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates) {
  return nearest_of(name, candidates);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\t': out += "\\t"; break;
      case '\r': out += "\\r"; break;
      default:
        if (c >= 0x20 && c < 0x7f) {
          out += c;
        } else {
          fmt::format_to(std::back_inserter(out), FMT_STRING("\\x{:02x}"),
                         static_cast<unsigned char>(c));
        }
    }
  }
  return out + '"';
}

std::optional<int64_t> parse_int(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string format_shape(std::span<const int64_t> shape) {
  return concat(shape);
}

std::string format_bytes(uint64_t size_bytes) {
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (size_bytes < 1024) return concat(size_bytes, " B");
  double value = static_cast<double>(size_bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would print as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format(FMT_STRING("{:.1f} {}"), value, kUnits[unit]);
}

}  // namespace tenon
