// The element types, as plain data: names, widths, kinds and the layout of the float formats.
// Every layer uses this; a dtype's number is stored in files and never reused.
// SPDX-License-Identifier: MIT

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tenon {

enum class DType : uint8_t {
#define TENON_DTYPE(name, number, short_name, long_name, bits, kind) name = number,
#include "tenon/types/dtype.def"
#undef TENON_DTYPE
};

enum class DTypeKind : uint8_t { kBool, kSigned, kUnsigned, kFloat, kIndex };

/// Field widths of a binary float format. `finite_only` formats (e4m3fn) have no infinity and one
/// NaN pattern per sign (all ones).
struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;  ///< stored bits, without the hidden one
  int bias;
  bool finite_only;
};

/// Short name as IR text writes it: "f32", "i1", "idx".
std::string_view dtype_name(DType dtype);
/// Long name as the public API and its errors write it: "float32", "bool".
std::string_view dtype_long_name(DType dtype);
/// Accepts short and long names; nothing if there is no such dtype.
std::optional<DType> find_dtype(std::string_view name);
/// Nothing if no dtype has this number (files are untrusted).
std::optional<DType> dtype_from_number(uint8_t number);
/// All dtypes that can be stored, in order of their numbers (without kIdx).
std::span<const DType> storage_dtypes();

DTypeKind dtype_kind(DType dtype);
/// Width of the stored value; bool is stored as one byte holding 0 or 1. 0 for kIdx.
int dtype_bits(DType dtype);
inline int64_t dtype_size_bytes(DType dtype) {
  return dtype_bits(dtype) / 8;
}

inline bool is_float(DType dtype) {
  return dtype_kind(dtype) == DTypeKind::kFloat;
}
inline bool is_signed_int(DType dtype) {
  return dtype_kind(dtype) == DTypeKind::kSigned;
}
inline bool is_unsigned_int(DType dtype) {
  return dtype_kind(dtype) == DTypeKind::kUnsigned;
}
inline bool is_int(DType dtype) {
  return is_signed_int(dtype) || is_unsigned_int(dtype);
}

/// The format of a float dtype; asserts is_float(dtype).
FloatFormat float_format(DType dtype);

/// The unsigned integer dtype of the same width (bits of a float, say): kU8 .. kU64.
DType unsigned_of_same_width(DType dtype);
DType signed_of_same_width(DType dtype);

/// Smallest and largest value of an integer or bool dtype as 64-bit patterns: signed dtypes are
/// sign-extended, unsigned ones zero-extended.
uint64_t int_min_bits(DType dtype);
uint64_t int_max_bits(DType dtype);

}  // namespace tenon
