// Elements of case files as bytes of a dtype, and the comparison of a result with what a case
// expects. Decoding of floats is written here once more, so that it does not depend on what is
// tested. Used by the tenon_cases program. SPDX-License-Identifier: MIT

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tenon/tensor/tensor.h"
#include "tests/cases/case_file.h"

namespace tenon::cases {

/// Thrown where the public API has no word for what a case asks for; `what` names it.
struct Inexpressible {
  std::string what;
  bool is_machine = false;  ///< not the API: this machine is too small for it
};

/// Throws Inexpressible if there is no such dtype.
DType dtype_named(const std::string& name);

/// Row-major elements. Throws kInvalidArgument if there are more or fewer than the shape says, or
/// the dtype cannot hold one (float32 and float64 round).
std::vector<std::byte> encode(const CaseArray& array, DType dtype);

/// Value of a float dtype's code.
double decode_float(uint64_t bits, DType dtype);

/// Low `dtype_size_bytes` bytes of element `i`, zero-extended.
uint64_t element_bits(const std::vector<std::byte>& bytes, size_t i, DType dtype);

/// What differs, in words: dtype, shape, or the first wrong element and how many there are; empty
/// if nothing does. NaN equals NaN.
std::string find_difference(const Tensor& got, const CaseArray& want, const Tolerance& tolerance);

}  // namespace tenon::cases
