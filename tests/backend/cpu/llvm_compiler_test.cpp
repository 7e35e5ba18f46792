// Finding libLLVM, what decides the bytes it makes, its error texts, and what it makes of text.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/llvm_compiler.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tenon/backend/cpu/llvm_unit_compiler.h"
#include "tenon/backend/cpu/object_loader.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tenon::cpu {
namespace {

using tenon::testing::TempFolder;

/// A kernel with this body.
std::string kernel(const std::string& name, const std::string& body) {
  return concat("define void @", name, "(ptr %args, i64 %begin, i64 %end, ptr %scratch) #0 {\n",
                body, "  ret void\n}\n\nattributes #0 = { nounwind }\n");
}

std::vector<std::byte> compile(const std::string& text,
                               const CpuFeatureSet& features = baseline_cpu_features()) {
  return compile_llvm(find_llvm(), text, features, "kernel 'k'");
}

class LlvmCompiler : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = why_no_llvm()) GTEST_SKIP() << *reason;
  }
};

TEST(LlvmTool, TheSettingDecidesAndIsChecked) {
  const TempFolder folder;
  {
    const ScopedSetting setting(Setting::kLlvm, folder / "none");
    EXPECT_ERROR(find_llvm(), ErrorCode::kNotFound, "TENON_LLVM", "none", "libLLVM.so.22.1");
    ASSERT_TRUE(why_no_llvm());
    EXPECT_NE(why_no_llvm()->find("TENON_LLVM"), std::string::npos);
  }
  // A file that is no library is found, for nothing is opened to find it; the compile says it.
  std::ofstream(folder / "text.so") << "not a library\n";
  const ScopedSetting setting(Setting::kLlvm, folder / "text.so");
  EXPECT_EQ(why_no_llvm(), std::nullopt);
  EXPECT_ERROR(compile(kernel("k", "")), ErrorCode::kUnsupported, "text.so",
               "apt-get install libllvm22");
}

TEST(LlvmTool, AnotherLibraryIsNotTakenForLlvm) {
  const LlvmTool libc{.path = "libc.so.6", .identity = ""};
  EXPECT_ERROR(compile_llvm(libc, "", baseline_cpu_features(), "k"), ErrorCode::kUnsupported,
               "libc.so.6", "LLVM");
}

TEST(LlvmTool, TheFingerprintCoversFeaturesAndTheFile) {
  const LlvmTool llvm{.path = "/x/libLLVM.so.22.1", .identity = "100 1.5"};
  const CpuFeatureSet base = baseline_cpu_features();
  const std::string print = llvm_fingerprint(llvm, base);
  EXPECT_EQ(print, llvm_fingerprint(llvm, base));
  EXPECT_NE(print, llvm_fingerprint(llvm, parse_cpu_arch("x86_64,avx2")));
  EXPECT_NE(print, llvm_fingerprint({.path = llvm.path, .identity = "100 1.6"}, base));
  EXPECT_NE(print, llvm_fingerprint({.path = "/y", .identity = llvm.identity}, base));
}

TEST_F(LlvmCompiler, EqualInputGivesEqualBytes) {
  const std::string text = kernel("k", "  store i64 %begin, ptr %scratch\n");
  EXPECT_EQ(compile(text), compile(text));
  EXPECT_EQ(find_llvm().identity, find_llvm().identity);
}

TEST_F(LlvmCompiler, EveryFeatureIsKnownToLlvm) {
  // LLVM would only print a warning about a feature it does not know, so each must change the code.
  const auto bytes = [](const std::string& arch) {
    return compile(kernel("k",
                          "  %x = load <16 x float>, ptr %args, align 64\n"
                          "  %y = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, "
                          "<16 x float> %x, <16 x float> %x)\n"
                          "  store <16 x float> %y, ptr %scratch, align 64\n"),
                   parse_cpu_arch(arch));
  };
  EXPECT_NE(bytes("x86_64,fma"), bytes("x86_64,avx512f"));
  ::testing::internal::CaptureStderr();
  for (const char* name : {"avx512fp16,avx512bf16,avx512vbmi,avx512vbmi2,avx512vnni,avx512bitalg",
                           "avx512vpopcntdq,avx512ifma,avx512cd,avxvnni,gfni,popcnt,lzcnt",
                           "bmi,bmi2,amx-bf16,amx-int8"}) {
    bytes(concat("x86_64,", name));
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(LlvmCompiler, ContractionIsOffEvenWithFma) {
  // a*a is 1 + 2^-22 + 2^-46; rounded to f32 the last term is gone.
  const std::vector<std::byte> object =
      compile(kernel("k",
                     "  %a = load float, ptr %scratch\n  %b = fmul float %a, %a\n"
                     "  %c = fadd float %b, -1.0\n  store float %c, ptr %scratch\n"),
              host_cpu_features());
  const LoadedObject loaded = load_object(object, "k");
  using Kernel = void(const void*, int64_t, int64_t, void*);
  float value = 1.0F + 0x1p-23F;
  reinterpret_cast<Kernel*>(loaded.find("k"))(nullptr, 0, 1, &value);
  EXPECT_EQ(value, 0x1p-22F);
}

TEST_F(LlvmCompiler, FailuresCarryLlvmsWordsAndTheKernel) {
  EXPECT_ERROR(compile(kernel("first", "") + kernel("r_64", "  %x = add i32 %begin, 1\n")),
               ErrorCode::kCompileFailed, "kernel 'k'", "LLVM 22", "in kernel 'r_64'", "i32");
  // Read without complaint, but no sound program.
  const ScopedSetting setting(Setting::kVerifyIr, "1");
  EXPECT_ERROR(compile(kernel("r_65", "  %x = add i64 %y, 1\n  %y = add i64 %x, 1\n")),
               ErrorCode::kCompileFailed, "kernel 'k'", "dominate");
}

TEST_F(LlvmCompiler, ThreadsCompileAtOnce) {
  constexpr int kThreads = 4;
  std::vector<std::vector<std::byte>> objects(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (int k = 0; k < 5; ++k) {
          objects[static_cast<size_t>(i)] =
              compile(kernel("k", concat("  store i64 ", i, ", ptr %scratch\n")));
        }
      });
    }
  }
  using Kernel = void(const void*, int64_t, int64_t, void*);
  for (int i = 0; i < kThreads; ++i) {
    const LoadedObject loaded = load_object(objects[static_cast<size_t>(i)], "k");
    int64_t value = -1;
    reinterpret_cast<Kernel*>(loaded.find("k"))(nullptr, 0, 1, &value);
    EXPECT_EQ(value, i);
  }
}

}  // namespace
}  // namespace tenon::cpu
