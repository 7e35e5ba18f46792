// The op of each matrix unit on vectors that the CPU's Target declares, through each renderer, bit
// for bit beside eval_unit: the declared rule is the instruction's. SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "tenon/backend/cpu/cpu_target.h"
#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/base/text.h"
#include "tenon/codegen/codegen.h"
#include "tenon/interp/interpret.h"
#include "tenon/ir/eval_kernel.h"
#include "tenon/ir/eval_op.h"
#include "tenon/ir/eval_unit.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/ir/linear_text.h"
#include "tenon/ir/linear_unit.h"
#include "tenon/ir/linear_verify.h"
#include "tenon/render/llvm.h"
#include "tests/render/kernel_library.h"
#include "tests/render/text_lint.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_kernel.h"

namespace tenon::testing {
namespace {

constexpr int kPoints = 1000;

Target target_of(std::string_view features) {
  return cpu::make_target(cpu::parse_cpu_arch(features), int64_t{1} << 20, 1);
}

CpuLevel make_level(std::string name, std::string flags, std::string features) {
  const auto missing = cpu::parse_cpu_arch(features).missing_in(cpu::host_cpu_features());
  Target target = target_of(features);
  return {std::move(name), std::move(flags), std::move(features), true,
          missing.empty(), std::move(target)};
}

const std::vector<CpuLevel>& levels() {
  static const std::vector<CpuLevel> all{
      make_level("evex", "-mavx512bf16 -mavx512vnni -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c",
                 "x86_64,avx512bf16,avx512vnni,avx512bw,avx512dq,avx512vl"),
      make_level("vex", "-mavxvnni -mavx2 -mfma -mf16c", "x86_64,avxvnni,fma,f16c")};
  return all;
}

const std::vector<RendererCase>& cases() {
  static const std::vector<RendererCase> all = [] {
    std::vector<RendererCase> result;
    for (const Renderer* renderer : {&c_renderer(), &llvm_renderer()}) {
      for (const CpuLevel& level : levels())
        result.push_back({renderer, &level, concat(renderer->name(), '_', level.name)});
    }
    return result;
  }();
  return all;
}

/// One mma for each point; narrow floats lie in memory as bits.
LinearProgram program_of(const MatrixUnit& unit, size_t number) {
  const auto stored = [](DType dtype) {
    return dtype_name(dtype == DType::kBF16 ? DType::kU16 : dtype);
  };
  const int size_a = unit.m * unit.k;
  const int size_b = unit.k * unit.n;
  const int size_c = unit.m * unit.n;
  const std::string acc = concat(dtype_name(unit.acc), 'x', size_c);
  return parse_linear(concat(
      "tir 1 func unit", number, " grid(1) lanes(1) scratch 0 {\narg 0 a ", stored(unit.a), '[',
      kPoints * size_a, "] read arg 1 b ", stored(unit.b), '[', kPoints * size_b, "] read arg 2 c ",
      dtype_name(unit.acc), '[', kPoints * size_c,
      "] readwrite\n%a = param 0 %b = param 1 %c = param 2 %0 = const i32 0 %end = const i32 ",
      kPoints, " %na = const i32 ", size_a, " %nb = const i32 ", size_b, " %nc = const i32 ",
      size_c, "\nfor %i = %0..%end { %ia = mul i32 %i, %na %ib = mul i32 %i, %nb ",
      "%ic = mul i32 %i, %nc\n%x0 = load ", stored(unit.a), 'x', size_a, " %a[%ia] %x = bitcast ",
      dtype_name(unit.a), 'x', size_a, " %x0\n%y0 = load ", stored(unit.b), 'x', size_b,
      " %b[%ib] %y = bitcast ", dtype_name(unit.b), 'x', size_b, " %y0\n%z = load ", acc,
      " %c[%ic] %s = mma ", number, ' ', acc, " %x, %y, %z store %c[%ic], %s } }"));
}

/// Bits around the exponents at which sums of products lose, gain and flush bits; every 16th point
/// has NaNs and infinities too.
uint64_t some_bits(DType dtype, int point, std::mt19937_64& random) {
  const uint64_t bits = random();
  if (!is_float(dtype)) return canonical_bits(dtype, bits);
  constexpr int kCentres[] = {127, 127, 64, 1, 190, 0, 100};
  const int mantissa_bits = float_format(dtype).mantissa_bits;
  const uint64_t mantissa = bits & ((uint64_t{1} << mantissa_bits) - 1);
  const int centre = kCentres[static_cast<size_t>(point) % std::size(kCentres)];
  const int spread = static_cast<int>(bits >> 40 & 15) - 8;
  int exponent = std::clamp(centre + spread, 0, 254);
  if (dtype == DType::kF32 && centre != 127)
    exponent = std::clamp(2 * (centre - 64) + spread, 0, 254);
  if (point % 16 == 0 && (bits >> 50 & 7) == 0) exponent = 255;
  return canonical_bits(dtype, (bits >> 60 & 1) << (dtype_bits(dtype) - 1) |
                                   static_cast<uint64_t>(exponent) << mantissa_bits |
                                   ((bits >> 55 & 3) == 0 ? 0 : mantissa));
}

HostBuffer filled(DType dtype, DType stored, int size, std::mt19937_64& random) {
  HostBuffer buffer(stored, static_cast<size_t>(kPoints * size));
  for (int i = 0; i < kPoints * size; ++i)
    buffer.set(static_cast<size_t>(i), some_bits(dtype, i / size, random));
  return buffer;
}

class Units : public ::testing::TestWithParam<RendererCase> {
 protected:
  void SetUp() override {
    if (const auto why = why_not_compiled(*GetParam().renderer)) GTEST_SKIP() << *why;
  }
};

TEST_P(Units, ComputeWhatTheirRecordDeclares) {
  const CpuLevel& level = *GetParam().level;
  const std::vector<MatrixUnit>& units = level.target.units;
  ASSERT_GE(units.size(), 2U);
  std::vector<LinearProgram> programs;
  std::vector<RenderedSource> sources;
  for (size_t i = 0; i < units.size(); ++i) {
    programs.push_back(program_of(units[i], i));
    EXPECT_EQ(verify_linear(programs.back(), &level.target), std::vector<std::string>());
    sources.push_back(GetParam().renderer->render(programs.back(), level.target));
    EXPECT_EQ(lint_text(*GetParam().renderer, sources.back().text), std::vector<std::string>());
  }
  const KernelLibrary library(sources, GetParam());
  EXPECT_EQ(library.problems(), "") << library.text();
  if (!level.is_here) GTEST_SKIP() << "compiled only: not this machine's instruction sets";
  for (size_t i = 0; i < units.size(); ++i) {
    SCOPED_TRACE(to_text(units[i]));
    const MatrixUnit& unit = units[i];
    const auto stored = [](DType dtype) { return dtype == DType::kBF16 ? DType::kU16 : dtype; };
    std::mt19937_64 random(3);
    const HostBuffer a = filled(unit.a, stored(unit.a), unit.m * unit.k, random);
    const HostBuffer b = filled(unit.b, stored(unit.b), unit.k * unit.n, random);
    const HostBuffer c = filled(unit.acc, unit.acc, unit.m * unit.n, random);
    const HostBuffer want(unit.acc, c.size());
    std::memcpy(want.data(), c.data(), c.size() * 4);
    const auto value = [](const HostBuffer& buffer, DType dtype) {
      return ArgumentValue{
          .is_buffer = true,
          .dtype = dtype,
          .address = buffer.data(),
          .size_bytes = static_cast<int64_t>(buffer.size()) * dtype_size_bytes(dtype)};
    };
    interpret(programs[i],
              std::array{value(a, stored(unit.a)), value(b, stored(unit.b)), value(want, unit.acc)},
              {.units = units});
    const std::array<uint64_t, 3> addresses{a.address(), b.address(), c.address()};
    library.kernel(sources[i].entry)(pack_arguments(programs[i].signature, addresses).data(), 0, 1,
                                     nullptr);
    int num_wrong = 0;
    int num_zeros = 0;
    for (size_t at = 0; at < c.size(); ++at) {
      num_wrong += same_value(unit.acc, c.get(at), want.get(at)) ? 0 : 1;
      num_zeros += want.get(at) << 33 == 0 ? 1 : 0;
      if (num_wrong == 1 && !same_value(unit.acc, c.get(at), want.get(at))) {
        ADD_FAILURE() << "element " << at << ": got " << c.get(at) << ", want " << want.get(at);
      }
    }
    EXPECT_EQ(num_wrong, 0);
    const int least = is_float(unit.acc) ? kPoints / 20 : 0;
    EXPECT_GE(num_zeros, least) << "nothing was flushed";
  }
}

INSTANTIATE_TEST_SUITE_P(Renderers, Units, ::testing::ValuesIn(cases()),
                         [](const auto& with) { return with.param.name; });

TEST(UnitRules, EachStepRoundsAndTheOddProductComesFirst) {
  const MatrixUnit unit = parse_matrix_unit("bf16*bf16>f32:1x1x2/2:vectors:odd_first:keep:ready");
  const auto bits = [](double value, DType dtype) { return double_to_float(value, dtype); };
  const auto run = [&](const MatrixUnit& rule, double even, double odd, double acc) {
    const std::array a{bits(even, rule.a), bits(odd, rule.a)};
    const std::array b{bits(1, rule.b), bits(1, rule.b)};
    std::array c{bits(acc, rule.acc)};
    eval_unit(rule, a, b, c);
    return float_to_double(c[0], rule.acc);
  };
  // 2^24 + 1 + 1: one at a time each is lost; (1 + 1) first is kept.
  EXPECT_EQ(run(unit, 1, 1, 16777216), 16777216);
  MatrixUnit two_sums = unit;
  two_sums.sum = UnitSum::kTwoSums;
  EXPECT_EQ(run(two_sums, 1, 1, 16777216), 16777218);
  // -2^24 first and then 1, or 1 (lost) and then -2^24.
  EXPECT_EQ(run(unit, 1, -16777216, 16777216), 1);
  EXPECT_EQ(run(unit, -16777216, 1, 16777216), 0);
  MatrixUnit flushing = unit;
  flushing.flushes_denormals = true;
  EXPECT_EQ(run(unit, 0, 0x1p-133, 0), 0x1p-133);
  EXPECT_EQ(run(flushing, 0, 0x1p-133, 0), 0);
}

TEST(UnitRules, TargetsThatLackTheUnitRefuse) {
  const Target with = target_of("x86_64,avx512bf16,avx512vl,avx512bw,avx512dq");
  const Target without = target_of("x86_64,avx512vl,avx512bw,avx512dq");
  ASSERT_EQ(with.units.size(), 3U);
  EXPECT_TRUE(without.units.empty());
  const LinearProgram program = program_of(with.units[0], 0);
  for (const Renderer* renderer : {&c_renderer(), &llvm_renderer()})
    EXPECT_ERROR(renderer->render(program, without), ErrorCode::kUnsupported, "no matrix unit 0");
  EXPECT_ERROR(check_linear(program, &without), ErrorCode::kInternal, "no matrix unit 0");
  const LinearProgram other = program_of(with.units[1], 0);  // number 0 is another shape
  EXPECT_ERROR(check_linear(other, &with), ErrorCode::kInternal, "unit 0 takes", "bf16x32");
}

// c (16,16) += a (16, 32 K) @ b, in blocks of the depth, on tiles that a loop carries.
LinearProgram tiles_program(size_t number, const MatrixUnit& unit) {
  const auto stored = [](DType dtype) {
    return dtype_name(dtype == DType::kBF16 ? DType::kU16 : dtype);
  };
  const int k = 3 * unit.k;
  const auto tile = [](DType dtype, int size) {
    return concat("tile ", dtype_name(dtype), 'x', size);
  };
  return parse_linear(concat(
      "tir 1 func tiles", number, " grid(1) lanes(1) scratch 0 {\narg 0 a ", stored(unit.a), '[',
      16 * k, "] read arg 1 b ", stored(unit.b), '[', 16 * k, "] read arg 2 c ",
      dtype_name(unit.acc), "[512] write\n%a = param 0 %b = param 1 %c = param 2 unit_setup ",
      number, " %0 = const i32 0 %n = const i32 3 %k = const i32 ", unit.k, " %sa = const i32 ", k,
      " %sb = const i64 ", 16 * unit.group, " %rows = const i32 ", 16 * unit.k,
      " %sc = const i32 32 %z = const ", tile(unit.acc, 256),
      " 0\n%r = for %i = %0..%n carry %s = %z",
      " { %ia = mul i32 %i, %k %ib = mul i32 %i, %rows\n%x = tile_load ", number, ' ',
      tile(unit.a, 16 * unit.k), " %a[%ia], %sa %y = tile_load ", number, ' ',
      tile(unit.b, 16 * unit.k), " %b[%ib], %sb\n%t = mma ", number, ' ', tile(unit.acc, 256),
      " %x, %y, %s yield %t }\ntile_store ", number, " %c[%0], %sc, %r }"));
}

// The evaluator's tiles are rows of memory: beside plain loops, on whole numbers.
TEST(UnitRules, TilesMoveRowsAndMultiplyThem) {
  const Target target = target_of("x86_64,amx-bf16,amx-int8");
  ASSERT_EQ(target.units.size(), 5U);
  for (size_t number = 0; number < target.units.size(); ++number) {
    const MatrixUnit& unit = target.units[number];
    const LinearProgram program = tiles_program(number, unit);
    EXPECT_EQ(verify_linear(program, &target), std::vector<std::string>());
    const auto stored = [](DType dtype) { return dtype == DType::kBF16 ? DType::kU16 : dtype; };
    const auto k = static_cast<size_t>(3 * unit.k);
    const auto group = static_cast<size_t>(unit.group);
    HostBuffer a(stored(unit.a), 16 * k);
    HostBuffer b(stored(unit.b), 16 * k);
    const HostBuffer c(unit.acc, 512);
    const auto whole_a = [](size_t i) { return static_cast<int64_t>(i * 7 % 11); };
    const int64_t least = unit.b == DType::kU8 ? 0 : -6;
    const auto whole_b = [&](size_t i) { return static_cast<int64_t>(i * 5 % 13) + least; };
    for (size_t i = 0; i < 16 * k; ++i) {
      a.set(i, eval_cast(static_cast<uint64_t>(whole_a(i)), DType::kI64, unit.a));
      b.set(i, eval_cast(static_cast<uint64_t>(whole_b(i)), DType::kI64, unit.b));
    }
    const auto value = [](const HostBuffer& buffer, DType dtype) {
      return ArgumentValue{
          .is_buffer = true,
          .dtype = dtype,
          .address = buffer.data(),
          .size_bytes = static_cast<int64_t>(buffer.size()) * dtype_size_bytes(dtype)};
    };
    interpret(program,
              std::array{value(a, stored(unit.a)), value(b, stored(unit.b)), value(c, unit.acc)},
              {.units = target.units});
    const uint64_t poison = HostBuffer(unit.acc, 1).get(0);
    for (size_t i = 0; i < 16; ++i) {
      for (size_t j = 0; j < 32; ++j) {
        int64_t sum = 0;
        for (size_t p = 0; p < k; ++p)
          sum += whole_a(i * k + p) * whole_b((p / group * 16 + j) * group + p % group);
        const uint64_t want = eval_cast(static_cast<uint64_t>(sum), DType::kI64, unit.acc);
        ASSERT_EQ(c.get(i * 32 + j), j < 16 ? want : poison) << to_text(unit) << i << "," << j;
      }
    }
  }
}

// Compiled everywhere, run where the CPU has tiles.
TEST(UnitRules, TileInstructionsAreMade) {
  CpuLevel level = make_level("amx", "-mamx-bf16 -mamx-int8", "x86_64,amx-bf16,amx-int8");
  const std::string_view wanted[] = {"tdpbf16ps", "tdpbssd", "tdpbsud", "tdpbusd", "tdpbuud"};
  for (const Renderer* renderer : {&c_renderer(), &llvm_renderer()}) {
    if (why_not_compiled(*renderer)) continue;
    std::vector<RenderedSource> sources;
    for (size_t i = 0; i < level.target.units.size(); ++i)
      sources.push_back(renderer->render(tiles_program(i, level.target.units[i]), level.target));
    const KernelLibrary library(sources, {renderer, &level, "amx"});
    EXPECT_EQ(library.problems(), "") << library.text();
    std::string code;
    for (const RenderedSource& source : sources)
      code += library.disassembly(source.entry);
    for (const std::string_view word : wanted)
      EXPECT_NE(code.find(word), std::string::npos) << word << "\n" << code;
    for (const std::string_view word : {"ldtilecfg", "tilezero", "tileloadd", "tilestored"})
      EXPECT_NE(code.find(word), std::string::npos) << word << "\n" << code;
  }
}

// --- kernels that are planned for tiles ---

const CpuLevel& tile_level() {
  static const CpuLevel level = make_level(
      "amx",
      "-mamx-bf16 -mamx-int8 -mavx512bf16 -mavx512vnni -mavx512bw -mavx512dq -mavx512vl "
      "-mfma -mf16c",
      "x86_64,amx-bf16,amx-int8,avx512bf16,avx512vnni,avx512bw,avx512dq,avx512vl,fma,f16c");
  return level;
}

std::string product_kernel(std::string_view name, std::string_view a, std::string_view b, int m,
                           int n, int k) {
  const std::string acc = a == "bf16" ? "f32" : "i32";
  return concat("kernel ", name, " {\n  out b0: ", acc, "[", m, ",", n, "]\n  in b1: ", a, "[", m,
                ",", k, "]\n  in b2: ", b, "[", k, ",", n, "]\n  in b3: ", acc, "[", n,
                "]\n  tmp t0: ", acc, "[", m, ",", n, "]\n  t0[d0,d1] += ", acc, "(b1[d0,d2]) * ",
                acc, "(b2[d2,d1])  over d0:", m, ", d1:", n, ", d2:", k, " red  start 0", acc,
                "\n  b0[d3,d4] = max(t0[d3,d4] + b3[d4], 0", acc, ")  over d3:", m, ", d4:", n,
                "\n}\n");
}

struct TileCase {
  std::string_view a;
  std::string_view b;
  std::string_view instruction;
};

// Whole tiles and tails of each kind; the depth whole and in blocks.
TEST(UnitKernels, ProductsAreComputedInTilesThatStayInRegisters) {
  if (cpu::kSanitizerBuild)
    GTEST_SKIP() << "a sanitizer's build: its calls and spills stand in the code";
  const CpuLevel& level = tile_level();
  constexpr TileCase kCases[] = {{"bf16", "bf16", "tdpbf16ps"},
                                 {"i8", "i8", "tdpbssd"},
                                 {"u8", "i8", "tdpbusd"},
                                 {"i8", "u8", "tdpbsud"},
                                 {"u8", "u8", "tdpbuud"}};
  constexpr std::array<int, 3> kSizes[] = {{64, 96, 128}, {21, 70, 67}, {150, 100, 3000}};
  for (const Renderer* renderer : {&c_renderer(), &llvm_renderer()}) {
    if (why_not_compiled(*renderer)) continue;
    for (const auto& [m, n, k] : kSizes) {
      std::vector<Kernel> kernels;
      std::vector<LinearProgram> programs;
      std::vector<RenderedSource> sources;
      for (const TileCase& with : kCases) {
        const std::string name = concat("mm", kernels.size());
        kernels.push_back(parse_kernel(product_kernel(name, with.a, with.b, m, n, k), "product"));
        programs.push_back(lower_kernel(kernels.back(), level.target, {.verify = true}));
        sources.push_back(renderer->render(programs.back(), level.target));
        EXPECT_EQ(lint_text(*renderer, sources.back().text), std::vector<std::string>());
      }
      const KernelLibrary library(sources, {renderer, &level, "amx"});
      EXPECT_EQ(library.problems(), "") << library.text();
      for (size_t i = 0; i < kernels.size(); ++i) {
        SCOPED_TRACE(concat(renderer->name(), " ", kCases[i].instruction, " ", m, "x", n, "x", k));
        const std::string code = library.disassembly(sources[i].entry);
        EXPECT_NE(code.find(kCases[i].instruction), std::string::npos) << code;
        EXPECT_EQ(code.find("call"), std::string::npos) << code;
        for (const std::string_view line : split(code, '\n')) {
          const bool moves = line.find("tileload") != std::string_view::npos ||
                             line.find("tilestore") != std::string_view::npos;
          EXPECT_FALSE(moves && line.find("rsp") != std::string_view::npos) << line;
        }
        if (!level.is_here) continue;
        test::KernelMemory memory(kernels[i], 7);
        eval_kernel(kernels[i], memory.kernel_arguments());
        const std::vector<std::byte> expected = memory.outputs();
        memory.reset();
        std::vector<uint64_t> addresses;
        for (const ArgumentValue& value : memory.program_arguments(programs[i].signature))
          addresses.push_back(reinterpret_cast<uint64_t>(value.address));
        const HostBuffer scratch(DType::kU8, static_cast<size_t>(level.target.max_local_bytes));
        library.kernel(sources[i].entry)(pack_arguments(programs[i].signature, addresses).data(), 0,
                                         num_groups(programs[i]), scratch.data());
        EXPECT_EQ(memory.outputs(), expected);
        EXPECT_EQ(memory.guard_finding(), "");
      }
    }
  }
}

}  // namespace
}  // namespace tenon::testing
