// A program without any backend that has files for memory: arrays are read at once.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include "tenon/io/tensor_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tenon {

void register_cpu_backend();

namespace testing {
namespace {

TEST(NoFiles, SafetensorsAreReadAtOnce) {
  register_cpu_backend();
  const TempFolder folder;
  const std::string path = folder / "m.safetensors";
  save_safetensors(path, {{"a", Tensor{1.0F, 2.0F}}, {"m", Tensor{true, false}}});
  const std::map<std::string, Tensor> loaded = load_safetensors(path);
  EXPECT_EQ(loaded.at("a").node().op(), Op::kBuffer);
  EXPECT_EQ(loaded.at("a").to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(loaded.at("m").to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(Device::find_for_file(path), nullptr);
  EXPECT_ERROR(open_array(path, DType::kU8, {1}), ErrorCode::kUnsupported, "TENON_BACKENDS");
}

}  // namespace
}  // namespace testing
}  // namespace tenon
