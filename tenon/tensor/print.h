// The text of an array that lies in host memory, as NumPy prints it. Behind to_string(Tensor) and
// for tools that have values without a Tensor. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tenon/ir/node.h"
#include "tenon/types/dtype.h"

namespace tenon {

/// `bytes`: row-major elements of `shape`, at any address. NumPy 2 with its default options: more
/// than 1000 elements are shortened.
std::string array_text(std::span<const std::byte> bytes, DType dtype, ShapeView shape);

}  // namespace tenon
