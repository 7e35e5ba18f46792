// NumPy's .npy files: one array each. Strict: files are untrusted, everything that is not exactly
// an array of a dtype we have is refused with the path and the reason. Format:
// numpy.org/doc/stable/reference/generated/numpy.lib.format.html, versions 1, 2 and 3.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tenon/base/file.h"
#include "tenon/io/array_view.h"

namespace tenon {

/// An array read from the bytes of a file, which must outlive it. Fortran-ordered and big-endian
/// arrays are turned into row-major little-endian ones in memory of their own, others are not
/// copied.
class NpyArray {
 public:
  /// Valid as long as this object and the file's bytes.
  ArrayView view() const;

 private:
  friend NpyArray parse_npy(std::span<const std::byte>, std::string_view);
  ArrayView in_file_;
  bool is_converted_ = false;
  std::vector<std::byte> converted_;
};

/// Reads the bytes of a whole file; `path` is for messages. Throws kInvalidArgument.
NpyArray parse_npy(std::span<const std::byte> bytes, std::string_view path);

/// A .npy file that was read. Throws kNotFound, kIo, kOutOfMemory, and what parse_npy throws.
class NpyFile {
 public:
  explicit NpyFile(const std::string& path);
  /// Valid as long as this object.
  ArrayView view() const { return array_.view(); }

 private:
  std::vector<std::byte> bytes_;
  NpyArray array_;
};

/// Writes the file at once or not at all (base/file.h), data at a multiple of 64 bytes. Throws
/// kInvalidArgument if NumPy has no such dtype (bfloat16, fp8) or the bytes do not fit the shape.
void write_npy(const std::string& path, const ArrayView& array);

}  // namespace tenon
