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

/// The array that lies in a file, row-major and little-endian, from `offset_bytes` on: a tensor on
/// the device of that file, which runs no programs. Elements are read when they are copied
/// elsewhere, with to(). Throws kNotFound, kIo, kInvalidArgument if the file ends before.
Tensor open_array(const std::string& path, DType dtype, const Shape& shape,
                  int64_t offset_bytes = 0);

/// All arrays of a safetensors file by name, for the device of `options`. Only the header is read
/// (and bools, to check them); each array is read when it is first used, through the file as it was
/// opened here: if that has changed by then, the use throws kIo. Errors as load_npy.
std::map<std::string, Tensor> load_safetensors(const std::string& path,
                                               const TensorOptions& options = {});
void save_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors);

}  // namespace tenon
