// INTERP as a device: names and Targets, programs and what is no program, reports of launches.
// SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "tenon/device/program.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/linear_text.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
constexpr auto kInvalid = ErrorCode::kInvalidArgument;

class InterpDevice : public testing::EngineTest {
 protected:
  EngineDevice& device_ = engine_device(Device::get("INTERP"));
};

/// y[i] = x[i + shift] for i < 4, two in each group.
LinearProgram copying_program(int shift) {
  return parse_linear(concat(R"(tir 1 func f grid(2) lanes(1) scratch 0 {
  arg 0 x i32[4] read
  arg 1 y i32[4] write
  %x = param 0 %y = param 1 %g = grid_id 0 i32 %two = const i32 2
  %b = mul i32 %g, %two %e = add i32 %b, %two
  for %i = %b..%e { %v = load i32 %x[%i + )",
                             shift, "] store %y[%i], %v } }"));
}

ArgumentValue argument_of(const Buffer& buffer, int64_t first = 0) {
  return {.is_buffer = true,
          .dtype = DType::kI32,
          .address = reinterpret_cast<void*>(reinterpret_cast<uint64_t>(buffer.address()) +
                                             static_cast<uint64_t>(first) * 4),
          .size_bytes = buffer.size_bytes() - first * 4};
}

Buffer filled(EngineDevice& device, const std::vector<int32_t>& values) {
  Buffer buffer = device.allocate(std::ssize(values) * 4);
  buffer.copy_in(std::as_bytes(std::span(values)));
  return buffer;
}

std::vector<int32_t> read(const Buffer& buffer, size_t count) {
  std::vector<int32_t> values(count);
  buffer.copy_out(std::as_writable_bytes(std::span(values)));
  return values;
}

TEST_F(InterpDevice, RunsProgramsOnViewsIntoBuffers) {
  const Program program(device_.driver(), compile_linear(device_, copying_program(0)));
  const Buffer x = filled(device_, {1, 2, 3, 4, 5, 6});
  const Buffer y = device_.allocate(16);
  program.launch({argument_of(x, 2), argument_of(y)});
  EXPECT_EQ(read(y, 4), (std::vector<int32_t>{3, 4, 5, 6}));
}

TEST_F(InterpDevice, LaunchesReportWhatTheyFind) {
  const Program program(device_.driver(), compile_linear(device_, copying_program(1)));
  const Buffer x = filled(device_, {1, 2, 3, 4});
  const Buffer y = filled(device_, {9, 9, 9, 9});
  EXPECT_ERROR(program.launch({argument_of(x), argument_of(y)}), ErrorCode::kDeviceFailed,
               "INTERP:0", "kernel 'f'", "in group 1, lane 0: index 4 of argument 'x' with 4");
  EXPECT_EQ(read(y, 4), (std::vector<int32_t>{2, 3, 4, 9}));
}

TEST_F(InterpDevice, InputsMustHaveBeenWritten) {
  const Program program(device_.driver(), compile_linear(device_, copying_program(0)));
  const Buffer x = device_.allocate(16);
  const Buffer y = device_.allocate(16);
  EXPECT_ERROR(program.launch({argument_of(x), argument_of(y)}), ErrorCode::kDeviceFailed,
               "reads element 0 of argument 'x', which was never written");
}

TEST_F(InterpDevice, ABufferThatWasReleasedIsFoundOut) {
  const Program program(device_.driver(), compile_linear(device_, copying_program(0)));
  const Buffer x = filled(device_, {1, 2, 3, 4});
  ArgumentValue kept;
  {
    const Buffer y = device_.allocate(16);
    kept = argument_of(y);
  }
  EXPECT_ERROR(program.launch({argument_of(x), kept}), ErrorCode::kDeviceFailed, "given back");
  device_.pool().trim();
  EXPECT_ERROR(program.launch({argument_of(x), kept}), ErrorCode::kDeviceFailed, "given back");
  int32_t host[4] = {};
  kept.address = host;
  EXPECT_ERROR(program.launch({argument_of(x), kept}), ErrorCode::kDeviceFailed, "no buffer lies");
}

TEST_F(InterpDevice, TakesTheTargetOfAnotherDevice) {
  Device& cpu = Device::get("CPU");
  Device& borrowed = Device::get("interp::cpu");
  EXPECT_EQ(borrowed.target(), cpu.target());
  EXPECT_EQ(borrowed.name(), "INTERP:0:TIR:CPU");
  EXPECT_EQ(&Device::get("INTERP:0:TIR:CPU"), &borrowed);
  EXPECT_EQ(Device::get("INTERP:TIR:CPU:CLANG:x86_64,avx2").target(),
            Device::get("NULL:CLANG:x86_64,avx2").target());
  EXPECT_NE(device_.target(), cpu.target());
  EXPECT_ERROR(Device::get("INTERP::CPUU"), kInvalid, "CPUU", "did you mean 'CPU'", "INTERP::CPUU");
  EXPECT_ERROR(Device::get("INTERP::CPU:CLAN"), kInvalid, "no renderer called 'CLAN'",
               "did you mean 'CLANG'");
  EXPECT_ERROR(Device::get("INTERP::INTERP"), kInvalid, "INTERP");
  EXPECT_ERROR(Device::get("INTERP::CPU::x86_64,avx3"), kInvalid, "avx3");
}

TEST_F(InterpDevice, RoundsProductsAsTheTargetSays) {
  const std::string text = R"(tir 1 func f grid(1) lanes(1) scratch 0 { arg 0 y f32[1] readwrite
    %y = param 0 %i = const i32 0 %a = const f32 1.000244140625 %c = load f32 %y[%i]
    %r = mulacc f32 %a, %a, %c store %y[%i], %r })";
  const float product = -(1 + 0x1p-11F);  // -a * a, rounded
  for (const bool fuses : {false, true}) {
    Target target = device_.target();
    target.fuses_mulacc = fuses;
    ProgramObject object = compile_linear(device_, parse_linear(text));
    object.target = to_text(target);
    const Program program(device_.driver(), object);
    const Buffer y = filled(device_, {std::bit_cast<int32_t>(product)});
    ArgumentValue value = argument_of(y);
    value.dtype = DType::kF32;
    program.launch({value});
    EXPECT_EQ(std::bit_cast<float>(read(y, 1)[0]), fuses ? 0x1p-24F : 0.0F);
  }
}

TEST_F(InterpDevice, WhatIsNoProgramIsRefused) {
  const ProgramObject good = compile_linear(device_, copying_program(0));
  const auto load = [&](auto&& change) {
    ProgramObject object = good;
    change(object);
    return Program(device_.driver(), object);
  };
  const auto with_text = [&](std::string_view text) {
    return load([&](ProgramObject& object) {
      const auto bytes = std::as_bytes(std::span(text));
      object.payload.assign(bytes.begin(), bytes.end());
    });
  };
  EXPECT_NO_THROW(load([](ProgramObject&) {}));
  EXPECT_ERROR(load([](ProgramObject& object) { object.payload_format = "elf-x86_64"; }),
               ErrorCode::kUnsupported, "'elf-x86_64'", "INTERP runs 'tir'");
  EXPECT_ERROR(load([](ProgramObject& object) { object.entry = "g"; }), kInvalid,
               "no program called 'g'");
  EXPECT_ERROR(load([](ProgramObject& object) { object.target = "arch=?"; }), kInvalid);
  EXPECT_ERROR(load([](ProgramObject& object) { object.signature.arguments[0].num_elements = 3; }),
               kInvalid, "signature");
  EXPECT_ERROR(with_text(""), kInvalid, "no program called 'f'");
  EXPECT_ERROR(with_text("tir 1 func f grid(1) lanes(1) scratch 0 { store }"), kInvalid, "f:1:");
  EXPECT_ERROR(with_text("tir 1 func f grid(1) lanes(1) scratch 4 { }"), kInvalid, "scratch is 4");
}

TEST_F(InterpDevice, ProgramsOfOneObjectAreFoundByName) {
  const Compiler& compiler = device_.compiler();
  std::vector<KernelSource> sources;
  for (const char* name : {"ab", "a", "b"}) {
    LinearProgram program = copying_program(0);
    program.name = name;
    sources.push_back({name, to_text(program)});
  }
  const CompiledObject object = compiler.compile(sources);
  EXPECT_EQ(object.symbols, (std::vector<std::string>{"ab", "a", "b"}));
  for (const KernelSource& source : sources)
    EXPECT_EQ(compiler.disassemble(object.bytes, source.name), source.text);
  const KernelSource wrong{"f", "tir 1 func f grid(0) lanes(1) scratch 0 { }"};
  EXPECT_ERROR(compiler.compile({&wrong, 1}), ErrorCode::kCompileFailed, "expected an extent");
  const Renderer& renderer = *device_.renderer().renderer;
  const std::vector<RenderedSource> twice{{sources[0].text, "ab"}, {sources[0].text, "ab"}};
  EXPECT_EQ(renderer.join(twice), sources[0].text);
  const std::vector<RenderedSource> two{{sources[0].text, "ab"}, {sources[1].text, "ab"}};
  EXPECT_ERROR(renderer.join(two), kInvalid, "'ab'");
}

}  // namespace
}  // namespace tenon
