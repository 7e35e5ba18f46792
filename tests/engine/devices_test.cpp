// Opening devices by name: what is found, what is refused and with which words.
// SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tenon/engine/backend.h"
#include "tenon/engine/engine_device.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using ::testing::Contains;
using testing::EngineTest;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::realized;

class Devices : public EngineTest {};

/// LLVM where libLLVM is, else CLANG.
std::string default_renderer() {
  for (const RendererDescriptor& renderer : find_backend("CPU")->renderers) {
    if (renderer.name == "LLVM" && !renderer.why_absent()) return "LLVM";
  }
  return "CLANG";
}

TEST_F(Devices, OneNameOneDevice) {
  Device& device = Device::get("CPU:CLANG");
  EXPECT_EQ(device.name(), "CPU:0:CLANG");
  EXPECT_EQ(device.renderer_name(), "CLANG");
  EXPECT_EQ(&Device::get("cpu:0:clang"), &device);
  EXPECT_EQ(&Device::get("CPU:CLANG:native"), &device);
  EXPECT_EQ(Device::get("CPU").name(), "CPU:0:" + default_renderer());
  EXPECT_EQ(&Device::by_number(device.number()), &device);
  EXPECT_ERROR(Device::by_number(-1), ErrorCode::kInvalidArgument, "device number -1");
  EXPECT_ERROR(Device::by_number(1000), ErrorCode::kInvalidArgument, "device number 1000");
}

TEST_F(Devices, ArchSelectsInstructionSets) {
  Device& baseline = Device::get("CPU:CLANG:x86_64");
  EXPECT_THAT(baseline.name(), HasSubstr("CPU:0:CLANG:x86_64,sse2"));
  EXPECT_EQ(baseline.target().max_vector_bytes, 16);
  EXPECT_EQ(&Device::get("CPU:CLANG:x86_64,avx2,-sse3"), &baseline);
  Device& wide = Device::get("NULL:CLANG:x86_64,avx512f,avx512bw,avx512dq,avx512vl,f16c,fma");
  EXPECT_EQ(wide.target().max_vector_bytes, 64);
  EXPECT_TRUE(wide.target().has_cast(DType::kF16, DType::kF32));
  EXPECT_ERROR(Device::get("CPU:CLANG:x86_64,avx3"), ErrorCode::kInvalidArgument, "avx3");
}

TEST_F(Devices, ArchThatThisMachineLacksOnlyCompiles) {
  // All that the machine has, in builds with the thread sanitizer too.
  const Target& here = Device::get("CPU:0::x86_64,native").target();
  std::string missing;
  for (const char* feature : {"amx-int8", "avx512fp16", "avx512bf16", "avxvnni", "avx512f"}) {
    const auto& features = here.features;
    if (std::find(features.begin(), features.end(), feature) == features.end()) missing = feature;
  }
  if (missing.empty()) GTEST_SKIP() << "this CPU has every instruction set of the table";
  EXPECT_ERROR(Device::get("CPU:CLANG:x86_64," + missing), ErrorCode::kUnsupported, missing,
               "lacks");
  EXPECT_NO_THROW(Device::get("NULL:CLANG:x86_64," + missing));
}

TEST_F(Devices, WrongNamesAreErrorsWithTheNearest) {
  EXPECT_ERROR(Device::get("CPUU"), ErrorCode::kInvalidArgument, "did you mean 'CPU'");
  EXPECT_ERROR(Device::get("CPU:CLAN"), ErrorCode::kInvalidArgument, "no renderer called 'CLAN'",
               "did you mean 'CLANG'");
  EXPECT_ERROR(Device::get("CPU:1"), ErrorCode::kNotFound, "no device 1");
  EXPECT_ERROR(Device::get("FAULT(x)+CPU"), ErrorCode::kInvalidArgument, "no interface", "FAULT");
  EXPECT_ERROR(Device::get(""), ErrorCode::kInvalidArgument, "empty");
}

TEST_F(Devices, SettingChoosesTheDefault) {
  {
    const ScopedSetting dev(Setting::kDevice, "null:clang:x86_64; CPU");
    EXPECT_EQ(Device::get_default().name(), "NULL:0:CLANG:x86_64,sse2");
    const ScopedDefaultDevice scope(Device::get("CPU"));
    EXPECT_EQ(Device::get_default().name(), "CPU:0:" + default_renderer());
    std::thread([] {  // a scope is its thread's own
      EXPECT_EQ(Device::get_default().name(), "NULL:0:CLANG:x86_64,sse2");
    })
        .join();
  }
  {
    const ScopedSetting dev(Setting::kDevice, "CPU;NUL");
    EXPECT_ERROR(Device::get_default(), ErrorCode::kInvalidArgument, "did you mean 'NULL'");
  }
  const ScopedSetting dev(Setting::kDevice, "");
  EXPECT_EQ(Device::get_default().name(), "CPU:0:" + default_renderer());
}

TEST_F(Devices, MissingCompilersAreErrorsThatSayWhatToInstall) {
  const ScopedSetting llvm(Setting::kLlvm, "/nonexistent");
  EXPECT_ERROR(Device::get("CPU:LLVM:x86_64,popcnt"), ErrorCode::kNotFound, "LLVM",
               "TENON_LLVM is '/nonexistent'", "libLLVM.so.22.1");
  EXPECT_EQ(Device::get("CPU:0::x86_64,bmi").renderer_name(), "CLANG");
  const ScopedSetting clang(Setting::kClang, "/nonexistent");
  EXPECT_ERROR(Device::get("CPU:CLANG:x86_64,popcnt"), ErrorCode::kNotFound, "CLANG",
               "TENON_CLANG is '/nonexistent'", "clang 22 or newer");
  EXPECT_ERROR(Device::get("CPU:0::x86_64,popcnt"), ErrorCode::kNotFound,
               "none of its renderers can be used", "TENON_CLANG", "TENON_LLVM");
}

TEST_F(Devices, BackendsAreListedWithTheirRenderers) {
  std::vector<std::string> names;
  for (const BackendDescriptor* backend : all_backends()) {
    names.push_back(backend->name);
    std::vector<std::string> renderers;
    for (const RendererDescriptor* renderer : renderers_of(*backend)) {
      renderers.push_back(renderer->name);
    }
    if (backend->name == "DISK") {
      EXPECT_TRUE(backend->takes_path);
      EXPECT_TRUE(renderers.empty());
      continue;
    }
    if (backend->name == "INTERP") {
      EXPECT_EQ(renderers, std::vector<std::string>{"TIR"});
      continue;
    }
    EXPECT_THAT(renderers, Contains("CLANG")) << backend->name;
    EXPECT_THAT(renderers, Contains("LLVM")) << backend->name;
  }
  EXPECT_THAT(names, Contains("CPU"));
  EXPECT_THAT(names, Contains("INTERP"));
  EXPECT_THAT(names, Contains("NULL"));
  EXPECT_THAT(names, Contains("DISK"));
  register_built_backends();  // again: no second entry
  EXPECT_EQ(all_backends().size(), names.size());
}

TEST_F(Devices, NullCompilesAndRefusesToRun) {
  Device& null = Device::get("NULL:CLANG:x86_64,avx2");
  const std::vector<int32_t> values = {3, -5, 70000};
  const Node x = buffer_of(values, {3}, null);
  EXPECT_EQ(testing::values_of<int32_t>(x), values);
  const Node nodes[] = {tensor_binary(Op::kMul, x, x)};
  RealizeStats stats;
  EXPECT_ERROR(realize(nodes, nullptr, &stats), ErrorCode::kUnsupported, "NULL:0", "never runs",
               "while realising mul");
  EXPECT_FALSE(nodes[0].value());
  EXPECT_ERROR(read_bytes(nodes[0]), ErrorCode::kInvalidArgument, "no value yet");
}

TEST_F(Devices, ForkedChildGetsAnErrorNotAHang) {
  const Node x = buffer_of<float>({1.5f, 2.0f, -8.0f}, {3});
  const Node y = tensor_binary(Op::kAdd, x, x);
  realized<float>(y);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int code = 1;
    try {
      read_bytes(y);
    } catch (const Error& error) {
      const bool is_right = error.code() == ErrorCode::kDeviceFailed &&
                            std::string(error.what()).find("forked") != std::string::npos;
      code = is_right ? 42 : 2;
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

}  // namespace
}  // namespace tenon
