// Poison and guards, shown on a device that writes nothing, or too much.
// SPDX-License-Identifier: MIT

#include "tenon/engine/memory_checks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tenon/engine/backend.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/linear_text.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using testing::realized;

enum class Fault : uint8_t { kWritesNothing, kWritesBefore, kWritesBeyond, kWritesItsInput };
std::atomic<Fault> current_fault = Fault::kWritesNothing;

class FaultyAllocator final : public Allocator {
 public:
  void* allocate(int64_t size_bytes) override {
    return std::aligned_alloc(64, static_cast<size_t>((size_bytes + 63) / 64 * 64));
  }
  void free(void* address, int64_t) noexcept override { std::free(address); }
  void copy_in(void* dst, std::span<const std::byte> src) override {
    std::memcpy(dst, src.data(), src.size());
  }
  void copy_out(std::span<std::byte> dst, const void* src) override {
    std::memcpy(dst.data(), src, dst.size());
  }
};

/// Misbehaves with the first two arguments, an output and an input of one size.
class FaultyProgram final : public LoadedProgram {
 public:
  explicit FaultyProgram(const Argument& output)
      : size_bytes_(output.num_elements * dtype_size_bytes(output.dtype)) {}
  void launch(std::span<const std::byte> arguments) override {
    std::byte* addresses[2];
    std::memcpy(addresses, arguments.data(), sizeof addresses);
    switch (current_fault) {
      case Fault::kWritesNothing: return;
      case Fault::kWritesBefore: addresses[0][-2] = std::byte{1}; return;
      case Fault::kWritesBeyond: addresses[0][size_bytes_] = std::byte{1}; return;
      case Fault::kWritesItsInput: addresses[1][size_bytes_ + 3] = std::byte{1}; return;
    }
  }

 private:
  int64_t size_bytes_;
};

/// Device 1 works while the host goes on.
class FaultyDevice final : public DeviceDriver {
 public:
  FaultyDevice(int index, Target target) : index_(index), target_(std::move(target)) {}
  const std::string& name() const override { return name_; }
  const Target& target() const override { return target_; }
  Allocator& allocator() override { return allocator_; }
  std::unique_ptr<LoadedProgram> load(const ProgramObject& object) override {
    return std::make_unique<FaultyProgram>(object.signature.arguments.at(0));
  }
  void synchronize() override {}
  std::unique_ptr<Queue> make_queue() override {
    return std::make_unique<HostQueue>(
        *this, index_ == 0 ? HostQueue::Mode::kCaller : HostQueue::Mode::kThread);
  }

 private:
  const int index_;
  const std::string name_ = "FAULTY";
  const Target target_;
  FaultyAllocator allocator_;
};

Device& faulty_device(const char* name = "FAULTY") {
  static const bool is_registered = [] {
    register_backend({.name = "FAULTY",
                      .borrows_renderers = true,
                      .why_absent = [] { return std::optional<std::string>(); },
                      .num_devices = [] { return 2; },
                      .open = [](int index, const Target& target) -> std::unique_ptr<DeviceDriver> {
                        return std::make_unique<FaultyDevice>(index, target);
                      }});
    return true;
  }();
  static_cast<void>(is_registered);
  return Device::get(name);
}

class MemoryChecksTest : public EngineTest {
 protected:
  Node doubled(Device& device = faulty_device()) {
    const Node x = buffer_of<float>({1, 2, 3, 4, 5}, {5}, device);
    return tensor_binary(Op::kAdd, x, x);
  }
};

TEST_F(MemoryChecksTest, WhatNoKernelWroteIsPoison) {
  current_fault = Fault::kWritesNothing;
  EXPECT_EQ(realized<uint32_t>(doubled()), std::vector<uint32_t>(5, 0xdbdbdbdb));
}

TEST_F(MemoryChecksTest, WritesOutsideABufferAreBugsWithTheKernelsName) {
  const Node nodes[] = {doubled()};
  current_fault = Fault::kWritesBefore;
  EXPECT_ERROR(realize(nodes), ErrorCode::kInternal, "kernel 'e_5', argument 0", "byte -2 of",
               "20 bytes");
  current_fault = Fault::kWritesBeyond;
  EXPECT_ERROR(realize(nodes), ErrorCode::kInternal, "kernel 'e_5', argument 0", "byte 20 of");
  current_fault = Fault::kWritesItsInput;
  EXPECT_ERROR(realize(nodes), ErrorCode::kInternal, "argument 1", "byte 23 of");
  EXPECT_FALSE(nodes[0].value());
}

TEST_F(MemoryChecksTest, OnAQueueOfItsOwnTheReadGetsThem) {
  Device& device = faulty_device("FAULTY:1");
  current_fault = Fault::kWritesNothing;
  EXPECT_EQ(realized<uint32_t>(doubled(device)), std::vector<uint32_t>(5, 0xdbdbdbdb));
  current_fault = Fault::kWritesBeyond;
  const Node nodes[] = {doubled(device)};
  EXPECT_NO_THROW(realize(nodes));
  EXPECT_ERROR(read_bytes(nodes[0]), ErrorCode::kInternal, "kernel 'e_5', argument 0", "byte 20 of",
               "while realising add of shape (5)");
  current_fault = Fault::kWritesNothing;
  EXPECT_EQ(realized<uint32_t>(doubled(device)), std::vector<uint32_t>(5, 0xdbdbdbdb));
}

/// y[i + 1] = x[i] for i < 4: one element beyond.
LinearProgram program_that_writes_beyond() {
  return parse_linear(R"(tir 1 func f grid(2) lanes(1) scratch 0 {
  arg 0 x i32[4] read
  arg 1 y i32[4] write
  %x = param 0 %y = param 1 %g = grid_id 0 i32 %two = const i32 2
  %b = mul i32 %g, %two %e = add i32 %b, %two
  for %i = %b..%e { %v = load i32 %x[%i] store %y[%i + 1], %v } })");
}

TEST_F(MemoryChecksTest, GuardsFindRealProgramsOnEachDevice) {
  const std::vector<int32_t> given = {1, 2, 3, 4};
  for (const char* name : {"CPU:CLANG", "CPU", "INTERP"}) {
    EngineDevice& device = engine_device(Device::get(name));
    const Program program(device.driver(), compile_linear(device, program_that_writes_beyond()));
    std::vector<Buffer> buffers;
    std::vector<ArgumentValue> values;
    for (int i = 0; i < 2; ++i) {
      buffers.push_back(device.allocate(16));  // with the guards that TENON_GUARD=1 asks for
      buffers[static_cast<size_t>(i)].copy_in(std::as_bytes(std::span(given)));
      values.push_back({.is_buffer = true,
                        .dtype = DType::kI32,
                        .address = buffers.back().address(),
                        .size_bytes = 16});
    }
    if (device.renderer_name() == "TIR") {  // the device itself sees it
      EXPECT_ERROR(program.launch(values), ErrorCode::kDeviceFailed, "index 4 of argument 'y'");
      continue;
    }
    program.launch(values);
    device.driver().synchronize();
    EXPECT_EQ(buffers[0].why_guard_broken(), std::nullopt);
    const std::optional<std::string> reason = buffers[1].why_guard_broken();
    ASSERT_TRUE(reason) << name;
    EXPECT_EQ(*reason, "byte 16 of a buffer of 16 bytes was written: beyond its end");
  }
}

TEST_F(MemoryChecksTest, ScopesEndInOrder) {
  EXPECT_TRUE(memory_checks().poison_outputs);
  {
    const ScopedMemoryChecks none(MemoryChecks{});
    EXPECT_FALSE(memory_checks().poison_outputs);
    EXPECT_EQ(memory_checks().guard_bytes, 0);
  }
  EXPECT_EQ(memory_checks().guard_bytes, 256);
}

}  // namespace
}  // namespace tenon
