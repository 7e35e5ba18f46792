// The CPU as a driver: how much memory it gives away, and that programs unload their objects.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/cpu_device.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tenon/backend/cpu/clang_unit_compiler.h"
#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/object_loader.h"
#include "tenon/device/program.h"
#include "tests/backend/cpu/compile_for_test.h"
#include "tests/support/expect_error.h"

namespace tenon::cpu {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(CpuDevice, ManyAllocationsTogetherRunIntoTheLimit) {
  const auto device = open_cpu_device(0, target_of_arch(""), 20 * kMiB);
  Allocator& allocator = device->allocator();
  std::vector<void*> given;
  for (int i = 0; i < 4; ++i)
    given.push_back(allocator.allocate(4 * kMiB));
  given.push_back(allocator.allocate(1 * kMiB));
  EXPECT_ERROR(allocator.allocate(4 * kMiB), ErrorCode::kOutOfMemory, "CPU: 4.0 MiB",
               "17.0 MiB are in use", "the limit is 20.0 MiB");
  EXPECT_ERROR(allocator.allocate(21 * kMiB), ErrorCode::kOutOfMemory, "21.0 MiB");
  allocator.free(given[0], 4 * kMiB);
  given[0] = allocator.allocate(4 * kMiB);  // refusals are not counted, what is freed is
  given.push_back(allocator.allocate(3 * kMiB));
  EXPECT_ERROR(allocator.allocate(1), ErrorCode::kOutOfMemory, "20.0 MiB are in use");
  const std::array<int64_t, 6> sizes = {4, 4, 4, 4, 1, 3};
  for (size_t i = 0; i < given.size(); ++i)
    allocator.free(given[i], sizes[i] * kMiB);
  allocator.free(allocator.allocate(20 * kMiB), 20 * kMiB);
}

TEST(CpuDevice, ThePoolTellsOfTheLimitAndGivesBackItsCacheFirst) {
  const auto device = open_cpu_device(0, target_of_arch(""), 20 * kMiB);
  BufferPool pool(device->allocator(), "CPU:0", {.max_cached_bytes = 20 * kMiB});
  {
    const Buffer first = pool.allocate(8 * kMiB);
    const Buffer second = pool.allocate(8 * kMiB);
    EXPECT_ERROR(pool.allocate(8 * kMiB), ErrorCode::kOutOfMemory, "16.0 MiB are in use",
                 "allocating 8.0 MiB on 'CPU:0' failed; 4.0 MiB are free", "buffers hold 16.0 MiB");
  }
  EXPECT_EQ(pool.cached_bytes(), 16 * kMiB);
  EXPECT_EQ(pool.allocate(18 * kMiB).size_bytes(), 18 * kMiB);
}

/// A program that writes the address of its own function.
Program address_program(DeviceDriver& device, std::string_view entry,
                        const std::vector<std::byte>& payload) {
  ProgramObject object = {.entry = std::string(entry),
                          .target = to_text(device.target()),
                          .payload_format = std::string(kElfFormat),
                          .grid = {1},
                          .lanes = {1}};
  object.payload = payload;
  object.signature.arguments = {
      {.name = "out", .dtype = DType::kU64, .access = ArgumentAccess::kWrite, .num_elements = 1}};
  return Program(device, object);
}

const void* own_address(const Program& program) {
  const void* address = nullptr;
  program.launch({{.dtype = DType::kU64, .address = &address, .size_bytes = 8}});
  return address;
}

TEST(CpuDevice, AnObjectIsUnmappedWithItsLastProgram) {
  // Hidden: their addresses are found without a table.
  const std::vector<std::byte> payload = compile_for_test(R"(
#pragma GCC visibility push(hidden)
void first(void*** arguments, long b, long e, void* s) { **arguments = (void*)first; }
void second(void*** arguments, long b, long e, void* s) { **arguments = (void*)second; }
)");
  const auto device = open_cpu_device(0, target_of_arch(""));
  const void* address = nullptr;
  {
    std::optional<Program> first = address_program(*device, "first", payload);
    address = own_address(*first);
    ASSERT_TRUE(symbol_at(address).has_value());
    const Program second = address_program(*device, "second", payload);
    EXPECT_NE(own_address(second), address);
    first.reset();
    EXPECT_TRUE(symbol_at(address).has_value()) << "the other program needs the object";
    EXPECT_TRUE(symbol_at(own_address(second)).has_value());
  }
  EXPECT_EQ(symbol_at(address), std::nullopt);
  const Program again = address_program(*device, "first", payload);
  EXPECT_TRUE(symbol_at(own_address(again)).has_value());
}

}  // namespace
}  // namespace tenon::cpu
