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

/// Where the values come from: some tests have too many graphs to compile each.
enum class Run { kOracle, kOracleAndEngine };

/// Dtype, shape and every element: bits (NaN equals NaN) if `rtol` is 0, else |got - expected| <=
/// rtol * (|expected| + 0.1 * largest |expected|), since terms of a sum may cancel. With an rtol
/// `expected` may be float64 for any float dtype. The engine's values must be the oracle's within
/// its radius.
void expect_array(const Tensor& tensor, const Array& expected, double rtol = 0,
                  Run run = Run::kOracleAndEngine);
void expect_table(const Tensor& tensor, const std::string& name, double rtol = 0);

}  // namespace tenon::testing
