// Reading the tables, evaluating tensors both ways, comparing. SPDX-License-Identifier: MIT

#include "tests/tensor/array_tables.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>

#include "tenon/ir/eval_op.h"
#include "tenon/ir/tensor_ops.h"
#include "tests/support/tolerance.h"

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

std::map<std::string, Array>& tables() {
  static auto* const instance = new std::map<std::string, Array>(read_tables());
  return *instance;
}

/// `err` empty: the same bits.
void expect_elements(const char* who, DType dtype, const std::vector<uint64_t>& got,
                     const Array& expected, const std::vector<double>& err) {
  ASSERT_EQ(got.size(), expected.bits.size());
  int num_failed = 0;
  for (size_t i = 0; i < got.size() && num_failed < 5; ++i) {
    if (is_nan(got[i], dtype) && is_nan(expected.bits[i], expected.dtype)) continue;
    const double a = to_double(got[i], dtype);
    const double b = to_double(expected.bits[i], expected.dtype);
    const double allowed = err.empty() ? 0 : allowed_error(dtype, err[i], b);
    const bool is_right =
        err.empty() ? got[i] == expected.bits[i] : a == b || std::abs(a - b) <= allowed;
    EXPECT_TRUE(is_right) << who << ": element " << i << " is " << a << ", expected " << b
                          << ", allowed " << allowed;
    num_failed += is_right ? 0 : 1;
  }
}

std::vector<uint64_t> elements_of(const std::vector<std::byte>& bytes, DType dtype) {
  const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
  std::vector<uint64_t> elements(bytes.size() / width);
  for (size_t i = 0; i < elements.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * width, width);
    elements[i] = canonical_bits(dtype, bits);
  }
  return elements;
}

void expect_values(const Tensor& tensor, const Array& expected, const std::vector<double>& err) {
  ASSERT_EQ(tensor.shape(), expected.shape);
  const OracleValue value = oracle_of(tensor);
  expect_elements("oracle", value.dtype, value.bits, expected, err);
  const std::vector<std::byte> got = tensor.to_bytes();
  expect_elements("engine", value.dtype, elements_of(got, value.dtype), expected, err);
  const Comparison comparison = compare(value, got);
  EXPECT_EQ(comparison.failed, 0) << "engine and oracle: " << comparison.text;
}

}  // namespace

const Array& table_array(const std::string& name) {
  static const Array none;
  const auto found = tables().find(name);
  if (found == tables().end()) {
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
  inputs.deviations = deviations_of(Device::get_default().target());
  inputs.buffer = [&](const Node& buffer) {
    bytes = read_bytes(buffer);
    return std::span<const std::byte>(bytes);
  };
  return evaluate_oracle(nodes, inputs);
}

OracleValue oracle_of(const Tensor& tensor) {
  return oracle_of(std::vector<Tensor>{tensor})[0];
}

void expect_array(const Tensor& tensor, const Array& expected) {
  ASSERT_EQ(tensor.dtype(), expected.dtype)
      << dtype_name(tensor.dtype()) << " " << dtype_name(expected.dtype);
  expect_values(tensor, expected, {});
}

void expect_near(const Tensor& tensor, const Array& expected, const std::vector<double>& err) {
  ASSERT_TRUE(is_float(tensor.dtype())) << dtype_name(tensor.dtype());
  ASSERT_EQ(err.size(), expected.bits.size());
  if (!err.empty()) expect_values(tensor, expected, err);
}

void expect_table(const Tensor& tensor, const std::string& name) {
  SCOPED_TRACE(name);
  const Array& expected = table_array(name);
  const auto found = tables().find(name + "_err");
  if (found == tables().end()) return expect_array(tensor, expected);
  std::vector<double> err;
  for (const uint64_t bits : found->second.bits)
    err.push_back(std::bit_cast<double>(bits));
  expect_near(tensor, expected, err);
}

}  // namespace tenon::testing
