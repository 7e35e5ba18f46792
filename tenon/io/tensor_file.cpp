// SPDX-License-Identifier: MIT

#include "tenon/io/tensor_file.h"

#include <vector>

#include "tenon/io/npy.h"
#include "tenon/io/safetensors.h"

namespace tenon {
namespace {

Tensor to_tensor(const ArrayView& array, const TensorOptions& options) {
  return Tensor::from_bytes(array.bytes, array.dtype, array.shape, options);
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

std::map<std::string, Tensor> load_safetensors(const std::string& path,
                                               const TensorOptions& options) {
  const SafetensorsFile file(path);
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : file.names())
    tensors.emplace(name, to_tensor(file.get(name), options));
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
