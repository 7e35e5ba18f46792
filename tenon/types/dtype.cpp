// Tables behind dtype.h. SPDX-License-Identifier: MIT

#include "tenon/types/dtype.h"

#include <array>

#include "tenon/base/error.h"

namespace tenon {
namespace {

struct Row {
  DType dtype;
  std::string_view short_name;
  std::string_view long_name;
  int bits;
  DTypeKind kind;
};

constexpr Row kRows[] = {
#define TENON_DTYPE(name, number, short_name, long_name, bits, kind) \
  {DType::name, short_name, long_name, bits, DTypeKind::kind},
#include "tenon/types/dtype.def"
#undef TENON_DTYPE
};
constexpr size_t kNumRows = std::size(kRows);

const Row& row_of(DType dtype) {
  const auto index = static_cast<size_t>(dtype) - 1;
  TENON_ASSERT(index < kNumRows, "no dtype has number ", static_cast<int>(dtype));
  return kRows[index];
}

constexpr bool rows_are_dense() {
  for (size_t i = 0; i < kNumRows; ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i + 1) return false;
  }
  return true;
}
static_assert(rows_are_dense(), "dtype numbers must be 1, 2, 3, ... in order");

constexpr auto make_storage_dtypes() {
  std::array<DType, kNumRows - 1> dtypes{};
  for (size_t i = 0; i + 1 < kNumRows; ++i)
    dtypes[i] = kRows[i].dtype;
  return dtypes;
}
constexpr auto kStorageDTypes = make_storage_dtypes();

}  // namespace

std::string_view dtype_name(DType dtype) {
  return row_of(dtype).short_name;
}
std::string_view dtype_long_name(DType dtype) {
  return row_of(dtype).long_name;
}
DTypeKind dtype_kind(DType dtype) {
  return row_of(dtype).kind;
}
int dtype_bits(DType dtype) {
  return row_of(dtype).bits;
}
std::span<const DType> storage_dtypes() {
  return kStorageDTypes;
}

std::optional<DType> find_dtype(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.short_name || name == row.long_name) return row.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_number(uint8_t number) {
  if (number == 0 || number > kNumRows) return std::nullopt;
  return kRows[number - 1].dtype;
}

FloatFormat float_format(DType dtype) {
  TENON_ASSERT(is_float(dtype), dtype_name(dtype), " is not a float dtype");
  if (dtype == DType::kF8E4M3) return {4, 3, 7, true};
  if (dtype == DType::kF8E5M2) return {5, 2, 15, false};
  if (dtype == DType::kF16) return {5, 10, 15, false};
  if (dtype == DType::kBF16) return {8, 7, 127, false};
  if (dtype == DType::kF32) return {8, 23, 127, false};
  return {11, 52, 1023, false};
}

DType unsigned_of_same_width(DType dtype) {
  const int bits = dtype_bits(dtype);
  TENON_ASSERT(bits > 0, dtype_name(dtype), " has no storage");
  if (bits == 8) return DType::kU8;
  if (bits == 16) return DType::kU16;
  return bits == 32 ? DType::kU32 : DType::kU64;
}

DType signed_of_same_width(DType dtype) {
  const int bits = dtype_bits(dtype);
  TENON_ASSERT(bits > 0, dtype_name(dtype), " has no storage");
  if (bits == 8) return DType::kI8;
  if (bits == 16) return DType::kI16;
  return bits == 32 ? DType::kI32 : DType::kI64;
}

uint64_t int_min_bits(DType dtype) {
  if (!is_signed_int(dtype)) return 0;
  return ~uint64_t{0} << (dtype_bits(dtype) - 1);
}

uint64_t int_max_bits(DType dtype) {
  if (dtype == DType::kBool) return 1;
  if (is_signed_int(dtype)) return (uint64_t{1} << (dtype_bits(dtype) - 1)) - 1;
  return ~uint64_t{0} >> (64 - dtype_bits(dtype));
}

}  // namespace tenon
