// Tensors to files and back, through the device. SPDX-License-Identifier: MIT

#include "tenon/io/tensor_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tenon/base/file.h"
#include "tenon/engine/events.h"
#include "tenon/io/safetensors.h"
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

/// How often something is copied between devices while it exists.
class CopyCounter {
 public:
  CopyCounter() {
    set_event_hook([this](const EngineEvent& event) {
      if (event.kind == EngineEvent::Kind::kCopied) ++count_;
    });
  }
  ~CopyCounter() { set_event_hook({}); }
  CopyCounter(const CopyCounter&) = delete;
  CopyCounter& operator=(const CopyCounter&) = delete;
  int count() const { return count_; }

 private:
  int count_ = 0;
};

TEST(TensorFile, WeightsAreReadWhenTheyAreUsedAndOnce) {
  const TempFolder folder;
  const std::string path = folder / "model.safetensors";
  save_safetensors(path,
                   {{"a", Tensor{1.0F, 2.0F}}, {"b", Tensor{3.0F, 5.0F}}, {"m", Tensor{true}}});
  const CopyCounter copies;
  const std::map<std::string, Tensor> loaded = load_safetensors(path);
  EXPECT_EQ(copies.count(), 0);
  const Tensor& a = loaded.at("a");
  EXPECT_EQ(a.device().name(), Device::get_default().name());
  EXPECT_EQ((a + 1).to_vector<float>(), (std::vector<float>{2, 3}));
  EXPECT_EQ(copies.count(), 1);
  EXPECT_EQ((a * a).to_vector<float>(), (std::vector<float>{1, 4}));
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{1, 2}));
  EXPECT_EQ(copies.count(), 1);
  save_safetensors(path, {{"b", Tensor{9.0F}}});  // another file of that name
  EXPECT_EQ(loaded.at("b").to_vector<float>(), (std::vector<float>{3, 5}));
  EXPECT_EQ(copies.count(), 2);
  const auto halves = load_safetensors(path, {.dtype = DType::kF16});
  EXPECT_EQ(halves.at("b").dtype(), DType::kF16);
  EXPECT_EQ(halves.at("b").bitcast(DType::kU16).to_vector<uint16_t>(),
            (std::vector<uint16_t>{0x4880}));
}

TEST(TensorFile, AModelMayBeLargerThanAnyMemory) {
  const TempFolder folder;
  const std::string path = folder / "large.safetensors";
  const std::string header =
      R"({"small":{"dtype":"U8","shape":[3],"data_offsets":[1099511627776,1099511627779]},)"
      R"("large":{"dtype":"F32","shape":[274877906944],"data_offsets":[0,1099511627776]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  ASSERT_LT(header.size(), 256U);
  write_file_atomic(path, bytes + header);
  const auto data_at = static_cast<off_t>(8 + header.size());
  ASSERT_EQ(::truncate(path.c_str(), data_at + (off_t{1} << 40)), 0);  // a hole of 1 TiB
  std::ofstream(path, std::ios::app) << "xyz";
  const std::map<std::string, Tensor> loaded = load_safetensors(path);
  EXPECT_EQ(loaded.at("small").to_vector<uint8_t>(), (std::vector<uint8_t>{'x', 'y', 'z'}));
  EXPECT_ERROR(loaded.at("large").to_bytes(), ErrorCode::kOutOfMemory, "1.0 TiB", "");
  const SafetensorsFile file(path);
  EXPECT_EQ(file.get("small").bytes.size(), 3U);
  EXPECT_ERROR(file.get("large"), ErrorCode::kOutOfMemory, "1.0 TiB", "\"large\"", "available");
  // A part of a file that shrank.
  std::filesystem::resize_file(path, 1000);
  EXPECT_ERROR(file.get("small"), ErrorCode::kIo, "changed after it had been opened");
  EXPECT_ERROR(load_safetensors(path), ErrorCode::kInvalidArgument, "beyond the file's data");
}

TEST(TensorFile, BoolsAreCheckedWhenTheFileIsOpened) {
  const TempFolder folder;
  const std::string path = folder / "b.safetensors";
  const std::string header = R"({"m":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})";
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  write_file_atomic(path, bytes + header + std::string("\1\2"));
  EXPECT_ERROR(load_safetensors(path), ErrorCode::kInvalidArgument, "element 1", "\"m\"");
}

TEST(TensorFile, SaysWhichFileIsWrong) {
  const TempFolder folder;
  EXPECT_ERROR(load_npy(folder / "none.npy"), ErrorCode::kNotFound, "none.npy");
  const Tensor narrow = Tensor{1.0F, 2.0F}.astype(DType::kBF16);
  EXPECT_ERROR(save_npy(folder / "b.npy", narrow), ErrorCode::kInvalidArgument, "bfloat16");
}

}  // namespace
}  // namespace tenon::testing
