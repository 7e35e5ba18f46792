// Which copies are made and which are not: views, imported memory, transfers and maps, each with
// what is done where a device lacks them. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "tenon/engine/events.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using ::testing::ElementsAre;
using testing::EngineTest;
using ::testing::HasSubstr;
using testing::realized;
using testing::used_bytes_of;
using testing::values_of;

std::vector<int32_t> ramp(size_t count) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), -5);
  return values;
}

class Copies : public EngineTest {
 protected:
  Copies() {
    set_event_hook([this](const EngineEvent& event) {
      if (event.kind == EngineEvent::Kind::kCopied) ways_.emplace_back(event.text);
    });
  }
  ~Copies() override { set_event_hook({}); }

  std::vector<std::string> ways_;
  const ScopedMemoryChecks none_{MemoryChecks{}};  // guards cost views and imports
};

TEST_F(Copies, BetweenDevicesTakeTheBestWayThatBothHave) {
  const auto values = ramp(5000);
  const auto copied = [&](const char* from, const char* to) {
    ways_.clear();
    const Node x = buffer_of(values, {5000}, Device::get(from));
    EXPECT_EQ(realized<int32_t>(tensor_copy(x, Device::get(to).number())), values) << from << to;
    return ways_;
  };
  EXPECT_THAT(copied("CPU:CLANG", "CPU::x86_64,avx"), ElementsAre("by the devices"));
  EXPECT_THAT(copied("INTERP", "INTERP::CPU"), ElementsAre("by the devices"));
  EXPECT_THAT(copied("CPU", "INTERP"), ElementsAre("in mapped memory"));
  EXPECT_THAT(copied("INTERP", "CPU"), ElementsAre("in mapped memory"));
  EXPECT_THAT(copied("NULL", "CPU"), ElementsAre("in mapped memory"));
  EXPECT_THAT(copied("NULL", "INTERP"), ElementsAre("through the host"));
  EXPECT_THAT(copied("INTERP", "NULL"), ElementsAre("through the host"));
}

TEST_F(Copies, ThroughTheHostGoInParts) {
  const auto values = ramp((size_t{16} << 20) / 4 * 2 + 3);  // two whole parts and a rest
  const Node x = buffer_of(values, {std::ssize(values)}, Device::get("NULL"));
  EXPECT_EQ(realized<int32_t>(tensor_copy(x, Device::get("INTERP").number())), values);
  EXPECT_THAT(ways_, ElementsAre("through the host"));
}

TEST_F(Copies, TransfersReportWhatNobodyWrote) {
  EngineDevice& from = engine_device(Device::get("INTERP"));
  const Buffer source = from.allocate(64);
  const Buffer target = engine_device(Device::get("INTERP::CPU")).allocate(64);
  EXPECT_ERROR(target.copy_from(source), ErrorCode::kDeviceFailed, "nobody has written byte 0");
}

/// Elements begin to end of the first axis.
Node rows(const Node& x, int64_t begin, int64_t end) {
  std::vector<int64_t> first(x.shape().size(), 0);
  std::vector<int64_t> last(x.shape().begin(), x.shape().end());
  first[0] = begin;
  last[0] = end;
  return tensor_shrink(x, first, last);
}

TEST_F(Copies, APartInOnePieceIsAView) {
  for (const char* name : {"CPU", "INTERP"}) {
    Device& device = Device::get(name);
    const Node x = buffer_of(ramp(640), {10, 4, 16}, device);
    const int64_t used = used_bytes_of(device);
    RealizeStats stats;
    const Node part = tensor_reshape(rows(x, 3, 5), Shape{8, 16});
    auto expected = ramp(640);
    expected = {expected.begin() + 192, expected.begin() + 320};
    EXPECT_EQ(realized<int32_t>(part, &stats), expected);
    const std::vector<int64_t> begin = {7, 2, 0};
    const std::vector<int64_t> end = {8, 3, 16};
    const Node row = tensor_shrink(x, begin, end);
    EXPECT_EQ(realized<int32_t>(row, &stats).front(), ramp(640)[7 * 64 + 2 * 16]);
    EXPECT_EQ(stats.kernels, 0) << name;
    EXPECT_EQ(used_bytes_of(device), used) << name;
    const Node deep = rows(tensor_reshape(rows(x, 2, 9), Shape{28, 16}), 6, 7);
    EXPECT_EQ(realized<int32_t>(deep, &stats).front(), ramp(640)[2 * 64 + 6 * 16]);
    EXPECT_EQ(stats.kernels, 0);
    // Kernels read it, and parts of it are views as well.
    const Node leaf = realized_leaf(part);
    EXPECT_EQ(realized<int32_t>(tensor_binary(Op::kAdd, leaf, leaf), &stats)[9], 2 * expected[9]);
    EXPECT_EQ(stats.kernels, 1);
    EXPECT_EQ(realized<int32_t>(rows(leaf, 7, 8), &stats).front(), expected[7 * 16]);
    EXPECT_EQ(stats.kernels, 1);
  }
}

TEST_F(Copies, AViewKeepsTheWhole) {
  Device& device = Device::get("CPU");
  const int64_t before = used_bytes_of(device);
  {
    Node part;
    {
      const Node x = buffer_of(ramp(1024), {64, 16}, device);
      const Node nodes[] = {rows(x, 32, 34)};
      realize(nodes);
      part = realized_leaf(nodes[0]);
    }
    EXPECT_GE(used_bytes_of(device), before + 4096);
    EXPECT_EQ(values_of<int32_t>(part).front(), 32 * 16 - 5);
  }
  EXPECT_EQ(used_bytes_of(device), before);
}

TEST_F(Copies, WhatCannotBeAViewIsComputed) {
  const Node x = buffer_of(ramp(640), {40, 16}, Device::get("CPU"));
  const auto kernels_of = [](const Node& node, const std::vector<int32_t>& expected) {
    RealizeStats stats;
    EXPECT_EQ(realized<int32_t>(node, &stats), expected);
    return stats.kernels;
  };
  const auto all = ramp(640);
  // Not at a multiple of 64 bytes.
  const Node flat = tensor_reshape(x, Shape{640});
  EXPECT_EQ(kernels_of(rows(flat, 1, 4), {all[1], all[2], all[3]}), 1);
  // Not in one piece.
  const std::vector<int64_t> begin = {0, 0};
  const std::vector<int64_t> end = {2, 2};
  EXPECT_EQ(kernels_of(tensor_shrink(x, begin, end), {all[0], all[1], all[16], all[17]}), 1);
  // Memory of its own was asked for.
  const std::vector<int32_t> head(all.begin(), all.begin() + 16);
  EXPECT_EQ(kernels_of(tensor_contiguous(rows(x, 0, 1)), head), 1);
  // Guards.
  const ScopedMemoryChecks guarded;
  EXPECT_EQ(kernels_of(rows(flat, 0, 16), head), 1);
}

/// Memory of the host that begins at a multiple of 64 bytes, plus `shift`.
HostBytes host_ramp(size_t count, size_t shift = 0) {
  const std::shared_ptr<void> owner(std::aligned_alloc(64, (count * 4 + shift + 127) / 64 * 64),
                                    std::free);
  auto* const begin = static_cast<std::byte*>(owner.get()) + shift;
  std::memcpy(begin, ramp(count).data(), count * 4);
  return {.bytes = {begin, count * 4}, .owner = owner};
}

TEST_F(Copies, MemoryOfTheHostIsReadInPlace) {
  Device& device = Device::get("CPU");
  const int64_t used = used_bytes_of(device);
  HostBytes host = host_ramp(1000);
  const std::weak_ptr<const void> owner = host.owner;
  {
    const Node x = buffer_from_host(device, DType::kI32, Shape{1000}, host);
    EXPECT_EQ(used_bytes_of(device), used);
    host = {};
    EXPECT_FALSE(owner.expired());
    EXPECT_EQ(values_of<int32_t>(x), ramp(1000));
    EXPECT_EQ(realized<int32_t>(tensor_binary(Op::kMul, x, x))[999], 994 * 994);
  }
  EXPECT_TRUE(owner.expired());
  EXPECT_EQ(engine_device(device).pool().used_bytes(), used);
}

TEST_F(Copies, MemoryThatCannotBeImportedIsCopied) {
  const auto copied = [&](const char* name, const HostBytes& host) {
    Device& device = Device::get(name);
    const int64_t used = used_bytes_of(device);
    const int64_t owners = host.owner.use_count();
    const Node x = buffer_from_host(device, DType::kI32, Shape{1000}, host);
    EXPECT_EQ(values_of<int32_t>(x), ramp(1000));
    EXPECT_EQ(host.owner.use_count(), owners);
    return used_bytes_of(device) > used;
  };
  EXPECT_TRUE(copied("CPU", host_ramp(1000, 4)));
  EXPECT_TRUE(copied("INTERP", host_ramp(1000)));
  const ScopedMemoryChecks guarded;
  EXPECT_TRUE(copied("CPU", host_ramp(1000)));
  EXPECT_ERROR(buffer_from_host(Device::get("CPU"), DType::kI32, Shape{0}, HostBytes{}),
               ErrorCode::kInvalidArgument, "nobody owns");
  EXPECT_ERROR(buffer_from_host(Device::get("CPU"), DType::kI32, Shape{9}, host_ramp(8)),
               ErrorCode::kInvalidArgument, "36 bytes", "32");
}

TEST_F(Copies, ViewsThatADeviceLacksAreRefusedByName) {
  const Node x = buffer_of(ramp(64), {64}, Device::get("NULL"));
  EXPECT_ERROR(buffer_view(x, DType::kI32, Shape{16}, 64), ErrorCode::kUnsupported, "NULL",
               "parts of others");
  const Node y = buffer_of(ramp(64), {64}, Device::get("CPU"));
  EXPECT_ERROR(buffer_view(y, DType::kI32, Shape{4}, 4), ErrorCode::kUnsupported, "multiple of 64");
  EXPECT_ERROR(buffer_view(y, DType::kI32, Shape{64}, 64), ErrorCode::kInvalidArgument,
               "256 bytes");
  EXPECT_EQ(values_of<int16_t>(buffer_view(y, DType::kI16, Shape{2}, 64)),
            (std::vector<int16_t>{11, 0}));
  EXPECT_ERROR(buffer_of_content(Device::get("CPU")), ErrorCode::kUnsupported, "CPU", "content");
}

}  // namespace
}  // namespace tenon
