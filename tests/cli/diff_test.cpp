// `tenon diff`: the digits network on devices with one fault each, the folder and its repetition,
// in this process, since the built command has no such devices; right devices and bad input with
// the built command. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "tenon/base/file.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/data_folder.h"
#include "tenon/cli/diff_folder.h"
#include "tenon/cli/digits.h"
#include "tenon/engine/backend.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/program_store.h"
#include "tenon/io/npy.h"
#include "tenon/ir/linear_text.h"
#include "tenon/schedule/schedule.h"
#include "tests/cli/run_tenon.h"
#include "tests/support/faulty_programs.h"

namespace tenon {
namespace {

using cli::diff_command;
using testing::FaultyRenderer;
using ::testing::HasSubstr;
using testing::npy_values;
using testing::ProgramFault;
using testing::run_tenon;
using testing::TempFolder;
using testing::TenonResult;

constexpr int64_t kImages = 2;

/// Names of the kernels of the digits network on a device, in order.
std::vector<std::string> digits_kernels(Device& device) {
  const ScopedDefaultDevice scope(device);
  const std::string path = cli::find_data_folder("", "digits_cnn.safetensors");
  const cli::DigitsNetwork network(path + "/digits_cnn.safetensors", std::nullopt);
  const std::vector<uint8_t> pixels(kImages * cli::kImageSide * cli::kImageSide);
  const Tensor logits =
      network.logits(Tensor::from_data(pixels, {kImages, cli::kImageSide, cli::kImageSide}));
  const Node outputs[] = {logits.node(), logits.argmax(1).node()};
  std::vector<std::string> names;
  for (const ScheduledCall& call : schedule_graph(outputs, schedule_options(device.target())).calls)
    names.push_back(kernel_symbol(call.kernel));
  return names;
}

/// Registers BAD_<device>: the device with a fault between compiler and renderer, by renderer name.
void register_bad(const std::string& device,
                  const std::vector<std::pair<std::string, ProgramFault>>& faults) {
  BackendDescriptor bad = *find_backend(device);
  bad.name = "BAD_" + device;
  bad.default_rank = 0;
  bad.borrows_renderers = false;
  const RendererDescriptor right = engine_device(Device::get(device)).renderer();
  bad.renderers.clear();
  for (const auto& [name, fault] : faults) {
    RendererDescriptor& wrong = bad.renderers.emplace_back(right);
    wrong.name = name;
    wrong.renderer = new FaultyRenderer(*right.renderer, fault);  // lives as long as the registry
  }
  register_backend(std::move(bad));
}

/// Kernels of the network: pixels, conv1, its pool, conv2, fc1 behind its pool, fc2, argmax.
constexpr size_t kConv1 = 1;
constexpr size_t kConv2 = 3;

void register_all_bad() {
  static const bool is_registered = [] {
    register_bad("CPU",
                 {{"MAX", testing::max_forgets_last_lane}, {"MINUS", testing::additions_subtract}});
    register_bad("INTERP", {{"GATE", testing::only_in("_16_5_5", testing::gates_are_ignored)}});
    return true;
  }();
  static_cast<void>(is_registered);
}

constexpr const char* kTwice =
    "graph twice { in %x: f32[5]\n %0 = add f32[5] %x, %x\n out y = %0\n }";

// Lane i reads what its neighbour wrote, without a barrier between them.
constexpr const char* kRace = R"(tir 1 func neighbours grid(1) lanes(4) scratch 16 {
  arg 0 y f32[4] write
  arg 1 x f32[4] read
  arg 2 n i32 in 1..4
  %0 = param 0
  %1 = param 1
  %2 = alloc f32 4 group
  %3 = lane_id 0 i32
  %4 = const i32 3
  %5 = load f32 %1[%3]
  store %2[%3], %5
  %6 = sub i32 %4, %3
  %7 = load f32 %2[%6]
  store %0[%3], %7
})";

class CliDiff : public ::testing::Test {
 protected:
  CliDiff() { register_all_bad(); }

  /// Standard output of the command in this process, which must end so.
  static std::string output_of(const cli::DiffCommandOptions& options, int exit_code) {
    ::testing::internal::CaptureStdout();
    int code = -1;
    try {
      code = diff_command(options);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
    std::string text = ::testing::internal::GetCapturedStdout();
    EXPECT_EQ(code, exit_code) << text;
    return text;
  }
  std::string digits(const std::string& device, int exit_code) {
    return output_of({.file = "digits",
                      .device = device,
                      .out_folder = folder_ / "found",
                      .batch = kImages,
                      .shows_launch = true},
                     exit_code);
  }
  std::string write(const std::string& name, std::string_view bytes) {
    write_file_atomic(folder_ / name, bytes);
    return folder_ / name;
  }
  /// Listed elements: lines of four spaces and a number.
  static int64_t num_listed(std::string_view text) {
    int64_t count = 0;
    for (const std::string_view line : split(text, '\n'))
      count += line.starts_with("    ") && line.find_first_of("0123456789") == 4 ? 1 : 0;
    return count;
  }
  /// The digits on `device`, whose kernels are called so: one of the numbers `among` is named, and
  /// the folder repeats it.
  void expect_found(const std::string& device, const std::vector<std::string>& kernels,
                    const std::vector<size_t>& among, const std::string& verdict) {
    const std::string text = digits(device, 1);
    std::string found;
    for (const size_t number : among) {
      const std::string line =
          concat("differs:  kernel ", number + 1, ", ", kernels.at(number), "\n");
      if (text.find(line) != std::string::npos) found = kernels.at(number);
    }
    ASSERT_FALSE(found.empty()) << text;
    EXPECT_THAT(text, HasSubstr(concat("verdict:  ", verdict, ": ")));
    EXPECT_THAT(text, HasSubstr(concat("launch of \"", found, "\"")));
    EXPECT_THAT(text, HasSubstr(verdict == "device" ? "  events: waited for none, "
                                                    : "  it was not launched: "));
    const size_t small = std::min(text.find("made small:"), text.size());
    EXPECT_LE(num_listed(std::string_view(text).substr(0, small)), 16);
    EXPECT_LE(num_listed(std::string_view(text).substr(small)), 16);
    EXPECT_THAT(read_file(folder_ / "found/report.txt"), HasSubstr(found));
    const std::string again = output_of({.repeat_folder = folder_ / "found"}, 1);
    EXPECT_THAT(again, HasSubstr(concat("verdict:  ", verdict, ": ")));
    EXPECT_THAT(again, HasSubstr("differs:  kernel 1, "));
  }

  const TempFolder folder_;
  const ScopedSetting cache_{Setting::kCacheDir, folder_ / "cache"};
};

TEST_F(CliDiff, TheRightDeviceReadsTheDigits) {
  EXPECT_THAT(digits("CPU", 0), HasSubstr("7 ran\nno kernel differs\n"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "found"));
}

// Which kernel is the first depends on the vectors of this machine: one of those with a max.
TEST_F(CliDiff, MaxThatForgetsItsLastLane) {
  expect_found("BAD_CPU:MAX", digits_kernels(Device::get("CPU")), {2, 4, 5, 6}, "device");
}

TEST_F(CliDiff, TheGateOfTheSecondConvolutionIgnored) {
  expect_found("BAD_INTERP:GATE", digits_kernels(Device::get("INTERP")), {kConv2}, "device");
}

TEST_F(CliDiff, ReductionsThatDropTheirLastTerm) {
  const ScopedPlantedFault fault(PlantedFault::kLastIterationLost);
  const ScopedSetting unverified(Setting::kVerifyIr, "0");
  expect_found("CPU", digits_kernels(Device::get("CPU")), {kConv1}, "shared kernel");
}

TEST_F(CliDiff, TheFolderRepeatsItFromAnywhere) {
  const std::string graph = write("twice.tg", kTwice);
  const std::string text =
      output_of({.file = graph, .device = "BAD_CPU:MINUS", .out_folder = folder_ / "found"}, 1);
  EXPECT_THAT(text, HasSubstr("repeat:   tenon diff --repeat '" + folder_ / "found'"));
  // -50 / 32, twice; the device has 0. Made small it is one element.
  EXPECT_THAT(text, HasSubstr("expected -3.125 (0xc0480000), got 0 (0x00000000)"));
  EXPECT_THAT(text, HasSubstr("made small:"));
  EXPECT_THAT(read_file(folder_ / "found/kernel.tg"), HasSubstr("add f32[1] %b1, %b1"));
  EXPECT_THAT(read_file(folder_ / "found/program.tir"), HasSubstr("add f32 "));
  const auto values = [&](const std::string& file) {
    return npy_values<float>(folder_ / ("found/" + file), DType::kF32, {1});
  };
  EXPECT_EQ(values("in0_b1.npy"), std::vector<float>{-50 / 32.0F});
  EXPECT_EQ(values("expected.npy"), std::vector<float>{-3.125F});
  EXPECT_EQ(values("got.npy"), std::vector<float>{0});
  // The built command has no bad device: what was found there is right on its CPU.
  const TenonResult right = run_tenon({"diff", "--repeat", folder_ / "found", "--device", "CPU"});
  EXPECT_EQ(right.exit_code, 0) << right.err;
  EXPECT_THAT(right.out, HasSubstr("no kernel differs"));
  EXPECT_THAT(run_tenon({"diff", "--repeat", folder_ / "found"}).err, HasSubstr("BAD_CPU"));
}

TEST_F(CliDiff, GivenInputsAreUsed) {
  const std::vector<float> values = {1, 2, 3, 4, 5};
  write_npy(folder_ / "x.npy",
            {.dtype = DType::kF32, .shape = {5}, .bytes = std::as_bytes(std::span(values))});
  const std::string text = output_of({.file = write("twice.tg", kTwice),
                                      .device = "BAD_CPU:MINUS",
                                      .inputs = {"x=" + folder_ / "x.npy"},
                                      .out_folder = folder_ / "found"},
                                     1);
  EXPECT_THAT(text, HasSubstr("element (0) of f32 (5): expected 2 (0x40000000)"));
  EXPECT_EQ(num_listed(text.substr(0, text.find("made small"))), 5);
}

TEST_F(CliDiff, LinearProgramsWithScalars) {
  const TenonResult found = run_tenon({"diff", write("race.tir", kRace), "--device", "INTERP",
                                       "--set", "n=3", "--out", folder_ / "found", "--launch"});
  EXPECT_EQ(found.exit_code, 1) << found.err;
  const TenonResult again = run_tenon({"diff", "--repeat", folder_ / "found", "--launch"});
  EXPECT_EQ(again.exit_code, 1) << again.err;
  for (const std::string& text : {found.out, again.out}) {
    EXPECT_THAT(text, HasSubstr("verdict:  shared kernel"));
    EXPECT_THAT(text, HasSubstr("race"));
    EXPECT_THAT(text, HasSubstr("i32 with bits 0x3, range 1..4"));
  }
}

// Where the graph alone does not differ, the program does, from what the oracle said.
// A shrunk Target is another device, which the command to repeat it says too.
TEST_F(CliDiff, ShrunkTargetsAreNamed) {
  const std::map<std::string, std::string> shrunk = {{"TENON_TARGET", "max_arguments=4"}};
  const TenonResult found = run_tenon(
      {"diff", write("race.tir", kRace), "--device", "INTERP", "--out", folder_ / "found"}, shrunk);
  EXPECT_EQ(found.exit_code, 1) << found.err;
  EXPECT_THAT(found.out, HasSubstr("repeat:   TENON_TARGET='max_arguments=4' tenon diff --repeat"));
  const TenonResult again = run_tenon({"diff", "--repeat", folder_ / "found"}, shrunk);
  EXPECT_EQ(again.exit_code, 1) << again.err;
  EXPECT_THAT(again.out, HasSubstr("INTERP:0:TIR (max_arguments=4)"));
}

TEST_F(CliDiff, ProgramsKeepWhatTheOracleSaid) {
  // A device without bf16 sees its bits.
  constexpr const char* kCopied = R"(tir 1 func copied grid(1) lanes(1) scratch 0 {
  arg 0 y u16[4] write
  arg 1 x u16[4] read
  %0 = param 0
  %1 = param 1
  %2 = const i32 0
  %3 = load u16x4 %1[%2]
  store %0[%2], %3
})";
  const std::vector<uint16_t> x = {0x4000, 0x4080, 0x40c0, 0x4100};
  const auto bytes = std::as_bytes(std::span(x));
  Difference difference{.verdict = DiffVerdict::kSharedKernel, .kernel = "copied"};
  difference.program = parse_linear(kCopied, "test");
  difference.arguments = {
      {.name = "y", .dtype = DType::kBF16, .shape = {2, 2}},
      {.name = "x", .dtype = DType::kBF16, .shape = {2, 2}, .bytes = {bytes.begin(), bytes.end()}}};
  // 2, 4, 7 +- 2, and anything.
  difference.expected = {.dtype = DType::kBF16,
                         .shape = {2, 2},
                         .bits = {0x4000, 0x4080, 0x40e0, 0},
                         .radius = {0, 0, 2, 0},
                         .excluded = {0, 0, 0, 1}};
  difference.got.resize(8);
  Device& device = Device::get("CPU");
  const auto repeated = [&](int exit_code) {
    cli::write_diff_folder(folder_ / "found", {.first = difference}, device, "");
    return output_of({.repeat_folder = folder_ / "found"}, exit_code);
  };
  EXPECT_THAT(repeated(0), HasSubstr("no kernel differs"));
  difference.expected.radius[2] = 0.5;
  EXPECT_THAT(repeated(1), HasSubstr("expected 7 (0x40e0) +- 0.5, got 6 (0x40c0)"));
}

TEST_F(CliDiff, BadInput) {
  const std::string graph = write("twice.tg", kTwice);
  const auto expect = [](int exit_code, const std::vector<std::string>& arguments,
                         const std::vector<std::string>& words) {
    const TenonResult result = run_tenon(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    for (const std::string& word : words)
      EXPECT_THAT(result.err, HasSubstr(word));
  };
  expect(2, {"diff"}, {"give a program", "--repeat"});
  expect(2, {"diff", graph, "--repeat", folder_.path()}, {"give a program"});
  expect(2, {"diff", "model.onnx"}, {"model.onnx", ".tg"});
  expect(2, {"diff", "digits", "--batch", "0"}, {"--batch"});
  expect(2, {"diff", "digits", "--in", "x=a.npy"}, {"--in", "tenon diff FILE"});
  expect(2, {"diff", graph, "--batch", "3"}, {"--batch", "tenon diff digits"});
  expect(2, {"diff", "--repeat", folder_.path(), "--out", "b"}, {"--out", "tenon diff PROGRAM"});
  expect(1, {"diff", graph, "--device", "CPV"}, {"CPV", "did you mean 'CPU'"});
  expect(1, {"diff", graph, "--device", "NULL"}, {"never runs"});
  expect(1, {"diff", graph, "--in", "z=a.npy"}, {"z=a.npy", "It takes"});
  expect(1, {"diff", folder_ / "none.tg"}, {"none.tg"});
  expect(1, {"diff", "--repeat", folder_.path()}, {"no case.txt"});
  write("case.txt", "tenon diff 1\ndevice CPU\nof ../twice.tg\n");
  expect(1, {"diff", "--repeat", folder_.path()}, {"case.txt:3", "no file of this folder"});
  write("case.txt", "tenon diff 1\ndevice CPU\nof twice.tg\nscalar 3\n");
  expect(1, {"diff", "--repeat", folder_.path()}, {"case.txt:4", "expected input"});
  write("race.tir", kRace);
  write_npy(folder_ / "x.npy",
            {.dtype = DType::kF32, .shape = {2}, .bytes = std::array<std::byte, 8>{}});
  const std::string head = "tenon diff 1\ndevice CPU\nof race.tir\nwritten\nargument x.npy\n";
  write("case.txt", head + "scalar few\n");
  expect(1, {"diff", "--repeat", folder_.path()}, {"x.npy", "(2)", "takes float32 (4)"});
  write_npy(folder_ / "x.npy",
            {.dtype = DType::kF32, .shape = {4}, .bytes = std::array<std::byte, 16>{}});
  expect(1, {"diff", "--repeat", folder_.path()}, {"scalar \"few\" is no number"});
  write("case.txt", "tenon diff 2\n");
  expect(1, {"diff", "--repeat", folder_.path()}, {"expected 'tenon diff 1'"});
}

}  // namespace
}  // namespace tenon
