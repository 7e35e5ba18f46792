// Arrays with a name, as commands take and give them: the values of inputs that nobody gave, and
// outputs as text and as files. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tenon/ir/node.h"
#include "tenon/types/dtype.h"

namespace tenon::cli {

struct NamedArray {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<std::byte> bytes;  ///< row-major
};

/// Values that tell positions apart. Element i of array number k holds, with
/// c = (37 * i + 11 * k) mod 101: floats (c - 50) / 32, signed integers c - 50, unsigned ones c,
/// bool whether c is odd. Exact in every dtype but the 8-bit floats, where it is rounded. As NumPy:
/// ((37 * numpy.arange(n) + 11 * k) % 101 - 50) / 32. Throws kOutOfMemory beyond 256 GiB.
std::vector<std::byte> position_coded(DType dtype, int64_t num_elements, int64_t number);

/// "y float32 (4,8) =" and the values, shortened as NumPy does.
std::string describe(const NamedArray& array);

/// Writes each array as FOLDER/NAME.npy and returns the paths; the folder is made. Characters of a
/// name that do not belong in a file's become "_". NumPy has no bfloat16 and no 8-bit floats: those
/// are written as float32, which holds them exactly.
std::vector<std::string> write_arrays(const std::string& folder,
                                      std::span<const NamedArray> arrays);

}  // namespace tenon::cli
