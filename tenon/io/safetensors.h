// Safetensors files: named arrays behind one JSON header. Strict, as the format asks: files are
// untrusted, and the arrays must fill the data without holes and overlaps.
// Format: github.com/huggingface/safetensors, README, section "Format".
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// Where an array lies in a file.
struct SafetensorsPlace {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< from the beginning of the file
  uint64_t size_bytes = 0;
};

struct SafetensorsIndex {
  std::vector<SafetensorsPlace> places;  ///< in the order of their data
  SafetensorsMetadata metadata;          ///< in the order of the header
};

/// Fills the bytes with those of a file from `offset` on.
using ReadAt = std::function<void(uint64_t offset, std::span<std::byte> bytes)>;

/// Reads the header of a file of that size, not its data; `path` is for messages. Throws
/// kInvalidArgument, and what `read_at` throws.
SafetensorsIndex index_safetensors(uint64_t file_bytes, const ReadAt& read_at,
                                   std::string_view path);

/// The same for the bytes of a whole file, which must outlive the views.
SafetensorsContent parse_safetensors(std::span<const std::byte> bytes, std::string_view path);

/// A safetensors file that is open: a large model costs nothing until its arrays are read.
/// Throws kNotFound, kIo, and what index_safetensors throws.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  /// In the order of their data in the file.
  std::vector<std::string> names() const;
  const std::vector<SafetensorsPlace>& places() const { return index_.places; }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Reads one array. Throws kNotFound with the nearest name, kInvalidArgument if a bool array
  /// holds bytes other than 0 and 1, kIo if the file is not what it was, kOutOfMemory.
  Array get(std::string_view name) const;
  const SafetensorsMetadata& metadata() const { return index_.metadata; }

 private:
  const SafetensorsPlace* find(std::string_view name) const;

  OpenFile file_;
  SafetensorsIndex index_;
  std::vector<size_t> by_name_;  // indices of places, sorted by name
};

/// Writes the file at once or not at all (base/file.h). Data is laid out by falling element size,
/// so that every array is aligned. Throws kInvalidArgument if names repeat or are not UTF-8, or
/// bytes do not fit a shape.
void write_safetensors(const std::string& path, std::span<const SafetensorsEntry> entries,
                       const SafetensorsMetadata& metadata = {});

}  // namespace tenon
