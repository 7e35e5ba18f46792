// The hand-written linear programs of this folder, compiled and run on the default device: right
// numbers, nothing written beside them. On the interpreter: tests/interp/linear_programs_test.cpp.
// SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/engine/program_store.h"
#include "tests/engine/engine_support.h"
#include "tests/ir/linear_support.h"
#include "tests/support/expect_error.h"
#include "tests/tir/tir_cases.h"

namespace tenon::testing {
namespace {

class CompiledTir : public EngineTest {};

Buffer filled_buffer(EngineDevice& device, const F32Bits& bits) {
  Buffer buffer = device.allocate(static_cast<int64_t>(bits.size() * sizeof(uint32_t)));
  buffer.copy_in(std::as_bytes(std::span(bits)));
  return buffer;
}

F32Bits read_buffer(const Buffer& buffer) {
  F32Bits bits(static_cast<size_t>(buffer.size_bytes()) / sizeof(uint32_t));
  buffer.copy_out(std::as_writable_bytes(std::span(bits)));
  return bits;
}

/// Whether the target has the units, and vectors as wide as the program's.
bool fits(const LinearProgram& program, const TirCase& item, const Target& target) {
  const bool has_units = item.units.size() <= target.units.size() &&
                         std::equal(item.units.begin(), item.units.end(), target.units.begin());
  if (!has_units) return false;
  return std::ranges::all_of(program.values, [&](const LinearValue& value) {
    const int64_t bytes = value.type.lanes * dtype_size_bytes(value.type.dtype);
    return value.type.lanes == 1 || bytes <= target.max_vector_bytes;
  });
}

TEST_F(CompiledTir, OneLaneProgramsGiveTheExpectedNumbers) {
  EngineDevice& device = engine_device(Device::get_default());
  int num_run = 0;
  int num_too_wide = 0;
  for (const TirCase& item : tir_cases()) {
    const LinearProgram linear = tir_program(item.file);
    if (num_lanes(linear) != 1) continue;
    if (!fits(linear, item, device.target())) {
      ++num_too_wide;
      continue;
    }
    const Program program(device.driver(), compile_linear(device, linear));
    std::vector<Buffer> buffers;
    for (const F32Bits& input : item.inputs)
      buffers.push_back(filled_buffer(device, input));
    buffers.push_back(filled_buffer(device, poisoned<uint32_t>(item.num_outputs)));
    std::vector<ArgumentValue> arguments;
    for (const Buffer& buffer : buffers) {
      arguments.push_back({.is_buffer = true,
                           .dtype = DType::kF32,
                           .address = buffer.address(),
                           .size_bytes = buffer.size_bytes()});
    }
    program.launch(arguments);
    EXPECT_EQ(item.find_fault(read_buffer(buffers.back())), "") << item.file;
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(buffers[i].why_guard_broken(), std::nullopt) << item.file << ", argument " << i;
      if (i < item.inputs.size()) {
        EXPECT_EQ(read_buffer(buffers[i]), item.inputs[i]) << item.file << ", argument " << i;
      }
    }
    ++num_run;
  }
  EXPECT_EQ(num_run + num_too_wide, 4);
  if (num_run == 0) GTEST_SKIP() << device.name() << " has narrower vectors than they use";
}

TEST_F(CompiledTir, SeveralLanesAreRefusedByADeviceOfOne) {
  EngineDevice& device = engine_device(Device::get_default());
  if (device.target().max_lanes > 1) GTEST_SKIP() << device.name() << " runs several lanes";
  EXPECT_ERROR(compile_linear(device, tir_program("tree_sum.tir")), ErrorCode::kUnsupported,
               "tree_sum", "lanes");
}

}  // namespace
}  // namespace tenon::testing
