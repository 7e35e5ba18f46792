// Twenty images of the main job on the checked interpreter: with programs of its own, within the
// oracle's radius; with the CPU's programs, bit for bit what the CPU gives.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tenon/base/text.h"
#include "tenon/cli/digits.h"
#include "tenon/conform/oracle.h"
#include "tenon/engine/engine.h"

namespace tenon {
namespace {

constexpr int64_t kNumImages = 20;

std::string data_file(std::string_view name) {
  return concat(TENON_SOURCE_DIR "/data/", name);
}

/// Logits of the first images, not computed yet, with all inputs on `device`.
Tensor logits_on(Device& device) {
  const ScopedDefaultDevice scope(device);
  const cli::DigitsNetwork network(data_file("digits_cnn.safetensors"), std::nullopt);
  std::vector<uint8_t> pixels = cli::load_digits(data_file("digits_test.safetensors")).pixels;
  pixels.resize(kNumImages * cli::kImageSide * cli::kImageSide);
  return network.logits(Tensor::from_data(pixels, {kNumImages, cli::kImageSide, cli::kImageSide}));
}

std::vector<int64_t> largest_of_rows(const auto& logits) {
  std::vector<int64_t> classes;
  for (int64_t i = 0; i < kNumImages; ++i) {
    const auto row = logits.begin() + i * cli::kNumClasses;
    classes.push_back(std::max_element(row, row + cli::kNumClasses) - row);
  }
  return classes;
}

TEST(DigitsValues, OnTheInterpreterWithinTheOraclesRadius) {
  Device& device = Device::get("INTERP");
  Tensor logits = logits_on(device);
  std::map<const void*, std::vector<std::byte>> inputs;
  const std::vector<OracleValue> expected = evaluate_oracle(
      std::span(&logits.node(), 1), {.buffer =
                                         [&](const Node& buffer) {
                                           std::vector<std::byte>& bytes = inputs[buffer.id()];
                                           if (bytes.empty()) bytes = read_bytes(buffer);
                                           return std::span<const std::byte>(bytes);
                                         },
                                     .variable = {},
                                     .deviations = deviations_of(device.target())});
  RealizeStats stats;
  realize(std::span(&logits.node(), 1), nullptr, &stats);
  EXPECT_GE(stats.kernels, 4);
  const Comparison comparison = compare(expected[0], logits.to_bytes());
  EXPECT_EQ(comparison.failed, 0) << comparison.text;
  EXPECT_EQ(comparison.compared, kNumImages * cli::kNumClasses);
  const std::vector<double> stored =
      cli::load_logits(data_file("digits_expected.safetensors"), 1000);
  EXPECT_EQ(largest_of_rows(logits.to_vector<float>()), largest_of_rows(stored));
  for (size_t i = 0; i < expected[0].radius.size(); ++i)
    ASSERT_LT(expected[0].radius[i], 0.1) << "the radius says nothing";
}

TEST(DigitsValues, TheCpusProgramsBitForBit) {
  const std::vector<std::byte> on_cpu = logits_on(Device::get("CPU")).to_bytes();
  const std::vector<std::byte> checked = logits_on(Device::get("INTERP::CPU")).to_bytes();
  EXPECT_EQ(on_cpu.size(), kNumImages * cli::kNumClasses * sizeof(float));
  EXPECT_TRUE(on_cpu == checked);
}

}  // namespace
}  // namespace tenon
