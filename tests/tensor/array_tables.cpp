// Reading the tables, evaluating tensors both ways, comparing. SPDX-License-Identifier: MIT

#include "tests/tensor/array_tables.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/tensor_ops.h"

namespace tenon::testing {
namespace {

std::map<std::string, Array> read_tables() {
  std::map<std::string, Array> tables;
  std::ifstream file(TENON_SOURCE_DIR "/tests/tensor/tensor_tables.txt");
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::string dtype;
    std::string shape;
    words >> name >> dtype >> shape;
    Array array{find_dtype(dtype).value(), {}, {}};
    if (shape != "-") {
      for (const std::string_view dim : split(std::string_view(shape), ','))
        array.shape.push_back(parse_int(dim).value());
    }
    uint64_t bits = 0;
    while (words >> std::hex >> bits)
      array.bits.push_back(canonical_bits(array.dtype, bits));
    tables[name] = array;
  }
  return tables;
}

double to_double(uint64_t bits, DType dtype) {
  if (is_float(dtype)) return float_to_double(bits, dtype);
  if (is_signed_int(dtype)) return static_cast<double>(static_cast<int64_t>(bits));
  return static_cast<double>(bits);
}

bool is_nan(uint64_t bits, DType dtype) {
  return is_float(dtype) && std::isnan(float_to_double(bits, dtype));
}

void expect_elements(const OracleValue& got, const Array& expected, double rtol) {
  ASSERT_EQ(got.bits.size(), expected.bits.size());
  double largest = 0;
  for (const uint64_t bits : expected.bits) {
    const double value = std::abs(to_double(bits, expected.dtype));
    if (std::isfinite(value)) largest = std::max(largest, value);
  }
  int num_failed = 0;
  for (size_t i = 0; i < got.bits.size() && num_failed < 5; ++i) {
    if (is_nan(got.bits[i], got.dtype) && is_nan(expected.bits[i], expected.dtype)) continue;
    const double a = to_double(got.bits[i], got.dtype);
    const double b = to_double(expected.bits[i], expected.dtype);
    const bool is_equal = rtol == 0
                              ? got.bits[i] == expected.bits[i]
                              : a == b || std::abs(a - b) <= rtol * (std::abs(b) + 0.1 * largest);
    EXPECT_TRUE(is_equal) << "element " << i << " is " << a << ", expected " << b;
    num_failed += is_equal ? 0 : 1;
  }
}

}  // namespace

const Array& table_array(const std::string& name) {
  static const auto* const tables = new std::map<std::string, Array>(read_tables());
  static const Array none;
  const auto found = tables->find(name);
  if (found == tables->end()) {
    ADD_FAILURE() << "no array " << name << " in tensor_tables.txt";
    return none;
  }
  return found->second;
}

Tensor table_tensor(const std::string& name) {
  const Array& array = table_array(name);
  const OracleValue value{array.dtype, array.shape, array.bits, {}, {}};
  return Tensor::from_bytes(to_bytes(value), array.dtype, array.shape);
}

std::vector<OracleValue> oracle_of(const std::vector<Tensor>& tensors) {
  std::vector<Node> nodes;
  for (const Tensor& tensor : tensors)
    nodes.push_back(tensor.node());
  std::vector<std::byte> bytes;
  OracleInputs inputs;
  inputs.buffer = [&](const Node& buffer) {
    bytes = read_bytes(buffer);
    return std::span<const std::byte>(bytes);
  };
  return evaluate_oracle(nodes, inputs);
}

OracleValue oracle_of(const Tensor& tensor) {
  return oracle_of(std::vector<Tensor>{tensor})[0];
}

void expect_array(const Tensor& tensor, const Array& expected, double rtol, Run run) {
  ASSERT_EQ(tensor.shape(), expected.shape);
  if (rtol == 0 || !is_float(expected.dtype)) {
    ASSERT_EQ(tensor.dtype(), expected.dtype)
        << dtype_name(tensor.dtype()) << " " << dtype_name(expected.dtype);
  }
  const OracleValue value = oracle_of(tensor);
  expect_elements(value, expected, rtol);
  if (run == Run::kOracle) return;
  const Comparison comparison = compare(value, tensor.to_bytes());
  EXPECT_EQ(comparison.failed, 0) << "engine: " << comparison.text;
}

void expect_table(const Tensor& tensor, const std::string& name, double rtol) {
  SCOPED_TRACE(name);
  expect_array(tensor, table_array(name), rtol);
}

}  // namespace tenon::testing
