// Safetensors files: named arrays behind one JSON header. Strict, as the format asks: files are
// untrusted, and the arrays must fill the data without holes and overlaps.
// Format: github.com/huggingface/safetensors, README, section "Format".
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tenon/base/file.h"
#include "tenon/io/array_view.h"

namespace tenon {

struct SafetensorsEntry {
  std::string name;  ///< UTF-8
  ArrayView array;
};

using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsContent {
  std::vector<SafetensorsEntry> entries;  ///< in the order of their data
  SafetensorsMetadata metadata;           ///< in the order of the header
};

/// Reads the bytes of a whole file, which must outlive the views; `path` is for messages. Reads the
/// header alone, not the data. Throws kInvalidArgument.
SafetensorsContent parse_safetensors(std::span<const std::byte> bytes, std::string_view path);

/// A safetensors file, mapped: a large model costs nothing until its arrays are read.
/// Throws kNotFound, kIo, and what parse_safetensors throws.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  /// In the order of their data in the file.
  std::vector<std::string> names() const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Valid as long as this object. Throws kNotFound with the nearest name, and kInvalidArgument if
  /// a bool array holds bytes other than 0 and 1.
  ArrayView get(std::string_view name) const;
  const SafetensorsMetadata& metadata() const { return content_.metadata; }

 private:
  const SafetensorsEntry* find(std::string_view name) const;

  std::string path_;
  MappedFile file_;
  SafetensorsContent content_;
  std::vector<size_t> by_name_;  // indices of entries, sorted by name
};

/// Writes the file at once or not at all (base/file.h). Data is laid out by falling element size,
/// so that every array is aligned. Throws kInvalidArgument if names repeat or are not UTF-8, or
/// bytes do not fit a shape.
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata = {});

}  // namespace tenon
