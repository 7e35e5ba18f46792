// Programs across processes and mishaps: the disk cache, damaged entries, a folder that cannot be
// used, compilers that fail. Starts of clang are counted by a wrapper around it.
// SPDX-License-Identifier: MIT

#include "tenon/engine/program_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tenon/base/file.h"
#include "tenon/base/text.h"
#include "tenon/engine/events.h"
#include "tenon/ir/kernel_text.h"
#include "tenon/schedule/schedule.h"
#include "tests/engine/engine_support.h"
#include "tests/support/expect_error.h"

namespace tenon {
namespace {

using testing::buffer_of;
using testing::EngineTest;
using ::testing::HasSubstr;
using testing::realized;
using testing::TempFolder;

class ProgramStore : public EngineTest {};

/// Two kernels: a sum over rows that is read through two views, and what is built on it.
Node two_kernels(Device& device, float start) {
  std::vector<float> values;
  for (int i = 0; i < 35; ++i)
    values.push_back(start + 0.5f * static_cast<float>(i));
  const Node x = buffer_of(values, {5, 7}, device);
  const int64_t axes[] = {1};
  const Node sums = tensor_contiguous(tensor_reduce(Op::kAdd, x, axes, DType::kF32));
  const int64_t shape[] = {5, 7};
  return tensor_binary(Op::kMul, x, tensor_expand(sums, shape));
}

std::vector<float> expected_of_two_kernels(float start) {
  std::vector<float> expected(35);
  for (int row = 0; row < 5; ++row) {
    float sum = 0;
    for (int i = 7 * row; i < 7 * row + 7; ++i)
      sum += start + 0.5f * static_cast<float>(i);
    for (int i = 7 * row; i < 7 * row + 7; ++i) {
      expected[static_cast<size_t>(i)] = (start + 0.5f * static_cast<float>(i)) * sum;
    }
  }
  return expected;
}

std::string output_of(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string out;
  char block[4096];
  size_t count = 0;
  while (pipe != nullptr && (count = fread(block, 1, sizeof block, pipe)) > 0) {
    out.append(block, count);
  }
  const int status = pipe == nullptr ? -1 : pclose(pipe);
  return status == 0 ? out : concat(out, "exit ", status);
}

/// A clang that writes a line into `log` at each start.
void write_wrapper(const std::string& path, const std::string& log) {
  const std::string clang = find_program("clang-22").value_or("");
  std::ofstream(path) << "#!/bin/sh\necho start >> " << log << "\nexec " << clang << " \"$@\"\n";
  chmod(path.c_str(), 0755);
}

size_t num_lines(const std::string& path) {
  std::ifstream file(path);
  size_t count = 0;
  for (std::string line; std::getline(file, line);)
    ++count;
  return count;
}

/// What a child process does and prints; run by the tests below, by name.
TEST(ProgramStoreChild, DISABLED_Work) {
  int found = 0;
  int lowered = 0;
  set_event_hook([&](const EngineEvent& event) {
    found += event.kind == EngineEvent::Kind::kFound;
    lowered += event.kind == EngineEvent::Kind::kLowered;
  });
  const Node node = two_kernels(Device::get_default(), 2.0f);
  const Node nodes[] = {node};
  for (const ScheduledCall& call : schedule_graph(nodes, {}).calls) {
    std::cout << "KERNEL " << to_text(call.kernel);
  }
  RealizeStats stats;
  const bool is_right = realized<float>(node, &stats) == expected_of_two_kernels(2.0f);
  set_event_hook({});
  std::cout << "RESULT " << (is_right ? "right" : "wrong") << " kernels " << stats.kernels
            << " compiled " << stats.compiled << " found " << found << " lowered " << lowered
            << "\n";
  std::ifstream maps("/proc/self/maps");
  bool has_llvm = false;
  for (std::string line; std::getline(maps, line);)
    has_llvm = has_llvm || line.find("libLLVM") != std::string::npos;
  std::cout << (has_llvm ? "opened libLLVM\n" : "without libLLVM\n");
}

/// With this clang; with libLLVM if it is empty.
std::string run_child(const std::string& cache, const std::string& clang) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string device = clang.empty() ? "CPU:LLVM" : "CPU:CLANG TENON_CLANG=" + clang;
  return output_of(concat("TENON_CACHE_DIR=", cache, " DEV=", device, " ", self,
                          " --gtest_also_run_disabled_tests"
                          " --gtest_filter=ProgramStoreChild.DISABLED_Work 2>&1"));
}

/// The lines between the first kernel and the result.
std::string kernels_in(const std::string& output) {
  const size_t begin = output.find("KERNEL");
  const size_t end = output.find("RESULT");
  return begin == std::string::npos || end == std::string::npos ? output
                                                                : output.substr(begin, end - begin);
}

TEST_F(ProgramStore, SecondProcessStartsNoCompilerAndLowersNothing) {
  const std::string wrapper = folder_ / "clang";
  const std::string log = folder_ / "log";
  write_wrapper(wrapper, log);
  const std::string first = run_child(folder_ / "shared", wrapper);
  EXPECT_THAT(first, HasSubstr("RESULT right kernels 2 compiled 2 found 0 lowered 2"));
  const size_t starts = num_lines(log);
  EXPECT_GE(starts, 2u);  // its version, and one compile of both kernels
  EXPECT_LE(starts, 2u);
  const std::string second = run_child(folder_ / "shared", wrapper);
  EXPECT_THAT(second, HasSubstr("RESULT right kernels 2 compiled 0 found 2 lowered 0"));
  EXPECT_EQ(num_lines(log), starts);
  EXPECT_EQ(kernels_in(first), kernels_in(second));
  EXPECT_THAT(kernels_in(first), HasSubstr("kernel "));
}

TEST_F(ProgramStore, SecondProcessDoesNotOpenLlvm) {
  for (const RendererDescriptor& renderer : find_backend("CPU")->renderers) {
    const auto reason = renderer.why_absent();
    if (renderer.name == "LLVM" && reason) GTEST_SKIP() << *reason;
  }
  const std::string first = run_child(folder_ / "shared", "");
  EXPECT_THAT(first, HasSubstr("RESULT right kernels 2 compiled 2 found 0 lowered 2"));
  EXPECT_THAT(first, HasSubstr("opened libLLVM"));
  const std::string second = run_child(folder_ / "shared", "");
  EXPECT_THAT(second, HasSubstr("RESULT right kernels 2 compiled 0 found 2 lowered 0"));
  EXPECT_THAT(second, HasSubstr("without libLLVM"));
}

TEST_F(ProgramStore, AnotherCompilerIsAnotherKey) {
  const std::string a = folder_ / "clang-a";
  const std::string b = folder_ / "clang-b";
  write_wrapper(a, folder_ / "log");
  write_wrapper(b, folder_ / "log");
  EXPECT_THAT(run_child(folder_ / "shared", a), HasSubstr("compiled 2"));
  EXPECT_THAT(run_child(folder_ / "shared", b), HasSubstr("compiled 2"));
}

/// Changes entries in every way that a disk may: cut, flipped bytes, emptied, swapped contents.
TEST_F(ProgramStore, DamagedEntriesAreMadeAgain) {
  const std::string wrapper = folder_ / "clang";
  write_wrapper(wrapper, folder_ / "log");
  const std::string cache = folder_ / "shared";
  EXPECT_THAT(run_child(cache, wrapper), HasSubstr("RESULT right"));
  std::vector<std::filesystem::path> entries;
  for (const auto& entry : std::filesystem::directory_iterator(cache)) {
    entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  ASSERT_GE(entries.size(), 4u);  // clang's version, two programs, one object
  const auto damage_all = [&](const auto& change) {
    for (const auto& path : entries) {
      std::string bytes = read_file(path.string());
      change(bytes);
      std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    }
    EXPECT_THAT(run_child(cache, wrapper), HasSubstr("RESULT right kernels 2 compiled 2"));
    EXPECT_THAT(run_child(cache, wrapper), HasSubstr("RESULT right kernels 2 compiled 0"));
  };
  damage_all([](std::string& bytes) { bytes.resize(bytes.size() / 2); });
  damage_all([](std::string& bytes) { bytes[bytes.size() - 3] ^= 1; });
  damage_all([](std::string& bytes) { bytes.clear(); });
}

/// Another plan is another program; an unknown one is refused.
TEST_F(ProgramStore, ThePlanIsPartOfTheKey) {
  Device& device = Device::get_default();
  const Node nodes[] = {two_kernels(device, 5.0f)};
  const Schedule schedule = schedule_graph(nodes, {});
  const auto fresh = make_device(kMaxLoadedPrograms, device.name().c_str());
  const auto num_compiled = [&] {
    RealizeStats stats;
    for (const ScheduledCall& call : schedule.calls) {
      const Kernel* const kernel = &call.kernel;
      find_programs(*fresh, {&kernel, 1}, stats);
    }
    return stats.compiled;
  };
  EXPECT_EQ(num_compiled(), 2);
  EXPECT_EQ(num_compiled(), 0);
  {
    const ScopedSetting plan(Setting::kPlan, "simple");
    EXPECT_EQ(num_compiled(), 2);
    EXPECT_EQ(realized<float>(two_kernels(device, 5.0f)), expected_of_two_kernels(5.0f));
  }
  const ScopedSetting plan(Setting::kPlan, "fast");
  EXPECT_ERROR(realized<float>(two_kernels(device, 6.0f)), ErrorCode::kInvalidArgument,
               "TENON_PLAN=fast", "auto or simple");
}

/// Entries whose checksum is right and whose contents are not.
TEST_F(ProgramStore, EntriesWithForeignContentsAreMadeAgain) {
  EngineDevice& device = engine_device(Device::get_default());
  const Node node = two_kernels(device, 3.0f);
  const Node nodes[] = {node};
  const Schedule schedule = schedule_graph(nodes, {});
  ASSERT_EQ(schedule.calls.size(), 2u);
  CompileCache& cache = shared_compile_cache();
  const std::string_view contents[] = {"", "TENONTPO", "something else entirely"};
  const Kernel* kernel = &schedule.calls[0].kernel;
  const std::string key = to_string(program_key(device, *kernel));
  // A device that has no program loaded yet.
  const auto compiled_by_fresh_device = [&] {
    RealizeStats stats;
    const auto fresh = make_device(kMaxLoadedPrograms, device.name().c_str());
    EXPECT_EQ(find_programs(*fresh, {&kernel, 1}, stats).size(), 1u);
    return stats.compiled;
  };
  EXPECT_EQ(compiled_by_fresh_device(), 1);
  ASSERT_TRUE(cache.get(key)) << "its program is kept under another key";
  EXPECT_EQ(compiled_by_fresh_device(), 0);
  for (const std::string_view text : contents) {
    cache.put(key, std::as_bytes(std::span(text)));
    EXPECT_EQ(compiled_by_fresh_device(), 1) << text;
  }
}

TEST_F(ProgramStore, UnusableFolderOnlyCostsTime) {
  std::ofstream(folder_ / "file") << "not a folder";
  const ScopedSetting dir(Setting::kCacheDir, folder_ / "file/below");
  std::vector<std::string> warnings;
  set_event_hook([&](const EngineEvent& event) {
    if (event.kind == EngineEvent::Kind::kWarning) warnings.emplace_back(event.text);
  });
  // A kernel that no other test of this process has loaded.
  const Node x = buffer_of<float>({1, 2, 3}, {3}, Device::get_default());
  const Node offset = tensor_unary(Op::kNeg, tensor_binary(Op::kSub, x, tensor_unary(Op::kNeg, x)));
  EXPECT_EQ(realized<float>(offset), (std::vector<float>{-2, -4, -6}));
  EXPECT_EQ(realized<float>(tensor_unary(Op::kAbs, offset)), (std::vector<float>{2, 4, 6}));
  set_event_hook({});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("compile cache"));
  const std::string child = run_child(folder_ / "file/below", "clang-22");
  EXPECT_THAT(child, HasSubstr("RESULT right kernels 2 compiled 2"));
}

TEST_F(ProgramStore, EqualKernelsShareAProgram) {
  EngineDevice& device = engine_device(Device::get_default());
  const Node nodes[] = {two_kernels(device, 5.0f), two_kernels(device, 6.0f)};
  const Schedule schedule = schedule_graph(nodes, {});
  ASSERT_EQ(schedule.calls.size(), 4u);
  std::vector<const Kernel*> kernels;
  for (const ScheduledCall& call : schedule.calls)
    kernels.push_back(&call.kernel);
  RealizeStats stats;
  const auto programs = find_programs(device, kernels, stats);
  EXPECT_LE(stats.compiled, 2);
  EXPECT_EQ(std::count(programs.begin(), programs.end(), programs[0]), 2);
  EXPECT_NE(kernel_symbol(*kernels[0]), kernel_symbol(*kernels[1]));
}

TEST_F(ProgramStore, FailedCompileNamesKernelDeviceAndSource) {
  const std::string broken = folder_ / "clang";
  std::ofstream(broken) << "#!/bin/sh\n[ \"$1\" = --version ] && echo 'clang version 22.1.0' && "
                           "exit 0\necho '<stdin>:1:1: error: out of order' >&2\nexit 3\n";
  chmod(broken.c_str(), 0755);
  const ScopedSetting clang(Setting::kClang, broken);
  EngineDevice& device = engine_device(Device::get("CPU:CLANG:x86_64,popcnt,sse3"));
  const Node nodes[] = {two_kernels(device, 7.0f)};
  EXPECT_ERROR(realize(nodes), ErrorCode::kCompileFailed, "exit 3", "out of order",
               "while compiling kernel '", "for 'CPU:0:CLANG:x86_64,popcnt,sse2,sse3'",
               "Full source: ", "/failed/");
}

TEST_F(ProgramStore, ObjectsCanBeDisassembled) {
  EngineDevice& device = engine_device(Device::get_default());
  const Node nodes[] = {two_kernels(device, 8.0f)};
  const Schedule schedule = schedule_graph(nodes, {});
  const LinearProgram program = lower_for(device, schedule.calls[0].kernel);
  const ProgramObject object = compile_linear(device, program);
  EXPECT_EQ(object.entry, kernel_symbol(schedule.calls[0].kernel));
  const std::string text = device.compiler().disassemble(object.payload, object.entry);
  EXPECT_THAT(text, HasSubstr(object.entry));
  EXPECT_THAT(text, HasSubstr("ret"));
}

}  // namespace
}  // namespace tenon
