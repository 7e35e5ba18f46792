// Expected values for the tests of tensor/: NumPy's results read from tensor_tables.txt, or lists
// written by hand. A tensor is evaluated twice, by the oracle on its graph as written and by the
// engine on the default device; both are compared. SPDX-License-Identifier: MIT

#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <type_traits>
#include <vector>

#include "tenon/conform/oracle.h"
#include "tenon/tensor/tensor.h"

namespace tenon::testing {

/// Elements in canonical bits, row-major.
struct Array {
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<uint64_t> bits;
};

/// From tests/tensor/tensor_tables.txt; fails the test if there is no such array.
const Array& table_array(const std::string& name);
/// The same as a tensor on the default device.
Tensor table_tensor(const std::string& name);

/// By hand: `array_of<int32_t>({2}, {1, 2})`.
template <Element T>
Array array_of(const Shape& shape, std::initializer_list<T> values) {
  Array array{dtype_of<T>(), shape, {}};
  for (const T value : values) {
    if constexpr (std::same_as<T, float>) {
      array.bits.push_back(std::bit_cast<uint32_t>(value));
    } else if constexpr (std::same_as<T, double>) {
      array.bits.push_back(std::bit_cast<uint64_t>(value));
    } else {
      array.bits.push_back(static_cast<uint64_t>(value));
    }
  }
  return array;
}

/// What the oracle says of the tensor's graph.
OracleValue oracle_of(const Tensor& tensor);
std::vector<OracleValue> oracle_of(const std::vector<Tensor>& tensors);

/// Dtype, shape and the bits of every element (NaN equals NaN), of the oracle and of the engine.
void expect_array(const Tensor& tensor, const Array& expected);

/// Elements of a float tensor within allowed_error(err) of `expected`, which may be float64 for any
/// float dtype, by the oracle and by the engine; the engine's within the oracle's radius too. `err`
/// has an entry for each element.
void expect_near(const Tensor& tensor, const Array& expected, const std::vector<double>& err);

/// By the table `name`: near if there is `name`_err, else the bits.
void expect_table(const Tensor& tensor, const std::string& name);

}  // namespace tenon::testing
