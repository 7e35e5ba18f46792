// The main job on every device that runs programs: accuracy, logits, batches, order, and the two
// accuracies that are known for a network with one filter set to zero. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/engine/backend.h"
#include "tenon/io/safetensors.h"
#include "tests/cli/run_tenon.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using testing::npy_values;
using testing::run_tenon;
using testing::TempFolder;
using testing::TenonResult;

constexpr const char* kData = TENON_SOURCE_DIR "/data";

/// Devices that a program would be given by default here, with each of their renderers.
std::vector<std::string> devices() {
  std::vector<std::string> names;
  for (const BackendDescriptor* backend : all_backends()) {
    if (backend->default_rank == 0 || backend->why_absent()) continue;
    for (const RendererDescriptor* renderer : renderers_of(*backend)) {
      if (!renderer->why_absent()) names.push_back(concat(backend->name, ":", renderer->name));
    }
  }
  return names;
}

template <typename T>
std::vector<T> stored(const std::string& file, const std::string& name) {
  const SafetensorsFile opened(std::string(kData) + "/" + file);
  const Array array = opened.get(name);
  std::vector<T> values(array.bytes.size() / sizeof(T));
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

/// The class of the largest of the logits that came with the data.
std::vector<int64_t> expected_predictions() {
  const auto logits = stored<double>("digits_expected.safetensors", "logits");
  std::vector<int64_t> predictions;
  for (size_t i = 0; i < logits.size(); i += 10) {
    const auto row = logits.begin() + static_cast<std::ptrdiff_t>(i);
    predictions.push_back(std::max_element(row, row + 10) - row);
  }
  return predictions;
}

class CliDigits : public ::testing::TestWithParam<std::string> {
 protected:
  TenonResult run(std::vector<std::string> more) {
    more.insert(more.begin(), {"run", "digits", "--device", GetParam(), "--out", folder_ / "out"});
    return run_tenon(more);
  }
  std::vector<int64_t> predictions() {
    return npy_values<int64_t>(folder_ / "out/predictions.npy", DType::kI64, {1000});
  }
  const TempFolder folder_;
};

TEST_P(CliDigits, ReadsAsFloat64Does) {
  const TenonResult result = run({"--check"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("accuracy: 969 of 1000\n"));
  EXPECT_THAT(result.out, HasSubstr("allowed 0.0001: right"));
  EXPECT_THAT(result.out, HasSubstr("read as "));
  EXPECT_EQ(predictions(), expected_predictions());
  const auto logits = npy_values<float>(folder_ / "out/logits.npy", DType::kF32, {1000, 10});
  const auto expected = stored<double>("digits_expected.safetensors", "logits");
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(logits[i], expected[i], 1e-4) << "image " << i / 10 << ", class " << i % 10;
}

TEST_P(CliDigits, PredictionsDoNotDependOnBatchesAndOrder) {
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--batch", "1"},
           {"--batch", "7"},
           {"--batch", "1000", "--shuffle", "5"},
           {"--batch", "333", "--shuffle", "18446744073709551615"},
           {"--batch", "5000"}}) {
    std::vector<std::string> checked = options;
    checked.emplace_back("--check");
    const TenonResult result = run(checked);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("accuracy: 969 of 1000\n")) << options[1];
    EXPECT_THAT(result.out, HasSubstr("allowed 0.0001: right")) << options[1];
    EXPECT_EQ(predictions(), expected_predictions()) << options[1];
  }
}

TEST_P(CliDigits, FiltersSetToZeroCostWhatTheyMust) {
  EXPECT_THAT(run({"--zero-filter", "14"}).out, HasSubstr("accuracy: 952 of 1000\n"));
  EXPECT_THAT(run({"--zero-filter", "5"}).out, HasSubstr("accuracy: 962 of 1000\n"));
  const TenonResult result = run({"--zero-filter", "16"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("conv1 has 16 filters"));
}

TEST_P(CliDigits, TimesAddUp) {
  const std::string text = run({}).out;
  const std::regex row(R"( +([a-z ]+[a-z]) +([0-9]+\.[0-9]{3}) ms)");
  double sum = 0;
  double wall = 0;
  std::vector<std::string> names;
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it) {
    names.push_back((*it)[1]);
    (names.back() == "wall" ? wall : sum) += std::stod((*it)[2]);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("schedule", "lower", "compile", "load", "copy in",
                                            "launch", "kernel", "copy out", "other", "wall"));
  EXPECT_NEAR(sum, wall, 0.0101);  // ten roundings to a microsecond
}

TEST_P(CliDigits, CheckFailsOnWrongLogits) {
  for (const char* file : {"digits_cnn.safetensors", "digits_test.safetensors"})
    write_file_atomic(folder_ / file, read_file(std::string(kData) + "/" + file));
  auto logits = stored<double>("digits_expected.safetensors", "logits");
  logits[7423] += 3e-4;
  const SafetensorsEntry entry = {
      "logits", {DType::kF64, {1000, 10}, std::as_bytes(std::span<const double>(logits))}};
  write_safetensors(folder_ / "digits_expected.safetensors", {&entry, 1});
  const TenonResult result = run({"--check", "--data", folder_.path()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("at image 742, class 3"));
  EXPECT_THAT(result.out, HasSubstr("WRONG"));
}

TEST_P(CliDigits, RefusesDataOfAnotherShape) {
  const std::vector<uint8_t> pixels(2 * 27 * 28);
  const std::vector<uint8_t> labels(2);
  const SafetensorsEntry entries[] = {
      {"images", {DType::kU8, {2, 27, 28}, std::as_bytes(std::span(pixels))}},
      {"labels", {DType::kU8, {2}, std::as_bytes(std::span(labels))}}};
  write_safetensors(folder_ / "digits_test.safetensors", entries);
  const TenonResult result = run({"--data", folder_.path()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("'images' is uint8 (2,27,28)"));
}

TEST(CliDigitsInterp, RunsTheProgramsOfTheCpuToTheLastBit) {
  constexpr size_t kImages = 20;
  const TempFolder folder;
  const auto images = stored<uint8_t>("digits_test.safetensors", "images");
  const auto labels = stored<uint8_t>("digits_test.safetensors", "labels");
  const SafetensorsEntry entries[] = {
      {"images",
       {DType::kU8, {kImages, 28, 28}, std::as_bytes(std::span(images).first(kImages * 28 * 28))}},
      {"labels", {DType::kU8, {kImages}, std::as_bytes(std::span(labels).first(kImages))}}};
  write_safetensors(folder / "digits_test.safetensors", entries);
  const std::string network = "digits_cnn.safetensors";
  write_file_atomic(folder / network, read_file(concat(kData, "/", network)));
  std::vector<std::string> logits;
  for (const std::string device : {"CPU", "INTERP::CPU"}) {
    const TenonResult result = run_tenon(
        {"run", "digits", "--device", device, "--data", folder.path(), "--out", folder / device});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    logits.push_back(read_file(folder / concat(device, "/logits.npy")));
  }
  EXPECT_EQ(npy_values<float>(folder / "CPU/logits.npy", DType::kF32, {kImages, 10}).size(), 200U);
  EXPECT_EQ(logits[0], logits[1]);
}

INSTANTIATE_TEST_SUITE_P(Devices, CliDigits, ::testing::ValuesIn(devices()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

}  // namespace
}  // namespace tenon
