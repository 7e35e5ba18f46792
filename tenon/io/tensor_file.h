// Tensors from and to files: what users call. The formats are read and written by npy.h and
// safetensors.h. SPDX-License-Identifier: MIT

#pragma once

#include <map>
#include <string>

#include "tenon/tensor/tensor.h"

namespace tenon {

/// The array of a .npy file, copied to the device of `options`; another dtype there converts it.
/// Throws kNotFound, kIo, or kInvalidArgument with the path and what is wrong with the file.
Tensor load_npy(const std::string& path, const TensorOptions& options = {});
/// Computes `x` and writes the file at once or not at all. Throws kInvalidArgument if NumPy has no
/// such dtype.
void save_npy(const std::string& path, const Tensor& x);

/// All arrays of a safetensors file by name. Errors as load_npy.
std::map<std::string, Tensor> load_safetensors(const std::string& path,
                                               const TensorOptions& options = {});
void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors);

}  // namespace tenon
