// Program over a device that records what reaches it: the packed argument block, and that nothing
// does when the values are wrong. SPDX-License-Identifier: MIT

#include "tenon/device/program.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using Blocks = std::vector<std::vector<std::byte>>;

class RecordingProgram final : public LoadedProgram {
 public:
  explicit RecordingProgram(Blocks& blocks) : blocks_(blocks) {}
  void launch(std::span<const std::byte> arguments) override {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arguments.data()) % 8, 0u);
    blocks_.emplace_back(arguments.begin(), arguments.end());
  }

 private:
  Blocks& blocks_;
};

class RecordingDevice final : public DeviceDriver {
 public:
  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { fail(ErrorCode::kUnsupported, "no memory here"); }
  std::unique_ptr<LoadedProgram> load(const ProgramObject& object) override {
    TENON_CHECK(object.payload_format == "test", ErrorCode::kUnsupported, "not a test payload");
    return std::make_unique<RecordingProgram>(blocks);
  }
  void synchronize() override {}

  Blocks blocks;

 private:
  const std::string name_ = "REC:0";
  const Target target_;
};

ProgramObject object_of(Signature signature) {
  return {.entry = "k", .payload_format = "test", .signature = std::move(signature)};
}

TEST(Program, PacksBuffersAndScalarsAtTheirOffsets) {
  RecordingDevice device;
  Signature signature;
  signature.arguments = {
      {.name = "a", .dtype = DType::kI8, .is_buffer = false, .min = -128, .max = 127},
      {.name = "b", .dtype = DType::kF32, .num_elements = 3},
      {.name = "c", .dtype = DType::kU16, .is_buffer = false, .min = 0, .max = 65535}};
  const Program program(device, object_of(signature));
  float storage[3];
  const std::vector<ArgumentValue> values = {
      {.is_buffer = false, .dtype = DType::kI8, .bits = ~uint64_t{0} - 4},
      {.is_buffer = true, .dtype = DType::kF32, .address = storage, .size_bytes = 12},
      {.is_buffer = false, .dtype = DType::kU16, .bits = 0xabcd}};
  program.launch(values);
  ASSERT_EQ(device.blocks.size(), 1u);
  const std::vector<std::byte>& block = device.blocks[0];
  ASSERT_EQ(block.size(), 24u);
  EXPECT_EQ(block[0], std::byte{0xfb});  // -5
  const void* address = nullptr;
  std::memcpy(&address, block.data() + 8, 8);
  EXPECT_EQ(address, storage);
  EXPECT_EQ(block[16], std::byte{0xcd});
  EXPECT_EQ(block[17], std::byte{0xab});
}

TEST(Program, ManyArgumentsArePackedToo) {
  RecordingDevice device;
  Signature signature;
  std::vector<ArgumentValue> values;
  for (uint64_t i = 0; i < 1000; ++i) {
    signature.arguments.push_back(
        {.name = "s", .dtype = DType::kU64, .is_buffer = false, .min = 0, .max = -1});
    values.push_back({.is_buffer = false, .dtype = DType::kU64, .bits = i * 0x123456789abcdefULL});
  }
  const Program program(device, object_of(signature));
  program.launch(values);
  ASSERT_EQ(device.blocks[0].size(), 8000u);
  for (size_t i = 0; i < 1000; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, device.blocks[0].data() + 8 * i, 8);
    ASSERT_EQ(bits, values[i].bits) << i;
  }
}

TEST(Program, WrongValuesNeverReachTheDevice) {
  RecordingDevice device;
  Signature signature;
  signature.arguments = {{.name = "x", .dtype = DType::kF32, .num_elements = 3}};
  const Program program(device, object_of(signature));
  float storage[3];
  EXPECT_ERROR(program.launch({}), ErrorCode::kInvalidArgument, "launch of kernel 'k' on 'REC:0'",
               "0 arguments");
  EXPECT_ERROR(program.launch({{.dtype = DType::kF32, .address = storage, .size_bytes = 8}}),
               ErrorCode::kInvalidArgument, "8 bytes", "12 bytes");
  EXPECT_TRUE(device.blocks.empty());
}

/// Three buffers of four floats: x is read, y as the signature says, z is read.
Signature with_access(ArgumentAccess access) {
  Signature signature;
  signature.arguments = {{.name = "x", .dtype = DType::kF32, .num_elements = 4},
                         {.name = "y", .dtype = DType::kF32, .access = access, .num_elements = 4},
                         {.name = "z", .dtype = DType::kF32, .num_elements = 4}};
  return signature;
}

/// The buffers begin at these elements of one array; the last one is larger than what is used.
std::vector<ArgumentValue> at_elements(std::vector<float>& array, std::vector<size_t> starts) {
  std::vector<ArgumentValue> values;
  for (const size_t start : starts)
    values.push_back({.dtype = DType::kF32, .address = array.data() + start, .size_bytes = 16});
  values.back().size_bytes = 20;
  return values;
}

TEST(Program, WhatIsWrittenOverlapsNothing) {
  RecordingDevice device;
  std::vector<float> array(20);
  for (const ArgumentAccess access : {ArgumentAccess::kWrite, ArgumentAccess::kReadWrite}) {
    const Program program(device, object_of(with_access(access)));
    device.blocks.clear();
    EXPECT_ERROR(program.launch(at_elements(array, {4, 4, 12})), ErrorCode::kInvalidArgument,
                 "launch of kernel 'k' on 'REC:0'", "argument 1 'y'", "argument 0 'x'",
                 "share bytes");
    EXPECT_ERROR(program.launch(at_elements(array, {0, 4, 7})), ErrorCode::kInvalidArgument,
                 "argument 1 'y'", "argument 2 'z'");
    EXPECT_ERROR(program.launch(at_elements(array, {0, 8, 5})), ErrorCode::kInvalidArgument,
                 "argument 1 'y'", "argument 2 'z'");
    EXPECT_TRUE(device.blocks.empty());
    // Neighbours, two that are read, and bytes behind those that are used.
    program.launch(at_elements(array, {0, 4, 8}));
    program.launch(at_elements(array, {0, 8, 0}));
    program.launch(at_elements(array, {12, 8, 4}));
    EXPECT_EQ(device.blocks.size(), 3u);
  }
  const Program reads(device, object_of(with_access(ArgumentAccess::kRead)));
  reads.launch(at_elements(array, {0, 0, 0}));
}

TEST(Program, RefusalOfTheDeviceGainsTheProgramsName) {
  RecordingDevice device;
  ProgramObject object = object_of({});
  object.payload_format = "other";
  EXPECT_ERROR(Program(device, object), ErrorCode::kUnsupported, "not a test payload",
               "while loading program 'k' on 'REC:0'");
}

}  // namespace
}  // namespace tenon
