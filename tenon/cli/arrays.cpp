// SPDX-License-Identifier: MIT

#include "tenon/cli/arrays.h"

#include <array>
#include <cstring>
#include <set>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/host_memory.h"
#include "tenon/base/text.h"
#include "tenon/cli/console.h"
#include "tenon/io/npy.h"
#include "tenon/ir/eval_op.h"
#include "tenon/tensor/print.h"

namespace tenon::cli {
namespace {

constexpr int64_t kPeriod = 101;
constexpr int64_t kMaxCodedBytes = int64_t{1} << 38;  // beyond that a file's sizes are a mistake

ScalarBits coded_bits(DType dtype, int64_t code) {
  switch (dtype_kind(dtype)) {
    case DTypeKind::kBool: return static_cast<ScalarBits>(code % 2);
    case DTypeKind::kSigned:
    case DTypeKind::kIndex: return static_cast<ScalarBits>(code - 50);
    case DTypeKind::kUnsigned: return static_cast<ScalarBits>(code);
    case DTypeKind::kFloat: return double_to_float(static_cast<double>(code - 50) / 32, dtype);
  }
  return 0;
}

bool has_npy_dtype(DType dtype) {
  return !is_float(dtype) || dtype == DType::kF16 || dtype == DType::kF32 || dtype == DType::kF64;
}

NamedArray widened(const NamedArray& array) {
  NamedArray result = {.name = array.name, .dtype = DType::kF32, .shape = array.shape};
  const auto size = static_cast<size_t>(dtype_size_bytes(array.dtype));
  for (size_t i = 0; i + size <= array.bytes.size(); i += size) {
    uint64_t bits = 0;
    std::memcpy(&bits, array.bytes.data() + i, size);
    const auto wide = static_cast<uint32_t>(eval_cast(bits, array.dtype, DType::kF32));
    const auto bytes = std::as_bytes(std::span(&wide, 1));
    result.bytes.insert(result.bytes.end(), bytes.begin(), bytes.end());
  }
  return result;
}

// A name of its own for each array: never a path, never hidden.
std::string file_name(const std::string& name, std::set<std::string>& taken) {
  std::string base;
  for (const char c : name) {
    const bool is_kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                         (c == '.' && !base.empty());
    base += is_kept && base.size() < 100 ? c : '_';
    if (base.size() >= 100) break;
  }
  std::string unique = base.empty() ? "_" : base;
  for (int64_t number = 2; !taken.insert(unique).second; ++number)
    unique = concat(base, "_", number);
  return unique + ".npy";
}

}  // namespace

std::vector<std::byte> position_coded(DType dtype, int64_t num_elements, int64_t number) {
  TENON_CHECK(num_elements <= kMaxCodedBytes / dtype_size_bytes(dtype), ErrorCode::kOutOfMemory,
              "making values for an input of ", num_elements, " elements (", dtype_long_name(dtype),
              "): more than ", format_bytes(static_cast<uint64_t>(kMaxCodedBytes)));
  const auto size = static_cast<size_t>(dtype_size_bytes(dtype));
  std::array<ScalarBits, kPeriod> values{};
  for (int64_t code = 0; code < kPeriod; ++code)
    values[static_cast<size_t>(code)] = coded_bits(dtype, code);
  std::vector<std::byte> bytes =
      host_bytes(num_elements * dtype_size_bytes(dtype), "making values for an input");
  int64_t code = 11 * (number % kPeriod) % kPeriod;
  for (size_t i = 0; i < bytes.size(); i += size) {
    std::memcpy(bytes.data() + i, &values[static_cast<size_t>(code)], size);  // little-endian
    code = (code + 37) % kPeriod;
  }
  return bytes;
}

std::string describe(const NamedArray& array) {
  return concat(shown_name(array.name), " ", dtype_long_name(array.dtype), " ",
                format_shape(array.shape), " =\n",
                array_text(array.bytes, array.dtype, array.shape), "\n");
}

std::vector<std::string> write_arrays(const std::string& folder,
                                      std::span<const NamedArray> arrays) {
  create_folders(folder);
  std::vector<std::string> paths;
  std::set<std::string> taken;
  for (const NamedArray& array : arrays) {
    paths.push_back(concat(folder, "/", file_name(array.name, taken)));
    const NamedArray wide = has_npy_dtype(array.dtype) ? NamedArray() : widened(array);
    const NamedArray& written = has_npy_dtype(array.dtype) ? array : wide;
    write_npy(paths.back(),
              {.dtype = written.dtype, .shape = written.shape, .bytes = written.bytes});
  }
  return paths;
}

}  // namespace tenon::cli
