// Which dtype an expression of two dtypes has: the Array API's promotion table, and our answers
// where it leaves the choice open. Used by every binary op of tensor/. SPDX-License-Identifier: MIT

#pragma once

#include <optional>

#include "tenon/tensor/operand.h"
#include "tenon/types/dtype.h"

namespace tenon {

/// The smallest dtype that holds the values of both, by the Array API's table within a kind:
///   int8 + uint8 -> int16, uint32 + int64 -> int64, float32 + float64 -> float64.
/// Where that leaves the choice open: bool with any dtype gives that dtype; an integer with a float
/// gives the float dtype; float16 with bfloat16 gives float32; an 8-bit float with a wider float
/// gives the wider one, the two 8-bit floats give float16.
/// Nothing for uint64 with a signed integer: no integer dtype holds both.
std::optional<DType> find_common_dtype(DType a, DType b);

/// As find_common_dtype; throws kInvalidArgument naming both dtypes if there is none.
DType promote_types(DType a, DType b);

/// A scalar beside a tensor keeps the tensor's dtype, unless its kind is higher: an integer beside
/// bool gives int64, a float beside bool or an integer gives float32.
DType promote_types(DType tensor, const Scalar& scalar);

}  // namespace tenon
