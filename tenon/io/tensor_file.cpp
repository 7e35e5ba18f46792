// SPDX-License-Identifier: MIT

#include "tenon/io/tensor_file.h"

#include <algorithm>
#include <vector>

#include "tenon/base/error.h"
#include "tenon/base/text.h"
#include "tenon/io/npy.h"
#include "tenon/io/safetensors.h"

namespace tenon {
namespace {

Tensor to_tensor(const ArrayView& array, const TensorOptions& options) {
  return Tensor::from_bytes(array.bytes, array.dtype, array.shape, options);
}

Tensor checked_bool(const SafetensorsPlace& place, const std::vector<std::byte>& bytes,
                    const std::string& path, const TensorOptions& options) {
  const ArrayView array{place.dtype, place.shape, bytes};
  if (const std::optional<size_t> bad = find_bad_bool(array)) {
    fail(ErrorCode::kInvalidArgument, "safetensors file '", path, "': element ", *bad,
         " of the bool tensor ", quoted(place.name), " is neither 0 nor 1");
  }
  return to_tensor(array, options);
}

}  // namespace

Tensor load_npy(const std::string& path, const TensorOptions& options) {
  const NpyFile file(path);
  return to_tensor(file.view(), options);
}

void save_npy(const std::string& path, const Tensor& x) {
  const std::vector<std::byte> bytes = x.to_bytes();
  write_npy(path, {.dtype = x.dtype(), .shape = x.shape(), .bytes = bytes});
}

Tensor open_array(const std::string& path, DType dtype, const Shape& shape, int64_t offset_bytes) {
  TENON_CHECK(dtype_kind(dtype) != DTypeKind::kIndex && dtype != DType::kBool,
              ErrorCode::kInvalidArgument, "array in file '", path, "': dtype ",
              dtype_long_name(dtype), " is not read as it lies there. Use uint8");
  Device* const device = Device::find_for_file(path);
  TENON_CHECK(device != nullptr, ErrorCode::kUnsupported, "array in file '", path,
              "': no backend that is built has files for memory (see TENON_BACKENDS)");
  return Tensor(buffer_view(buffer_of_content(*device), dtype, shape, offset_bytes));
}

std::map<std::string, Tensor> load_safetensors(const std::string& path,
                                               const TensorOptions& options) {
  Device& device = options.device != nullptr ? *options.device : Device::get_default();
  std::map<std::string, Tensor> tensors;
  Device* const stored = Device::find_for_file(path);
  if (stored == nullptr) {
    const SafetensorsFile file(path);
    for (const std::string& name : file.names())
      tensors.emplace(name, to_tensor(file.get(name).view(), options));
    return tensors;
  }
  // Header and arrays are read through one opening, so that they belong together.
  const Node content = buffer_of_content(*stored);
  const ReadAt read_at = [&](uint64_t offset, std::span<std::byte> bytes) {
    const Node part =
        buffer_view(content, DType::kU8, Shape{std::ssize(bytes)}, static_cast<int64_t>(offset));
    std::ranges::copy(read_bytes(part), bytes.begin());
  };
  const auto file_bytes = static_cast<uint64_t>(content.shape()[0]);
  for (const SafetensorsPlace& place : index_safetensors(file_bytes, read_at, path).places) {
    const Node view =
        buffer_view(content, place.dtype, place.shape, static_cast<int64_t>(place.begin));
    if (place.dtype == DType::kBool) {  // other bytes than 0 and 1 are no bool to any kernel
      tensors.emplace(place.name, checked_bool(place, read_bytes(view), path, options));
      continue;
    }
    const Tensor tensor = Tensor(view).to(device);
    const bool is_cast = options.dtype && *options.dtype != place.dtype;
    tensors.emplace(place.name, is_cast ? tensor.astype(*options.dtype) : tensor);
  }
  return tensors;
}

void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors) {
  std::vector<std::vector<std::byte>> bytes;
  std::vector<SafetensorsEntry> entries;
  bytes.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    bytes.push_back(tensor.to_bytes());
    entries.push_back(
        {.name = name,
         .array = {.dtype = tensor.dtype(), .shape = tensor.shape(), .bytes = bytes.back()}});
  }
  write_safetensors(path, entries);
}

}  // namespace tenon
