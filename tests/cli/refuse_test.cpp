// Wrong usage and bad files: the exit code, and one text on standard error that says what is wrong.
// No input may end the command by a signal. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/io/npy.h"
#include "tests/cli/run_tenon.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;
using testing::run_tenon;
using ::testing::StartsWith;
using testing::TempFolder;
using testing::TenonResult;

constexpr const char* kTwice =
    "graph twice { in %x: f32[5]\n %0 = add f32[5] %x, %x\n out y = %0\n }";

class CliRefuse : public ::testing::Test {
 protected:
  CliRefuse() { twice_ = write("twice.tg", kTwice); }

  std::string write(const std::string& name, std::string_view bytes) {
    write_file_atomic(folder_ / name, bytes);
    return folder_ / name;
  }
  static void expect(int exit_code, const std::vector<std::string>& arguments,
                     const std::vector<std::string>& words,
                     const std::map<std::string, std::string>& variables = {}) {
    const TenonResult result = run_tenon(arguments, variables);
    EXPECT_EQ(result.exit_code, exit_code) << join(arguments, " ") << "\n" << result.err;
    EXPECT_THAT(result.err, StartsWith("tenon: ")) << join(arguments, " ");
    for (const std::string& word : words)
      EXPECT_THAT(result.err, HasSubstr(word)) << join(arguments, " ");
  }

  const TempFolder folder_;
  std::string twice_;
};

TEST_F(CliRefuse, WrongUsageIsTwo) {
  expect(2, {"rnu", "digits"}, {"no command 'rnu'", "did you mean 'run'", "explain"});
  expect(2, {"--frobnicate"}, {"--frobnicate"});
  expect(2, {"run"}, {"PROGRAM is required"});
  expect(2, {"run", twice_, "more"}, {"more"});
  expect(2, {"run", twice_, "--in"}, {"--in"});
  expect(2, {"run", twice_, "--in", "x"}, {"expected NAME="});
  expect(2, {"run", twice_, "--in", "x=a.npy", "--in", "x=b.npy"}, {"'x' is given twice"});
  expect(2, {"run", twice_, "--batch", "7"}, {"--batch", "run digits"});
  expect(2, {"run", "digits", "--batch", "0"}, {"--batch", "at least 1"});
  expect(2, {"run", "digits", "--batch", "few"}, {"--batch", "few"});
  expect(2, {"run", "digits", "--in", "x=a.npy"}, {"--in", "run FILE"});
  expect(2, {"run", "digits", "--check", "--zero-filter", "3"}, {"--check"});
  expect(2, {"run", "model.onnx"}, {"model.onnx", ".tg", ".tpo"});
  expect(2, {"explain", twice_, "--only", "linaer"}, {"linaer", "did you mean 'linear'"});
  expect(2, {"run", "digits", "--shuffle", "-1"}, {"--shuffle", "-1"});
  expect(2,
         {"explain", write("a.tk", "kernel k { out y: f32[7]\n y[i] = 1f32 over i:7 }"), "--only",
          "graph"},
         {"no such level", "kernel, plan"});
  expect(2, {"compile", twice_}, {"output"});
  expect(2, {"compile", twice_, "-o", "twice.bin"}, {"twice.bin", ".tpo"});
  EXPECT_EQ(run_tenon({}).exit_code, 2);
}

TEST_F(CliRefuse, DevicesThatAreNotThere) {
  expect(1, {"run", twice_, "--device", "CPV"}, {"CPV", "did you mean 'CPU'"});
  expect(1, {"run", twice_, "--device", "CPU:CLANK"}, {"CLANK", "did you mean 'CLANG'"});
  expect(1, {"run", twice_, "--device", "CPU:9"}, {"no device 9"});
  expect(1, {"run", twice_}, {"CPV", "did you mean 'CPU'"}, {{"DEV", "CPV"}});
  expect(1, {"run", twice_}, {"NUL", "did you mean 'NULL'"}, {{"DEV", "CPU;NUL"}});
  expect(1, {"run", twice_, "--device", "NULL"}, {"never runs"});
  expect(1, {"run", twice_, "--device", "CPU:CLANG"}, {"clang-22"}, {{"PATH", ""}});
  expect(1, {"explain", twice_, "--device", "NULL:CLANG:x86_64,avx9"}, {"avx9"});
}

TEST_F(CliRefuse, MissingAndUnreadableFiles) {
  for (const char* end : {".tg", ".tk", ".tir", ".tpo"}) {
    for (const char* command : {"run", "explain"}) {
      expect(1, {command, folder_ / ("absent" + std::string(end))}, {"absent", "No such file"});
      create_folders(folder_ / ("folder" + std::string(end)));
      expect(1, {command, folder_ / ("folder" + std::string(end))}, {"folder"});
    }
  }
  expect(1, {"run", twice_, "--in", "x=" + folder_ / "absent.npy"}, {"absent.npy", "No such file"});
  expect(1, {"run", "digits", "--data", folder_ / "absent"}, {"digits_test.safetensors", "--data"});
  expect(1, {"compile", twice_, "-o", folder_ / "absent/twice.tpo"}, {"absent/twice.tpo"});
  expect(1, {"run", twice_, "--out", twice_}, {"twice.tg"});
}

TEST_F(CliRefuse, InputsThatDoNotFit) {
  const std::vector<float> four = {1, 2, 3, 4};
  write_npy(folder_ / "four.npy",
            {.dtype = DType::kF32, .shape = {4}, .bytes = std::as_bytes(std::span(four))});
  const std::vector<int32_t> five = {1, 2, 3, 4, 5};
  write_npy(folder_ / "ints.npy",
            {.dtype = DType::kI32, .shape = {5}, .bytes = std::as_bytes(std::span(five))});
  expect(1, {"run", twice_, "--in", "x=" + folder_ / "four.npy"}, {"'x'", "(4)", "(5)"});
  expect(1, {"run", twice_, "--in", "x=" + folder_ / "ints.npy"}, {"'x'", "int32", "float32"});
  expect(1, {"run", twice_, "--in", "xs=" + folder_ / "four.npy"}, {"xs", "did you mean 'x'"});
  expect(1, {"run", twice_, "--in", "x=" + write("cut.npy", "\x93NUMPY\x01")}, {"cut.npy"});
  expect(1, {"run", twice_, "--set", "n=3"}, {"n=3", "takes nothing of that name"});
}

TEST_F(CliRefuse, PlansThatDoNotFit) {
  const std::string kernel =
      write("twice.tk",
            "kernel twice {\n in x: f32[100]\n out y: f32[100]\n y[i] = x[i] + x[i] over i:100\n}");
  const auto refuse = [&](const std::string& plan, const std::vector<std::string>& words) {
    const std::string file = write("by_hand.plan", plan);
    for (const char* command : {"run", "explain"})
      expect(1, {command, kernel, "--plan", file}, words);
  };
  refuse("plan thrice {\n 0 y root i@seq 1\n}", {"by_hand.plan:1", "no kernel 'thrice'", "twice"});
  refuse("plan twice {\n 0 y root i@sex 1\n}", {"by_hand.plan:2", "seq", "sex"});
  refuse("plan twice {\n 0 y root i@seq 1", {"by_hand.plan", "closing brace"});
  refuse("plan twice {\n 0 y root i@vec 1\n}", {"by_hand.plan:1", "vectors of 100"});
  refuse("plan twice {\n}", {"by_hand.plan:1", "name every comp"});
  refuse("0 y root i@seq 1", {"by_hand.plan:1", "expected 'plan KERNEL {'"});
  refuse("", {"by_hand.plan", "no plan"});
  expect(1, {"run", kernel, "--plan", folder_ / "absent.plan"}, {"absent.plan", "No such file"});
  const std::string linear = write("none.tir", "tir 1 func f grid(1) lanes(1) scratch 0 {\n}");
  expect(2, {"explain", linear, "--plan", folder_ / "by_hand.plan"}, {"--plan", ".tg or .tk"});
  expect(2, {"run", "digits", "--plan", folder_ / "by_hand.plan"}, {"--plan", "run FILE"});
}

TEST_F(CliRefuse, MalformedTextNamesThePlace) {
  expect(1, {"run", write("bad.tg", "graph g {\n  in %x: f33[4]\n}")}, {"bad.tg:2:"});
  expect(1, {"run", write("bad.tk", "kernel k {\n  out y: f32[4]\n  y[i0] = = \n}")},
         {"bad.tk:3:"});
  expect(1, {"run", write("bad.tir", "tir 1 func f grid(1) lanes(1) scratch 0 {\n  %a = nop\n}")},
         {"bad.tir:2:"});
  // Right in form, wrong in meaning.
  expect(1, {"run", write("range.tk", "kernel k {\n out y: f32[4]\n y[i0] = 1f32 over i0:5\n}")},
         {"V3", "y", "in dim 0 is in 0..4, expected 0..3"});
  expect(1, {"run", write("empty.tk", "kernel k { in x: f32[7] out y: f32[7] }")},
         {"computes nothing"});
  expect(1,
         {"run", write("far.tir",
                       "tir 1 func f grid(1) lanes(1) scratch 0 { arg 0 y f32[3] write\n"
                       "%y = param 0 %i = const i32 3 %x = const f32 0 store %y[%i], %x }")},
         {"bounds: store at elements 3 to 3 of %y, which has 3"});
  expect(1,
         {"run",
          write("shape.tg", "graph g { in %x: f32[5]\n %0 = reshape f32[4] %x\n out y = %0\n }")},
         {"reshape"});
}

TEST_F(CliRefuse, NestsOfFormsThatNoPlanMakes) {
  const std::string nest = write("nest.tk", R"(nest k grid() lanes() {
  in x: f32[64]
  out y: f32[64]
  alloc t: f32[4,17] reg
  t[i,j] = x[16*i+j]  over i:4 unroll, j:16 vec
  y[16*p+q] = t[p,q]  over p:4 unroll, q:16 vec
})");
  expect(1, {"run", nest}, {"nest 'k' has a form that no Plan makes"});
  expect(1, {"run", write("lanes.tk", "nest k grid() lanes(l:4) { out y: f32[4] y[l] = 1f32 }")},
         {"V5", "4 lanes", "1"});
}

// Each kernel that the device cannot do says why, with the field of its Target; the others are
// shown.
TEST_F(CliRefuse, ExplainPrintsReasons) {
  const std::string file =
      write("two.tg",
            "graph g { in %x: f64[5] in %y: f32[5]\n %0 = sin f32[5] %y\n %1 = neg f64[5] %x\n"
            " out a = %0\n out b = %1\n }");
  const std::map<std::string, std::string> no_f64{
      {"TENON_TARGET", "arithmetic=i1+i8+i16+i32+i64+u8+u16+u32+u64+f32"}};
  const TenonResult result = run_tenon({"explain", file, "--only", "source,plan"}, no_f64);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("float64 is neither computed by target"));
  EXPECT_THAT(result.out, HasSubstr("field: arithmetic, wanted: i64,u64,f64, available: i1,i8,"));
  EXPECT_THAT(result.err, HasSubstr("2 of 2 steps are not for device"));
  EXPECT_EQ(run_tenon({"explain", file}).exit_code, 0);
}

// What an input could send anywhere is looked at, not run.
TEST_F(CliRefuse, IndicesThatNothingBounds) {
  const std::string gather =
      write("gather.tk",
            "kernel k { out y: f32[7] in x: f32[9] in p: i32[7]\n y[i] = x[p[i]] over i:7 }");
  const std::string scatter =
      write("scatter.tk", "kernel k { out y: f32[9] in p: i32[7]\n y[p[i]] = 1f32 over i:7 }");
  for (const std::string& file : {gather, scatter}) {
    expect(1, {"run", file}, {file, "V3", "p[i]", "Gate"});
    expect(1, {"compile", file, "-o", folder_ / "k.tpo"}, {file, "V3"});
    const TenonResult shown = run_tenon({"explain", file, "--only", "kernel"});
    EXPECT_EQ(shown.exit_code, 0) << shown.err;
    EXPECT_THAT(shown.err, HasSubstr("may touch wrong places"));
  }
  const TenonResult clipped =
      run_tenon({"run", write("clipped.tk",
                              "kernel k { out y: f32[7] in x: f32[9] in p: i32[7]\n"
                              " y[i] = x[max(min(idx(p[i]),8),0)] over i:7 }")});
  EXPECT_EQ(clipped.exit_code, 0) << clipped.err;
}

TEST_F(CliRefuse, HostileBytes) {
  std::string noise;
  uint64_t state = 1;
  for (int i = 0; i < 4096; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    noise += static_cast<char>(state >> 56);
  }
  const std::string texts[] = {
      "",
      std::string(1000, '\0'),
      noise,
      std::string(100'000, '('),
      "graph g {" + std::string(100'000, '['),
      "kernel k {\n out y: f32[1]\n y[0] = " + std::string(100'000, '-') + "1f32\n}",
      "tir 1 func f grid(9223372036854775807) lanes(1) scratch 0 {\n}"};
  int number = 0;
  for (const std::string& text : texts) {
    for (const char* end : {".tg", ".tk", ".tir", ".tpo"}) {
      const std::string file = write(concat("hostile", number++, end), text);
      for (const char* command : {"run", "explain"}) {
        const TenonResult result = run_tenon({command, file});
        EXPECT_EQ(result.exit_code, 1) << file << " " << command;
        EXPECT_THAT(result.err, StartsWith("tenon: "));
        EXPECT_LT(result.err.size(), 10'000U) << file;
      }
    }
  }
}

TEST_F(CliRefuse, HugeBuffersAreErrors) {
  expect(1,
         {"run", write("huge.tir",
                       "tir 1 func f grid(1) lanes(1) scratch 0 {\n"
                       "  arg 0 y f32[4611686018427387904] readwrite\n}")},
         {"4611686018427387904"});
  expect(1,
         {"run", write("huge.tg",
                       "graph g { in %x: f32[1073741824,1073741824]\n"
                       " %0 = neg f32[1073741824,1073741824] %x\n out y = %0\n }")},
         {"1152921504606846976 elements", "256.0 GiB"});
}

// More than a machine of 192 GiB has, in a file that is well-formed.
TEST_F(CliRefuse, InputsLargerThanTheMachineSayHowMuchThereIs) {
  const std::string graph =
      write("large.tg",
            "graph g { in %x: f32[48,1073741824]\n %0 = neg f32[48,1073741824] %x\n"
            " out y = %0\n }");
  expect(1, {"run", graph}, {"192.0 GiB", "GiB are available", "Use smaller"});
}

TEST_F(CliRefuse, DamagedObjects) {
  const std::string path = folder_ / "twice.tpo";
  ASSERT_EQ(run_tenon({"compile", twice_, "-o", path}).exit_code, 0);
  const std::string bytes = read_file(path);
  for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 23) {
    expect(1, {"run", write("cut.tpo", bytes.substr(0, size))}, {"cut.tpo"});
  }
  for (size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 29) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x20);
    expect(1, {"run", write("damaged.tpo", damaged)}, {"damaged.tpo"});
  }
  expect(1, {"run", write("longer.tpo", bytes + "x")}, {"longer.tpo"});
  expect(2, {"compile", path, "-o", folder_ / "again.tpo"}, {"compiled already"});
}

TEST_F(CliRefuse, CompileTakesOneKernel) {
  const std::string file = write("two.tg", R"(graph two {
  in %x: f32[4]
  in %z: f32[9]
  %0 = add f32[4] %x, %x
  %1 = add f32[9] %z, %z
  out y = %0
  out w = %1
})");
  expect(1, {"compile", file, "-o", folder_ / "two.tpo"}, {"'two'", "2 steps", "one kernel"});
}

TEST_F(CliRefuse, BadSettingsAreNamed) {
  expect(1, {"run", twice_}, {"TENON_DEBUG", "loud"}, {{"TENON_DEBUG", "loud"}});
  expect(1, {"run", twice_}, {"TENON_CLANG", "TENON_LLVM", "/nonexistent"},
         {{"TENON_CLANG", "/nonexistent"}, {"TENON_LLVM", "/nonexistent"}});
}

}  // namespace
}  // namespace tenon
