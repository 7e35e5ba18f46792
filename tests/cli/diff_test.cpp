// `tenon diff`: the digits network on devices with one fault each, the folder and its repetition, in
// this process, since the built command has no such devices; right devices and bad input with the
// built command. SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tenon/base/file.h"
#include "tenon/base/planted_fault.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/data_folder.h"
#include "tenon/cli/digits.h"
#include "tenon/engine/backend.h"
#include "tenon/engine/engine_device.h"
#include "tenon/engine/program_store.h"
#include "tenon/schedule/schedule.h"
#include "tests/cli/run_tenon.h"
#include "tests/support/faulty_programs.h"

namespace tenon {
namespace {

using cli::diff_command;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::FaultyRenderer;
using testing::ProgramFault;
using testing::run_tenon;
using testing::TempFolder;
using testing::TenonResult;

constexpr int64_t kImages = 2;

/// The CPU with `fault` between compiler and renderer, as device FAULTY:NAME.
RendererDescriptor faulty_renderer(const std::string& name, ProgramFault fault) {
  RendererDescriptor descriptor = engine_device(Device::get("CPU")).renderer();
  descriptor.name = name;
  descriptor.renderer = new FaultyRenderer(*descriptor.renderer, std::move(fault));  // as long as the registry
  return descriptor;
}

/// Names of the kernels of the digits network on the CPU, in order.
std::vector<std::string> digits_kernels() {
  Device& device = Device::get("CPU");
  const ScopedDefaultDevice scope(device);
  const std::string path = cli::find_data_folder("", "digits_cnn.safetensors");
  const cli::DigitsNetwork network(path + "/digits_cnn.safetensors", std::nullopt);
  const std::vector<uint8_t> pixels(kImages * cli::kImageSide * cli::kImageSide);
  const Tensor logits = network.logits(
      Tensor::from_data(pixels, {kImages, cli::kImageSide, cli::kImageSide}));
  const Node outputs[] = {logits.node(), logits.argmax(1).node()};
  std::vector<std::string> names;
  for (const ScheduledCall& call : schedule_graph(outputs, schedule_options(device.target())).calls)
    names.push_back(kernel_symbol(call.kernel));
  return names;
}

void register_faulty() {
  static const bool is_registered = [] {
    const std::vector<std::string> kernels = digits_kernels();
    register_backend(
        {.name = "FAULTY",
         .renderers = {faulty_renderer("MAX", testing::max_forgets_last_lane),
                       faulty_renderer("GATE", testing::only_in(kernels.at(2), testing::gates_are_ignored)),
                       faulty_renderer("TERM", testing::only_in(kernels.at(4), testing::last_terms_are_dropped)),
                       faulty_renderer("MINUS", testing::additions_subtract)},
         .why_absent = [] { return std::optional<std::string>(); },
         .num_devices = [] { return 1; },
         .open = [](int, const Target& target) { return find_backend("CPU")->open(0, target); }});
    return true;
  }();
  static_cast<void>(is_registered);
}

class CliDiff : public ::testing::Test {
 protected:
  CliDiff() { register_faulty(); }

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
  /// The line that begins so.
  static std::string line_of(const std::string& text, const std::string& word) {
    const size_t begin = text.find("\n" + word);
    return begin == std::string::npos ? "" : text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
  }
  /// Listed elements: lines of four spaces and a number.
  static int64_t num_listed(const std::string& text) {
    int64_t count = 0;
    for (const std::string_view line : split(std::string_view(text), '\n'))
      count += line.size() > 4 && line.starts_with("    ") && line[4] >= '0' && line[4] <= '9' ? 1 : 0;
    return count;
  }

  const TempFolder folder_;
};

TEST_F(CliDiff, RightDevicesPass) {
  const std::string text = digits("CPU", 0);
  EXPECT_THAT(text, HasSubstr("no kernel differs"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "found"));
}

TEST_F(CliDiff, Show) {
  for (const std::string& name : digits_kernels()) std::cout << name << "\n";
  for (const char* device : {"FAULTY:MAX", "FAULTY:GATE", "FAULTY:TERM"}) {
    std::cout << digits(device, 1) << "\n";
    const std::string text = output_of({.repeat_folder = folder_ / "found"}, 1);
    std::cout << "REPEAT " << text << "\n";
  }
}

}  // namespace
}  // namespace tenon
