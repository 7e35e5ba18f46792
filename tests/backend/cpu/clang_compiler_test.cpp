// Finding clang, what decides its output, and its error texts.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/clang_compiler.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "tenon/backend/cpu/object_loader.h"
#include "tenon/base/file.h"
#include "tenon/base/settings.h"
#include "tests/backend/cpu/compile_for_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tenon::cpu {
namespace {

using tenon::testing::TempFolder;

/// A program that says `version` and counts its calls in the file `<path>.calls`.
std::string make_fake_clang(const TempFolder& folder, const std::string& version) {
  const std::string path = folder / "fake-clang";
  std::ofstream(path) << "#!/bin/sh\necho x >> " << path << ".calls\necho '" << version << "'\n";
  chmod(path.c_str(), 0755);
  return path;
}

size_t num_calls(const std::string& path) {
  const std::string calls = read_file(path + ".calls");
  return static_cast<size_t>(std::count(calls.begin(), calls.end(), '\n'));
}

TEST(ClangCompiler, FindsOneThatIsNewEnough) {
  const ClangTool clang = find_clang();
  EXPECT_GE(clang.major_version, kMinClangVersion);
  EXPECT_NE(clang.version.find("clang version"), std::string::npos);
}

TEST(ClangCompiler, TheSettingDecidesAndIsChecked) {
  const TempFolder folder;
  {
    const ScopedSetting setting(Setting::kClang, folder / "none");
    EXPECT_ERROR(find_clang(), ErrorCode::kNotFound, "TENON_CLANG", "none");
  }
  {
    const ScopedSetting setting(Setting::kClang, make_fake_clang(folder, "clang version 14.0.6"));
    EXPECT_ERROR(find_clang(), ErrorCode::kUnsupported, "TENON_CLANG", "14.0.6", "22");
  }
}

TEST(ClangCompiler, AWarmProcessDoesNotAskForTheVersion) {
  const TempFolder folder;
  const std::string path = make_fake_clang(folder, "Fake clang version 29.1.2 (x)");
  const ScopedSetting setting(Setting::kClang, path);
  CompileCache cache(folder / "cache");
  EXPECT_EQ(find_clang(&cache).major_version, 29);
  EXPECT_EQ(find_clang(&cache).version, "Fake clang version 29.1.2 (x)");
  EXPECT_EQ(num_calls(path), 1u);
  // Another file at that path: asked again.
  std::ofstream(path, std::ios::app) << "# longer\n";
  EXPECT_EQ(find_clang(&cache).major_version, 29);
  EXPECT_EQ(num_calls(path), 2u);
}

TEST(ClangCompiler, TheFingerprintCoversFeaturesFlagsAndVersion) {
  const ClangTool clang = {
      .path = "/x/clang", .version = "clang version 22.1", .major_version = 22};
  ClangTool newer = clang;
  newer.version = "clang version 22.2";
  const CpuFeatureSet base = baseline_cpu_features();
  const std::string print = clang_fingerprint(clang, base, {});
  EXPECT_EQ(print, clang_fingerprint(clang, base, {.name = "other", .extra_flags = {}}));
  EXPECT_NE(print, clang_fingerprint(newer, base, {}));
  EXPECT_NE(print, clang_fingerprint(clang, parse_cpu_arch("x86_64,avx2"), {}));
  EXPECT_NE(print, clang_fingerprint(clang, base, {.name = "kernel", .extra_flags = {"-O2"}}));
}

TEST(ClangCompiler, EveryFeatureIsKnownToClang) {
  for (const char* name : {"avx512fp16,avx512bf16,avx512vbmi,avx512vbmi2,avx512vnni,avx512bitalg",
                           "avx512vpopcntdq,avx512ifma,avx512cd,avxvnni,gfni,popcnt,lzcnt",
                           "bmi,bmi2,amx-bf16,amx-int8"}) {
    const CpuFeatureSet some = parse_cpu_arch(std::string("x86_64,") + name);
    const std::vector<std::byte> object =
        compile_c(find_clang(), "int f(void) { return 1; }", some);
    EXPECT_NE(load_object(object, "f").find("f"), nullptr);
  }
}

TEST(ClangCompiler, ContractionIsOffEvenWithFma) {
  // a*b is 1 - 2^-24*2^-24 exactly; rounded it is 1, so a*b - 1 is 0 only if it rounds twice.
  const CpuFeatureSet host = host_cpu_features();
  const std::vector<std::byte> object =
      compile_c(find_clang(), "float f(float a, float b, float c) { return a * b + c; }", host);
  const LoadedObject loaded = load_object(object, "f");
  const auto f = reinterpret_cast<float (*)(float, float, float)>(loaded.find("f"));
  EXPECT_EQ(f(1.0f + 0x1p-23f, 1.0f - 0x1p-23f, -1.0f), 0.0f);
}

TEST(ClangCompiler, FailuresCarryTheCompilersWords) {
  EXPECT_ERROR(compile_for_test("int f(void) { return undeclared_thing; }",
                                {.name = "kernel 'r_64'", .extra_flags = {}}),
               ErrorCode::kCompileFailed, "kernel 'r_64'", "exit 1", "undeclared_thing");
  const ClangTool broken = {.path = "/bin/false", .version = "", .major_version = 22};
  EXPECT_ERROR(compile_c(broken, "", baseline_cpu_features()), ErrorCode::kCompileFailed,
               "/bin/false", "exit 1");
}

TEST(ClangCompiler, EqualInputGivesEqualBytes) {
  constexpr std::string_view kSource = "float f(float x) { return x * 3.5f + 1.0f; }";
  EXPECT_EQ(compile_for_test(kSource), compile_for_test(kSource));
}

}  // namespace
}  // namespace tenon::cpu
