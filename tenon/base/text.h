// Text: the one string-building helper (concat), splitting, joining, and spelling of values.
// Used everywhere for messages, names and parsers; locale never matters.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tenon {

namespace detail {

void append_int(std::string& out, int64_t value);
void append_uint(std::string& out, uint64_t value);
void append_float(std::string& out, float value);
void append_float(std::string& out, double value);

template <typename T>
concept HasToString = requires(const T& value) {
  { to_string(value) } -> std::convertible_to<std::string_view>;  // found by argument lookup
};

template <typename T>
concept IntegerRange = requires(const T& value) {
  std::begin(value);
  std::end(value);
  requires std::integral<std::remove_cvref_t<decltype(*std::begin(value))>>;
};

template <typename T>
void append_part(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    out += value;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(value);
  } else if constexpr (std::signed_integral<T>) {
    append_int(out, value);
  } else if constexpr (std::unsigned_integral<T>) {
    append_uint(out, value);
  } else if constexpr (std::floating_point<T>) {
    append_float(out, value);
  } else if constexpr (HasToString<T>) {
    out += to_string(value);
  } else if constexpr (IntegerRange<T>) {
    out += '(';
    const char* separator = "";
    for (const auto element : value) {
      out += separator;
      append_part(out, element);
      separator = ",";
    }
    out += ')';
  } else if constexpr (std::is_invocable_v<const T&>) {
    const auto made = value();
    append_part(out, made);
  } else {
    static_assert(std::is_invocable_v<const T&>, "concat: give this type a to_string");
  }
}

}  // namespace detail

/// Appends each part to `out`: strings and chars as they are, integers (8-bit ones too) and
/// floats in the shortest form that reads back, bools as true/false, ranges of integers as
/// "(4,8)", types with a `to_string` next to them by that, and callables by their result.
template <typename... Parts>
void append(std::string& out, const Parts&... parts) {
  (detail::append_part(out, parts), ...);
}

/// The parts as one string; see append.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::string out;
  append(out, parts...);
  return out;
}

/// Splits at each `separator`; "a,,b" has three parts and "" has one, empty. Views into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Without ASCII white space at both ends. A view into `text`.
std::string_view trim(std::string_view text);

// Views into a temporary string would dangle, also in a range-for.
template <std::same_as<std::string> Temporary>
std::vector<std::string_view> split(Temporary&&, char) = delete;
template <std::same_as<std::string> Temporary>
std::string_view trim(Temporary&&) = delete;

/// The elements (anything append takes) with `separator` between them.
template <typename Range>
std::string join(const Range& elements, std::string_view separator) {
  std::string out;
  bool is_first = true;
  for (const auto& element : elements) {
    if (!is_first) out += separator;
    is_first = false;
    append(out, element);
  }
  return out;
}

/// ASCII only: other bytes stay as they are.
std::string to_lower(std::string_view text);
std::string to_upper(std::string_view text);
bool equal_ignoring_case(std::string_view lhs, std::string_view rhs);

/// Smallest number of single-character insertions, deletions and replacements, case ignored.
size_t edit_distance(std::string_view lhs, std::string_view rhs);

/// The candidate nearest to a misspelt `name`; empty if none is near enough to be meant
/// (more than a third of the longer word, at least two, would have to change).
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string_view> candidates);
std::optional<std::string> nearest_name(std::string_view name,
                                        std::span<const std::string> candidates);

/// In double quotes, with \" \\ \n \t \r and \xNN for all bytes that are not printable ASCII.
std::string quoted(std::string_view text);

/// Reads the whole of `text` as a decimal integer (sign allowed); empty if it is not one or
/// does not fit.
std::optional<int64_t> parse_int(std::string_view text);

/// "(4,8)"; a scalar's shape is "()".
std::string format_shape(std::span<const int64_t> shape);

/// "512 B", "4.0 KiB", "12.0 GiB": binary units, one decimal.
std::string format_bytes(uint64_t size_bytes);

}  // namespace tenon
