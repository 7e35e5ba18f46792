// Every test of tests/data/webnn through the public API on the default device, within the ULP that
// WebNN allows: values that nobody of this project computed. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

#include "tenon/base/error.h"
#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tests/webnn/webnn_build.h"

namespace tenon::webnn {
namespace {

// Allowed distance in ULP of the output: per_length * n + fixed, n as build() gives it. Source:
// web-platform-tests/wpt, webnn/resources/utils.js, whose metrics are those of
// github.com/webmachinelearning/webnn/issues/265. Integers must be equal.
struct Allowance {
  int64_t per_length;
  int64_t fixed;
};

const std::map<std::string, Allowance>& allowances() {
  static const std::map<std::string, Allowance> kTable = {
      {"conv2d", {2, 0}},
      {"convTranspose2d", {2, 0}},
      // Not in that source: reduceMean's n + 2, then batchNormalization's 6, which is the rest of
      // it.
      {"layerNormalization", {1, 8}},
      {"matmul", {2, 0}},
      {"maxPool2d", {0, 0}},
      {"reduceL1", {1, 0}},
      {"reduceL2", {2, 1}},
      {"reduceLogSum", {1, 18}},
      {"reduceLogSumExp", {2, 18}},
      {"reduceMax", {0, 0}},
      {"reduceMean", {1, 2}},
      {"reduceMin", {0, 0}},
      {"reduceProduct", {1, 0}},
      {"reduceSum", {1, 0}},
      {"reduceSumSquare", {2, 0}},
      {"softmax", {3, 3}},
  };
  return kTable;
}

uint64_t bits_at(const std::vector<std::byte>& bytes, size_t i, DType dtype) {
  const auto width = static_cast<size_t>(dtype_size_bytes(dtype));
  uint64_t bits = 0;
  std::memcpy(&bits, bytes.data() + i * width, width);
  return bits;
}

// Distance of two codes of a float dtype, counted in representable values; the zeros are one.
int64_t ulp_distance(uint64_t a, uint64_t b, DType dtype) {
  const auto place = [dtype](uint64_t bits) {
    const uint64_t sign = uint64_t{1} << (dtype_bits(dtype) - 1);
    const auto magnitude = static_cast<int64_t>(bits & (sign - 1));
    return (bits & sign) != 0 ? -magnitude : magnitude;
  };
  return std::abs(place(a) - place(b));
}

// Empty if every element is within the allowance.
std::string find_difference(const Case& item, const Tensor& got, int64_t length, int64_t& max_ulp) {
  const DType dtype = item.expected.dtype;
  if (got.dtype() != dtype || got.shape() != item.expected.shape) {
    return concat("is ", dtype_long_name(got.dtype()), " ", got.shape(), ", expected ",
                  dtype_long_name(dtype), " ", item.expected.shape);
  }
  const Allowance& allowance = allowances().at(item.op);
  const int64_t allowed = is_float(dtype) ? allowance.per_length * length + allowance.fixed : 0;
  const auto got_bytes = got.to_bytes();
  const auto want_bytes = Tensor::from_data(item.expected.data, item.expected.shape,
                                            {.dtype = dtype, .device = nullptr})
                              .to_bytes();
  for (size_t i = 0; i < item.expected.data.size(); ++i) {
    const uint64_t got_bits = bits_at(got_bytes, i, dtype);
    const uint64_t want_bits = bits_at(want_bytes, i, dtype);
    const int64_t ulp = is_float(dtype)         ? ulp_distance(got_bits, want_bits, dtype)
                        : got_bits == want_bits ? 0
                                                : std::numeric_limits<int64_t>::max();
    max_ulp = std::max(max_ulp, ulp);
    if (ulp > allowed) {
      return concat("element ", i, " has code ", got_bits, ", expected ", want_bits, " (",
                    item.expected.data[i], "): ", ulp, " ULP, allowed ", allowed);
    }
  }
  return "";
}

struct Counts {
  int passed = 0;
  int inexpressible = 0;
  int64_t max_ulp = 0;
};

struct Result {
  const Case* item;
  Tensor tensor;
  int64_t length = 1;
};

void add_result(const Case& item, std::vector<Result>& results, Counts& counts) {
  try {
    Result result{.item = &item, .tensor = {}, .length = 1};
    result.tensor = build(item, result.length);
    results.push_back(std::move(result));
  } catch (const Inexpressible& reason) {
    ++counts.inexpressible;
    std::printf("inexpressible: %s: %s\n", item.name.c_str(), reason.what.c_str());
  } catch (const Error& error) {
    ADD_FAILURE() << item.name << ": " << error.what();
  }
}

Counts run(const std::vector<Case>& cases) {
  Counts counts;
  std::vector<Result> results;
  for (const Case& item : cases)
    add_result(item, results, counts);
  // In one schedule, so that kernels compile together; what fails then says so on its own below.
  std::vector<Tensor> tensors;
  for (const Result& result : results)
    tensors.push_back(result.tensor);
  try {
    realize(std::span(tensors));
    for (size_t i = 0; i < results.size(); ++i)
      results[i].tensor = tensors[i];
  } catch (const Error& error) {
    std::printf("together they fail: %s\n", error.what());
  }
  for (const Result& result : results) {
    try {
      const std::string text =
          find_difference(*result.item, result.tensor, result.length, counts.max_ulp);
      counts.passed += text.empty() ? 1 : 0;
      EXPECT_EQ(text, "") << result.item->name;
    } catch (const Error& error) {
      ADD_FAILURE() << result.item->name << ": " << error.what();
    }
  }
  return counts;
}

std::string data_folder() {
  return std::string(TENON_SOURCE_DIR) + "/tests/data/webnn";
}

std::vector<std::string> data_files() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(data_folder()))
    names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

class WebNN : public ::testing::TestWithParam<std::string> {};

TEST_P(WebNN, HasTheExpectedValues) {
  const std::vector<Case> cases =
      parse_cases(read_file(concat(data_folder(), "/", GetParam(), ".json")));
  if (cases.empty()) GTEST_SKIP() << "the file holds no case";
  const Counts counts = run(cases);
  std::printf("%s: %zu tests, %d passed, %d inexpressible, at most %lld ULP\n", GetParam().c_str(),
              cases.size(), counts.passed, counts.inexpressible,
              static_cast<long long>(counts.max_ulp));
  EXPECT_EQ(counts.passed + counts.inexpressible, std::ssize(cases));
  EXPECT_EQ(counts.inexpressible, 0);
}

INSTANTIATE_TEST_SUITE_P(Files, WebNN, ::testing::ValuesIn(data_files()),
                         [](const auto& file) { return file.param; });

// The files hold no pooling; these were worked out by hand from the specification.
TEST(WebNNPooling, RoundsAndLaysOutAsSpecified) {
  const std::vector<Case> cases = parse_cases(R"({"tests": [
    {"name": "floor, padding, strides", "graph": {
      "inputs": {"x": {"data": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16],
                       "descriptor": {"shape": [1, 1, 4, 4], "dataType": "float32"}}},
      "operators": [{"name": "maxPool2d", "outputs": "y", "arguments": [{"input": "x"},
        {"options": {"windowDimensions": [3, 3], "strides": [2, 2], "padding": [1, 0, 1, 0]}}]}],
      "expectedOutputs": {"y": {"data": [6, 8, 14, 16],
                                "descriptor": {"shape": [1, 1, 2, 2], "dataType": "float32"}}}}},
    {"name": "ceil, nhwc", "graph": {
      "inputs": {"x": {"data": [1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6, 7, -7, 8, -8, 9, -9],
                       "descriptor": {"shape": [1, 3, 3, 2], "dataType": "float32"}}},
      "operators": [{"name": "maxPool2d", "outputs": "y", "arguments": [{"input": "x"},
        {"options": {"windowDimensions": [2, 2], "strides": [2, 2], "roundingType": "ceil",
                     "layout": "nhwc"}}]}],
      "expectedOutputs": {"y": {"data": [5, -1, 6, -3, 8, -7, 9, -9],
                                "descriptor": {"shape": [1, 2, 2, 2], "dataType": "float32"}}}}},
    {"name": "output sizes, dilations", "graph": {
      "inputs": {"x": {"data": [9, 1, 2, 3, 4, 5, 6, 7, 8, 0],
                       "descriptor": {"shape": [1, 1, 2, 5], "dataType": "float32"}}},
      "operators": [{"name": "maxPool2d", "outputs": "y", "arguments": [{"input": "x"},
        {"options": {"windowDimensions": [1, 2], "strides": [1, 2], "dilations": [1, 2],
                     "outputSizes": [2, 2]}}]}],
      "expectedOutputs": {"y": {"data": [9, 4, 7, 7],
                                "descriptor": {"shape": [1, 1, 2, 2], "dataType": "float32"}}}}}
  ]})");
  EXPECT_EQ(run(cases).passed, 3);
}

}  // namespace
}  // namespace tenon::webnn
