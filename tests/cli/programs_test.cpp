// run and compile on all kinds of programs: values against plain loops over the documented input
// values. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/io/npy.h"
#include "tests/cli/run_tenon.h"

namespace tenon {
namespace {

using testing::coded_float;
using ::testing::HasSubstr;
using testing::npy_values;
using testing::run_tenon;
using testing::TempFolder;
using testing::TenonResult;

// y (2,3) = max(a (2,4) @ b (4,3), 0)
constexpr const char* kProductKernel = R"(kernel product {
  out y: f32[2,3]
  in a: f32[2,4]
  in b: f32[4,3]
  tmp t0: f32[2,3]
  t0[row,column] += a[row,k] * b[k,column]  over row:2, column:3, k:4 red  start 0f32
  y[i3,i4] = max(t0[i3,i4], 0f32)  over i3:2, i4:3
})";

constexpr const char* kProductGraph = R"(graph product {
  in %a: f32[2,4]
  in %b: f32[4,3]
  %0 = reshape f32[2,1,4] %a
  %1 = expand f32[2,3,4] %0
  %2 = permute f32[3,4] %b axes [1,0]
  %3 = reshape f32[1,3,4] %2
  %4 = expand f32[2,3,4] %3
  %5 = mul f32[2,3,4] %1, %4
  %6 = reduce f32[2,3,1] %5 add axes [2] acc f32
  %7 = reshape f32[2,3] %6
  %8 = const f32[] 0
  %9 = reshape f32[1,1] %8
  %10 = expand f32[2,3] %9
  %11 = max f32[2,3] %7, %10
  out y = %11
})";

// Sums of products of 1/32 steps below 2: exact in f32 in any order.
std::vector<float> product_of(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> y;
  for (size_t row = 0; row < 2; ++row) {
    for (size_t column = 0; column < 3; ++column) {
      float sum = 0;
      for (size_t i = 0; i < 4; ++i)
        sum += a[row * 4 + i] * b[i * 3 + column];
      y.push_back(sum > 0 ? sum : 0);
    }
  }
  return y;
}

std::vector<float> coded_floats(int64_t count, int64_t number) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(coded_float(i, number));
  return values;
}

class CliPrograms : public ::testing::Test {
 protected:
  std::string write(const std::string& name, std::string_view text) {
    write_file_atomic(folder_ / name, text);
    return folder_ / name;
  }
  template <typename T>
  std::string write_values(const std::string& name, DType dtype, const Shape& shape,
                           const std::vector<T>& values) {
    write_npy(folder_ / name,
              {.dtype = dtype, .shape = shape, .bytes = std::as_bytes(std::span(values))});
    return folder_ / name;
  }
  /// Runs it with --out and gives back standard output.
  std::string run(std::vector<std::string> arguments,
                  const std::map<std::string, std::string>& variables = {}) {
    arguments.insert(arguments.begin(), "run");
    arguments.insert(arguments.end(), {"--out", folder_ / "out"});
    const TenonResult result = run_tenon(arguments, variables);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
  }
  std::string compile(const std::string& file, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"compile", file, "-o", folder_ / "program.tpo"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const TenonResult result = run_tenon(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("wrote " + folder_ / "program.tpo"));
    return folder_ / "program.tpo";
  }
  std::vector<float> output(const Shape& shape) {
    return npy_values<float>(folder_ / "out/y.npy", DType::kF32, shape);
  }

  const TempFolder folder_;
  const std::vector<float> expected_ = product_of(coded_floats(8, 0), coded_floats(12, 1));
};

TEST_F(CliPrograms, GraphKernelLinearAndObjectGiveTheSameValues) {
  const std::string graph = write("product.tg", kProductGraph);
  const std::string kernel = write("product.tk", kProductKernel);
  EXPECT_THAT(run({graph}), HasSubstr("y float32 (2,3) =\n[["));
  EXPECT_EQ(output({2, 3}), expected_);
  EXPECT_THAT(run({kernel}), HasSubstr("y float32 (2,3) =\n[["));
  EXPECT_EQ(output({2, 3}), expected_);

  // What explain prints can be run.
  TenonResult explained = run_tenon({"explain", kernel, "--only", "linear"});
  ASSERT_EQ(explained.exit_code, 0) << explained.err;
  const std::string linear =
      write("product.tir", explained.out.substr(explained.out.find("\ntir 1 func") + 1));
  EXPECT_THAT(run({linear}), HasSubstr("y float32 (6) =\n["));
  EXPECT_EQ(output({6}), expected_);

  for (const std::string& file : {graph, kernel, linear}) {
    run({compile(file)});
    EXPECT_EQ(output({6}), expected_) << file;
  }
}

TEST_F(CliPrograms, NestsAreRunAsTheyStand) {
  // The product in columns, with its epilogue in the loop.
  const std::string nest = write("product_nest.tk", R"(nest product grid() lanes() {
  out y: f32[2,3]
  in a: f32[2,4]
  in b: f32[4,3]
  for column:3 {
    alloc t0: f32[2] reg
    t0[row] = 0f32  over row:2 unroll
    for k:4 red {
      t0[row1] += a[row1,k] * b[k,column]  over row1:2 unroll
    }
    y[row2,column] = max(t0[row2], 0f32)  over row2:2 unroll
  }
})");
  run({nest});
  EXPECT_EQ(output({2, 3}), expected_);
  run({compile(nest)});
  EXPECT_EQ(output({6}), expected_);
  EXPECT_EQ(run_tenon({"run", nest, "--plan", nest}).exit_code, 2);
  const TenonResult explained = run_tenon({"explain", nest});
  EXPECT_EQ(explained.exit_code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("this is a nest"));
  EXPECT_THAT(explained.out, HasSubstr("linear program"));
}

TEST_F(CliPrograms, ObjectsRunWithoutACompiler) {
  const std::string object = compile(write("product.tg", kProductGraph));
  const std::map<std::string, std::string> bare = {{"TENON_CLANG", "/nonexistent"},
                                                   {"TENON_LLVM", "/nonexistent"},
                                                   {"PATH", ""},
                                                   {"TENON_CACHE_DIR", folder_ / "empty"}};
  const std::string out = run({object}, bare);
  EXPECT_EQ(output({6}), expected_);
  EXPECT_THAT(out, HasSubstr("on CPU:0: "));
  // The same process could not have compiled it.
  EXPECT_EQ(run_tenon({"run", folder_ / "product.tg"}, bare).exit_code, 1);
}

TEST_F(CliPrograms, ObjectsForAnotherTargetKeepIt) {
  const std::string object =
      compile(write("product.tk", kProductKernel), {"--device", "NULL:CLANG:x86_64,avx2"});
  run({object});  // a subset of what this machine has
  EXPECT_EQ(output({6}), expected_);
  const TenonResult result = run_tenon({"explain", object});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("arch=x86_64 features="));
  EXPECT_THAT(result.out, HasSubstr("avx2"));
  EXPECT_EQ(result.out.find("avx512"), std::string::npos) << result.out;
}

TEST_F(CliPrograms, GivenInputsReplaceCodedOnes) {
  const std::vector<float> a = {1, -2, 3.5, 4, 0.25, 6, -7, 8};
  const std::string given = "a=" + write_values("a.npy", DType::kF32, {2, 4}, a);
  const std::vector<float> expected = product_of(a, coded_floats(12, 1));
  run({write("product.tg", kProductGraph), "--in", given});
  EXPECT_EQ(output({2, 3}), expected);
  run({write("product.tk", kProductKernel), "--in", given});
  EXPECT_EQ(output({2, 3}), expected);
}

TEST_F(CliPrograms, AnAssignReadsTheOldValueAndItsReadersToo) {
  const std::string given = write_values<float>("x.npy", DType::kF32, {3}, {1, 2, 4});
  run({write("assign.tg", R"(graph assign {
  in %x: f32[3]
  %0 = flip f32[3] %x axes [0]
  %1 = mul f32[3] %0, %x
  %2 = assign f32[3] %x, %1
  %3 = add f32[3] %2, %x
  out y = %3
  out z = %2
})"),
       "--in", "x=" + given});
  EXPECT_EQ(output({3}), (std::vector<float>{5, 6, 8}));
  EXPECT_EQ(npy_values<float>(folder_ / "out/z.npy", DType::kF32, {3}),
            (std::vector<float>{4, 4, 4}));
}

TEST_F(CliPrograms, EveryDTypeIsCodedAsDocumented) {
  const std::string graph = write("copies.tg", R"(graph copies {
  in %a: i8[300]
  in %b: u16[300]
  in %c: i1[300]
  in %d: bf16[300]
  %0 = contiguous i8[300] %a
  %1 = contiguous u16[300] %b
  %2 = contiguous i1[300] %c
  %3 = contiguous bf16[300] %d
  out a_out = %0
  out b_out = %1
  out c_out = %2
  out d_out = %3
})");
  const std::string text = run({graph});
  const Shape shape{300};
  const auto a = npy_values<int8_t>(folder_ / "out/a_out.npy", DType::kI8, shape);
  const auto b = npy_values<uint16_t>(folder_ / "out/b_out.npy", DType::kU16, shape);
  const auto c = npy_values<uint8_t>(folder_ / "out/c_out.npy", DType::kBool, shape);
  const auto d = npy_values<float>(folder_ / "out/d_out.npy", DType::kF32, shape);
  for (int64_t i = 0; i < 300; ++i) {
    const auto at = static_cast<size_t>(i);
    ASSERT_EQ(a[at], (37 * i) % 101 - 50) << i;
    ASSERT_EQ(b[at], (37 * i + 11) % 101) << i;
    ASSERT_EQ(c[at], (37 * i + 22) % 101 % 2) << i;
    ASSERT_EQ(d[at], coded_float(i, 3)) << i;
  }
  EXPECT_THAT(text, HasSubstr("d_out bfloat16 (300) =\n["));
}

TEST_F(CliPrograms, BFloat16IsReadFromFloat32AndRounded) {
  const std::string graph =
      write("b.tg", "graph b { in %x: bf16[3]\n %0 = cast f32[3] %x\n out y = %0\n }");
  const std::vector<float> x = {1.0F, 1.00390625F, -3.0078125F};  // ties go to even
  run({graph, "--in", "x=" + write_values("x.npy", DType::kF32, {3}, x)});
  EXPECT_EQ(output({3}), (std::vector<float>{1.0F, 1.0F, -3.0F}));
}

TEST_F(CliPrograms, ScalarsAreSetOrTheLargestOfTheirRange) {
  const std::string linear = write("scale.tir", R"(tir 1 func scale grid(1) lanes(1) scratch 0 {
  arg 0 y f32[6] readwrite
  arg 1 n i32 in 0..6
  arg 2 s f32
  %y = param 0
  %n = param 1
  %s = param 2
  %zero = const i32 0
  for %i = %zero..%n {
    %v = load f32 %y[%i]
    %w = mul f32 %v, %s
    store %y[%i], %w
  }
})");
  std::vector<float> expected = coded_floats(6, 0);
  run({linear});
  EXPECT_EQ(output({6}), expected);
  run({linear, "--set", "n=4", "--set", "s=-2.5"});
  for (size_t i = 0; i < 4; ++i)
    expected[i] *= -2.5F;
  EXPECT_EQ(output({6}), expected);
}

TEST_F(CliPrograms, LongOutputsAreShortenedAndNamesAreNoPaths) {
  const std::string graph = write("long.tg", R"(graph long {
  in %x: i32[5000]
  %0 = add i32[5000] %x, %x
  out "../../evil" = %0
  out ".hidden/ name" = %0
})");
  const std::string text = run({graph});
  EXPECT_THAT(text, HasSubstr("[-100  -26   48 ...  "));
  EXPECT_THAT(text, HasSubstr("wrote " + folder_ / "out/_._.._evil.npy"));
  EXPECT_THAT(text, HasSubstr("wrote " + folder_ / "out/_hidden__name.npy"));
}

TEST_F(CliPrograms, NamesDoNotReachTheTerminalRaw) {
  const std::string text = run({write("escape.tg", R"(graph escape {
  in %x: f32[2]
  %0 = add f32[2] %x, %x
  out "\x1b[31mred" = %0
})")});
  EXPECT_THAT(text, HasSubstr("\"\\x1b[31mred\" float32 (2) ="));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(CliPrograms, ZeroSizeAndScalarsRun) {
  const std::string text = run({write("edge.tg", R"(graph edge {
  in %x: f32[0,3]
  in %s: f32[]
  %0 = add f32[0,3] %x, %x
  %1 = reduce f32[1,1] %x add axes [0,1] acc f32
  %2 = add f32[] %s, %s
  out empty = %0
  out sum = %1
  out y = %2
})")});
  EXPECT_THAT(text, HasSubstr("empty float32 (0,3) =\n[]\n"));
  EXPECT_THAT(text, HasSubstr("sum float32 (1,1) =\n[[0.]]\n"));
  EXPECT_EQ(output({}), std::vector<float>{2 * coded_float(0, 1)});
}

}  // namespace
}  // namespace tenon
