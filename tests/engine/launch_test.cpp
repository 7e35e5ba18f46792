// Arguments on their way into kernels: buffers and scalars of every width and sign, in every order,
// through the whole chain from .tir text to a launch. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <type_traits>

#include "tenon/base/text.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/linear_text.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::EngineTest;

class Launch : public EngineTest {};

const std::vector<DType>& scalar_dtypes() {
  static const std::vector<DType> dtypes = {
      DType::kBool, DType::kI8,     DType::kI16,    DType::kI32, DType::kI64,
      DType::kU8,   DType::kU16,    DType::kU32,    DType::kU64, DType::kF16,
      DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kF32, DType::kF64};
  return dtypes;
}

std::string range_of(DType dtype) {
  if (!is_int(dtype)) return "";
  if (is_signed_int(dtype)) {
    return concat(" in ", static_cast<int64_t>(int_min_bits(dtype)), "..",
                  static_cast<int64_t>(int_max_bits(dtype)));
  }
  return concat(" in 0..", int_max_bits(dtype));
}

/// One argument of a test program: a buffer of one i32 that gets `mark`, or a scalar that is stored
/// into an output buffer of its dtype.
struct Item {
  bool is_buffer;
  DType dtype;
  int mark;
};

/// A program that takes `items` in this order, then one output buffer for each scalar.
std::string program_text(const std::string& name, const std::vector<Item>& items) {
  std::string arguments;
  std::string body = "  %zero = const i32 0\n";
  int number = 0;
  std::string outputs;
  const auto num_items = static_cast<int>(items.size());
  int num_scalars = 0;
  for (const Item& item : items) {
    append(body, "  %p", number, " = param ", number, "\n");
    if (item.is_buffer) {
      append(arguments, "  arg ", number, " b", number, " i32[1] write\n");
      append(body, "  %m", number, " = const i32 ", item.mark, "\n  store %p", number,
             "[%zero], %m", number, "\n");
    } else {
      append(arguments, "  arg ", number, " s", number, " ", dtype_name(item.dtype),
             range_of(item.dtype), "\n");
      const int out = num_items + num_scalars++;
      append(outputs, "  arg ", out, " o", out, " ", dtype_name(item.dtype), "[1] write\n");
      append(body, "  %p", out, " = param ", out, "\n  store %p", out, "[%zero], %p", number, "\n");
    }
    ++number;
  }
  return concat("tir 1 func ", name, " grid(1) lanes(1) scratch 0 {\n", arguments, outputs, body,
                "}\n");
}

/// Launches with fresh buffers and random scalars and compares what arrived.
void launch_and_compare(EngineDevice& device, const Program& program,
                        const std::vector<Item>& items, std::mt19937_64& random) {
  std::vector<Buffer> buffers;
  std::vector<ArgumentValue> values;
  const auto add_buffer = [&](DType dtype) {
    buffers.push_back(device.allocate(dtype_size_bytes(dtype)));
    buffers.back().fill(kPoisonByte);
    values.push_back({.is_buffer = true,
                      .dtype = dtype,
                      .address = buffers.back().address(),
                      .size_bytes = buffers.back().size_bytes()});
  };
  std::vector<uint64_t> expected;  // bits of each buffer, by number
  std::vector<uint64_t> scalars;
  for (const Item& item : items) {
    if (item.is_buffer) {
      add_buffer(DType::kI32);
      expected.push_back(static_cast<uint32_t>(item.mark));
    } else {
      const uint64_t bits =
          item.dtype == DType::kBool ? random() % 2 : canonical_bits(item.dtype, random());
      values.push_back({.is_buffer = false, .dtype = item.dtype, .bits = bits});
      scalars.push_back(bits);
    }
  }
  size_t next_scalar = 0;
  for (const Item& item : items) {
    if (item.is_buffer) continue;
    add_buffer(item.dtype);
    expected.push_back(scalars[next_scalar++]);
  }
  program.launch(values);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const auto size = static_cast<size_t>(buffers[i].size_bytes());
    uint64_t got = 0;
    buffers[i].copy_out(std::as_writable_bytes(std::span(&got, 1)).first(size));
    const uint64_t mask = size == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * size)) - 1;
    ASSERT_EQ(got, expected[i] & mask) << program.name() << ", buffer " << i;
    ASSERT_EQ(buffers[i].why_guard_broken(), std::nullopt);
  }
}

/// Compiles all programs in one go, launches each twice with new values.
void run_all(const std::vector<std::vector<Item>>& signatures) {
  EngineDevice& device = engine_device(Device::get_default());
  std::vector<KernelSource> sources;
  std::vector<ProgramObject> objects;
  for (size_t i = 0; i < signatures.size(); ++i) {
    const std::string text = program_text(concat("launch_", i), signatures[i]);
    const LinearProgram program = parse_linear(text);
    RenderedSource source = device.renderer().renderer->render(program, device.target());
    sources.push_back({.name = source.entry, .text = source.text});
    objects.push_back({.target = to_text(device.target()),
                       .signature = program.signature,
                       .grid = program.grid,
                       .lanes = program.lanes});
  }
  const CompiledObject compiled = device.compiler().compile(sources);
  std::mt19937_64 random(20240607);
  for (size_t i = 0; i < signatures.size(); ++i) {
    objects[i].entry = compiled.symbols[i];
    objects[i].payload_format = device.compiler().payload_format();
    objects[i].payload = compiled.bytes;
    // Through the file format, as a second process would see it.
    const Program program(device.driver(),
                          parse_program_object(serialize_program_object(objects[i])));
    launch_and_compare(device, program, signatures[i], random);
    launch_and_compare(device, program, signatures[i], random);
  }
}

TEST_F(Launch, EveryOrderOfFiveWidths) {
  std::vector<Item> items = {{false, DType::kI8, 0},
                             {false, DType::kU16, 0},
                             {false, DType::kF32, 0},
                             {false, DType::kI64, 0},
                             {true, DType::kI32, 77}};
  std::vector<size_t> order = {0, 1, 2, 3, 4};
  std::vector<std::vector<Item>> signatures;
  do {
    std::vector<Item> permuted;
    for (const size_t i : order)
      permuted.push_back(items[i]);
    signatures.push_back(permuted);
  } while (std::next_permutation(order.begin(), order.end()));
  ASSERT_EQ(signatures.size(), 120u);
  run_all(signatures);
}

TEST_F(Launch, OneToSixtyFourBuffersAmongScalarsOfEveryDtype) {
  std::mt19937 random(7);
  std::vector<std::vector<Item>> signatures;
  for (int num_buffers = 1; num_buffers <= 64; num_buffers += num_buffers < 4 ? 1 : 12) {
    std::vector<Item> items;
    for (int i = 0; i < num_buffers; ++i)
      items.push_back({true, DType::kI32, 1000 + 3 * i});
    for (const DType dtype : scalar_dtypes())
      items.push_back({false, dtype, 0});
    std::shuffle(items.begin(), items.end(), random);
    signatures.push_back(items);
  }
  ASSERT_EQ(signatures.back().size() - scalar_dtypes().size(), 64u);
  run_all(signatures);
}

TEST_F(Launch, WrongValuesAreRefusedBeforeAnythingRuns) {
  EngineDevice& device = engine_device(Device::get_default());
  const std::vector<Item> items = {{true, DType::kI32, 5}, {false, DType::kI8, 0}};
  std::string text = program_text("refused", items);
  const size_t range = text.find("-128..127");
  ASSERT_NE(range, std::string::npos);
  text.replace(range, 9, "-3..9");
  const Program program(device.driver(), compile_linear(device, parse_linear(text)));
  const Buffer buffer = device.allocate(4);
  const Buffer small = device.allocate(3);
  const Buffer out = device.allocate(1);
  buffer.fill(kPoisonByte);
  const auto value_of = [](const Buffer& of, DType dtype) {
    return ArgumentValue{
        .is_buffer = true, .dtype = dtype, .address = of.address(), .size_bytes = of.size_bytes()};
  };
  const auto scalar = [](DType dtype, int64_t value) {
    return ArgumentValue{.is_buffer = false, .dtype = dtype, .bits = static_cast<uint64_t>(value)};
  };
  const ArgumentValue good_buffer = value_of(buffer, DType::kI32);
  const ArgumentValue good_out = value_of(out, DType::kI8);
  const ArgumentValue good_scalar = scalar(DType::kI8, -3);
  const auto refused = [&](std::vector<ArgumentValue> values,
                           std::initializer_list<std::string_view> words) {
    EXPECT_TRUE(
        testing::throws_error([&] { program.launch(values); }, ErrorCode::kInvalidArgument, words));
  };
  refused({good_buffer, good_scalar},
          {"launch of kernel 'refused' on 'CPU:0'", "2 arguments", "3"});
  refused({good_buffer, good_scalar, good_out, good_out}, {"4 arguments"});
  refused({value_of(buffer, DType::kF32), good_scalar, good_out},
          {"argument 0", "float32", "int32"});
  refused({value_of(small, DType::kI32), good_scalar, good_out},
          {"argument 0", "3 bytes", "4 bytes"});
  refused({good_scalar, good_scalar, good_out}, {"argument 0", "scalar"});
  refused({good_buffer, good_buffer, good_out}, {"argument 1", "buffer"});
  refused({good_buffer, scalar(DType::kI8, -4), good_out}, {"argument 1", "-4", "-3 to 9"});
  refused({good_buffer, scalar(DType::kI8, 10), good_out}, {"argument 1", "10"});
  refused({good_buffer, scalar(DType::kU8, 4), good_out}, {"argument 1", "uint8", "int8"});
  std::vector<std::byte> bytes(4);
  buffer.copy_out(bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(4, kPoisonByte));  // nothing ran
  program.launch({good_buffer, good_scalar, good_out});
  buffer.copy_out(bytes);
  EXPECT_EQ(bytes,
            (std::vector<std::byte>{std::byte{5}, std::byte{0}, std::byte{0}, std::byte{0}}));
}

TEST_F(Launch, ForeignObjectsAreRefusedOnLoad) {
  EngineDevice& device = engine_device(Device::get_default());
  const ProgramObject good =
      compile_linear(device, parse_linear(program_text("foreign", {{true, DType::kI32, 5}})));
  ProgramObject object = good;
  object.payload_format = "tir";
  EXPECT_ERROR(Program(device.driver(), object), ErrorCode::kUnsupported, "'tir'", "'elf-x86_64'",
               "while loading program 'foreign' on 'CPU:0'");
  object = good;
  object.entry = "another";
  EXPECT_ERROR(Program(device.driver(), object), ErrorCode::kInvalidArgument, "no function",
               "'another'");
  object = good;
  object.lanes = {4, 2};
  EXPECT_ERROR(Program(device.driver(), object), ErrorCode::kUnsupported, "8 lanes");
  object = good;
  object.payload.resize(object.payload.size() / 3);
  EXPECT_ERROR(Program(device.driver(), object), ErrorCode::kInvalidArgument, "while loading");
  object = good;
  Target target = device.target();
  target.arch = "riscv64";
  target.features = {};
  object.target = to_text(target);
  EXPECT_ERROR(Program(device.driver(), object), ErrorCode::kInvalidArgument, "riscv64");
}

// A program is made from a ProgramObject alone: a name and bytes would hide a compile.
static_assert(
    !std::is_constructible_v<Program, DeviceDriver&, std::string, std::vector<std::byte>>);
static_assert(!std::is_constructible_v<Program, std::string, std::vector<std::byte>>);
static_assert(!std::is_copy_constructible_v<Program>);
static_assert(std::is_nothrow_move_constructible_v<Program>);

TEST_F(Launch, ScratchIsAlignedAndPrivateToAWorker) {
  // Each group fills its scratch with its number, then checks that all of it is still there.
  const std::string text = R"(tir 1 func scratch grid(400) lanes(1) scratch 8192 {
  arg 0 y i32[400] write
  %y = param 0
  %t = alloc i32 2048 group align 64
  %g = grid_id 0 i32
  %lo = const i32 0
  %hi = const i32 2048
  for %i = %lo..%hi {
    store %t[%i], %g
  }
  %sum = for %j = %lo..%hi carry %s = %lo {
    %v = load i32 %t[%j]
    %d = xor i32 %v, %g
    %n = add i32 %s, %d
    yield %n
  }
  %r = add i32 %sum, %g
  store %y[%g], %r
})";
  EngineDevice& device = engine_device(Device::get_default());
  const Program program(device.driver(), compile_linear(device, parse_linear(text)));
  const Buffer y = device.allocate(1600);
  y.fill(kPoisonByte);
  program.launch({{.is_buffer = true,
                   .dtype = DType::kI32,
                   .address = y.address(),
                   .size_bytes = y.size_bytes()}});
  std::vector<int32_t> got(400);
  y.copy_out(std::as_writable_bytes(std::span(got)));
  for (int32_t i = 0; i < 400; ++i)
    ASSERT_EQ(got[static_cast<size_t>(i)], i);
  EXPECT_EQ(y.why_guard_broken(), std::nullopt);
}

}  // namespace
}  // namespace tenon
