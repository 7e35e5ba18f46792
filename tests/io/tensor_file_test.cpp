// Tensors to files and back, through the device. SPDX-License-Identifier: MIT

#include "tenon/io/tensor_file.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tenon::testing {
namespace {

TEST(TensorFile, NpyKeepsValuesShapeAndDtype) {
  const TempFolder folder;
  const Tensor x = {{1.5F, -0.0F, 3.0F}, {4.0F, 5.25F, -6.0F}};
  save_npy(folder / "x.npy", x.transpose());
  const Tensor y = load_npy(folder / "x.npy");
  EXPECT_EQ(y.shape(), (Shape{3, 2}));
  EXPECT_EQ(y.dtype(), DType::kF32);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1.5F, 4.0F, -0.0F, 5.25F, 3.0F, -6.0F}));
  const Tensor converted = load_npy(folder / "x.npy", {.dtype = DType::kI32});
  EXPECT_EQ(converted.to_vector<int32_t>(), (std::vector<int32_t>{1, 4, 0, 5, 3, -6}));
}

TEST(TensorFile, SafetensorsKeepsAllArraysByName) {
  const TempFolder folder;
  const std::map<std::string, Tensor> tensors = {{"weight", Tensor{{1, 2}, {3, 4}}},
                                                 {"mask", Tensor{true, false, true}},
                                                 {"empty", Tensor::from_span<float>({}, {0, 4})}};
  save_safetensors(folder / "model.safetensors", tensors);
  const std::map<std::string, Tensor> loaded = load_safetensors(folder / "model.safetensors");
  ASSERT_EQ(loaded.size(), 3U);
  EXPECT_EQ(loaded.at("weight").to_vector<int32_t>(), (std::vector<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(loaded.at("mask").to_vector<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(loaded.at("empty").shape(), (Shape{0, 4}));
}

TEST(TensorFile, SaysWhichFileIsWrong) {
  const TempFolder folder;
  EXPECT_ERROR(load_npy(folder / "none.npy"), ErrorCode::kNotFound, "none.npy");
  const Tensor narrow = Tensor{1.0F, 2.0F}.astype(DType::kBF16);
  EXPECT_ERROR(save_npy(folder / "b.npy", narrow), ErrorCode::kInvalidArgument, "bfloat16");
}

}  // namespace
}  // namespace tenon::testing
