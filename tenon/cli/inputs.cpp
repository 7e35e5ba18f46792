// SPDX-License-Identifier: MIT

#include "tenon/cli/inputs.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/cli/console.h"
#include "tenon/engine/device_spec.h"
#include "tenon/io/npy.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/scalar_text.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon::cli {
namespace {

bool is_read_from_f32(DType dtype) {
  return dtype == DType::kBF16 || (is_float(dtype) && dtype_bits(dtype) == 8);
}

std::vector<std::byte> rounded(std::span<const std::byte> floats, DType dtype) {
  const auto size = static_cast<size_t>(dtype_size_bytes(dtype));
  std::vector<std::byte> bytes(floats.size() / 4 * size);
  for (size_t i = 0; i < floats.size() / 4; ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, floats.data() + i * 4, 4);
    const ScalarBits narrow = eval_cast(bits, DType::kF32, dtype);
    std::memcpy(bytes.data() + i * size, &narrow, size);
  }
  return bytes;
}

}  // namespace

NamedWords::NamedWords(std::string option, const std::vector<std::string>& words)
    : option_(std::move(option)) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw WrongUsage(concat(option_, " ", quoted(word), ": expected NAME=", "VALUE"));
    }
    const std::string name = word.substr(0, equals);
    if (!words_.emplace(name, word.substr(equals + 1)).second) {
      throw WrongUsage(concat(option_, " ", quoted(word), ": '", name, "' is given twice"));
    }
  }
}

const std::string* NamedWords::find(const std::string& name) const {
  const auto found = words_.find(name);
  return found == words_.end() ? nullptr : &found->second;
}

void NamedWords::check_names(const std::vector<std::string>& names) const {
  for (const auto& [name, text] : words_) {
    const bool is_known = std::find(names.begin(), names.end(), name) != names.end();
    TENON_CHECK(is_known, ErrorCode::kInvalidArgument, option_, " ", name, "=", text,
                ": the program takes nothing of that name",
                names.empty() ? std::string() : suggest_name(name, names, "It takes"));
  }
}

void fill_input(NamedArray& input, const NamedWords& files, int64_t number) {
  const std::string* const path = files.find(input.name);
  if (path == nullptr) {
    input.bytes = position_coded(input.dtype, num_elements(input.shape), number);
    return;
  }
  const NpyFile file(*path);
  const ArrayView view = file.view();
  const DType expected = is_read_from_f32(input.dtype) ? DType::kF32 : input.dtype;
  TENON_CHECK(view.dtype == expected && view.shape == input.shape, ErrorCode::kInvalidArgument,
              "input '", input.name, "': '", *path, "' holds ", dtype_long_name(view.dtype), " ",
              format_shape(view.shape), "; the program takes ", dtype_long_name(input.dtype), " ",
              format_shape(input.shape),
              expected == input.dtype ? "" : ", given as float32 (NumPy does not have it)");
  if (is_read_from_f32(input.dtype)) {
    input.bytes = rounded(view.bytes, input.dtype);
  } else {
    input.bytes.assign(view.bytes.begin(), view.bytes.end());
  }
}

ArgumentValue scalar_value(const Argument& argument, const NamedWords& values) {
  ArgumentValue value = {.is_buffer = false, .dtype = argument.dtype};
  const std::string* const text = values.find(argument.name);
  if (text == nullptr) {
    value.bits = is_float(argument.dtype) ? double_to_float(1, argument.dtype)
                                          : static_cast<uint64_t>(argument.max);
    return value;
  }
  const std::optional<uint64_t> bits = parse_scalar(argument.dtype, *text);
  TENON_CHECK(bits, ErrorCode::kInvalidArgument, "scalar '", argument.name, "': ", quoted(*text),
              " is no value of ", dtype_long_name(argument.dtype));
  value.bits = *bits;
  return value;
}

}  // namespace tenon::cli
