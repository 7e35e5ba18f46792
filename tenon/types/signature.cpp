// The one place that lays arguments out and says why launch values do not fit.
// SPDX-License-Identifier: MIT

#include "tenon/types/signature.h"

#include <limits>

#include "tenon/base/error.h"
#include "tenon/base/integer.h"
#include "tenon/base/text.h"

namespace tenon {
namespace {

constexpr uint64_t kAddressBytes = 8;

std::string where(const Argument& argument, size_t number) {
  return concat("argument ", number, " '", argument.name, "'");
}

std::string bits_as_text(DType dtype, uint64_t bits) {
  return is_signed_int(dtype) ? concat(static_cast<int64_t>(bits)) : concat(bits);
}

// Signed dtypes compare as int64, all others as uint64.
bool is_in_range(DType dtype, uint64_t bits, uint64_t min, uint64_t max) {
  if (is_signed_int(dtype)) {
    const auto value = static_cast<int64_t>(bits);
    return value >= static_cast<int64_t>(min) && value <= static_cast<int64_t>(max);
  }
  return bits >= min && bits <= max;
}

std::optional<std::string> why_buffer_differs(const Argument& argument, size_t number,
                                              const ArgumentValue& value) {
  int64_t wanted_bytes = 0;
  if (__builtin_mul_overflow(argument.num_elements, dtype_size_bytes(argument.dtype),
                             &wanted_bytes)) {
    return concat(where(argument, number), " has ", argument.num_elements, " elements of ",
                  dtype_long_name(argument.dtype), ", more bytes than 64 bits count");
  }
  if (value.size_bytes < wanted_bytes) {
    return concat(where(argument, number), " (buffer, ", value.size_bytes,
                  " bytes) is smaller than the ", wanted_bytes, " bytes the kernel uses (",
                  argument.num_elements, " elements of ", dtype_long_name(argument.dtype), ")");
  }
  if (value.address == nullptr && wanted_bytes > 0) {
    return concat(where(argument, number), " (buffer) has no address, ", wanted_bytes,
                  " bytes are used");
  }
  return std::nullopt;
}

std::optional<std::string> why_scalar_differs(const Argument& argument, size_t number,
                                              const ArgumentValue& value) {
  const DType dtype = argument.dtype;
  if (is_float(dtype)) {
    const int bits = dtype_bits(dtype);
    if (bits < 64 && value.bits >> bits != 0) {
      return concat(where(argument, number), ": the bits ", value.bits, " do not fit in ",
                    dtype_long_name(dtype));
    }
    return std::nullopt;
  }
  const bool is_bool = dtype == DType::kBool;
  const uint64_t min = is_bool ? 0 : static_cast<uint64_t>(argument.min);
  const uint64_t max = is_bool ? 1 : static_cast<uint64_t>(argument.max);
  if (is_in_range(dtype, value.bits, min, max) &&
      is_in_range(dtype, value.bits, int_min_bits(dtype), int_max_bits(dtype))) {
    return std::nullopt;
  }
  return concat(where(argument, number), " (", dtype_long_name(dtype), ") is ",
                bits_as_text(dtype, value.bits), ", outside its range ", bits_as_text(dtype, min),
                " to ", bits_as_text(dtype, max));
}

}  // namespace

ArgumentLayout layout_arguments(const Signature& signature) {
  ArgumentLayout layout;
  layout.offsets.reserve(signature.arguments.size());
  uint64_t end = 0;
  for (const Argument& argument : signature.arguments) {
    const uint64_t size = argument.is_buffer
                              ? kAddressBytes
                              : static_cast<uint64_t>(dtype_size_bytes(argument.dtype));
    TENON_ASSERT(size > 0, "argument '", argument.name, "' has a dtype without storage");
    const uint64_t offset = round_up(end, size);
    end = offset + size;
    TENON_ASSERT(end <= std::numeric_limits<uint32_t>::max() - kAddressBytes,
                 signature.arguments.size(), " arguments do not fit in an argument block");
    layout.offsets.push_back(static_cast<uint32_t>(offset));
  }
  layout.size_bytes = static_cast<uint32_t>(round_up(end, kAddressBytes));
  return layout;
}

std::optional<std::string> why_arguments_differ(const Signature& signature,
                                                const std::vector<ArgumentValue>& values) {
  const std::vector<Argument>& arguments = signature.arguments;
  if (values.size() != arguments.size()) {
    return concat(values.size(), " arguments are given, the kernel takes ", arguments.size());
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const Argument& argument = arguments[i];
    const ArgumentValue& value = values[i];
    if (value.is_buffer != argument.is_buffer) {
      return concat(where(argument, i), " is a ", value.is_buffer ? "buffer" : "scalar",
                    ", the kernel takes a ", argument.is_buffer ? "buffer" : "scalar");
    }
    if (value.dtype != argument.dtype) {
      return concat(where(argument, i), " is ", dtype_long_name(value.dtype), ", the kernel takes ",
                    dtype_long_name(argument.dtype));
    }
    std::optional<std::string> reason = argument.is_buffer ? why_buffer_differs(argument, i, value)
                                                           : why_scalar_differs(argument, i, value);
    if (reason) return reason;
  }
  return std::nullopt;
}

}  // namespace tenon
