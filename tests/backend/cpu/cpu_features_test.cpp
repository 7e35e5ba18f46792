// Feature sets, the ARCH field, cache sizes. What the kernel says about this CPU is the judge of
// what CPUID gave us. SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/cpu_features.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace tenon::cpu {
namespace {

TEST(CpuFeatures, AgreeWithWhatTheKernelReports) {
  std::ifstream info("/proc/cpuinfo");
  std::string line;
  while (std::getline(info, line) && !line.starts_with("flags")) {
  }
  std::istringstream words(line);
  std::set<std::string> flags;
  for (std::string word; words >> word;)
    flags.insert(word);
  if (flags.empty()) GTEST_SKIP() << "no /proc/cpuinfo here";
  const std::map<std::string_view, std::string> kernel_names = {
      {"sse3", "pni"},
      {"sse4.1", "sse4_1"},
      {"sse4.2", "sse4_2"},
      {"lzcnt", "abm"},
      {"bmi", "bmi1"},
      {"avxvnni", "avx_vnni"},
      {"amx-tile", "amx_tile"},
      {"avx512vbmi2", "avx512_vbmi2"},
      {"avx512vnni", "avx512_vnni"},
      {"amx-bf16", "amx_bf16"},
      {"avx512bitalg", "avx512_bitalg"},
      {"amx-int8", "amx_int8"},
      {"avx512vpopcntdq", "avx512_vpopcntdq"},
      {"avx512bf16", "avx512_bf16"},
      {"avx512fp16", "avx512_fp16"}};
  CpuFeatureSet every = parse_cpu_arch(
      "x86_64,popcnt,lzcnt,bmi,bmi2,gfni,avxvnni,avx512cd,avx512ifma,avx512vbmi,avx512vbmi2,"
      "avx512vnni,avx512bitalg,avx512vpopcntdq,avx512bf16,avx512fp16,amx-bf16,amx-int8");
  EXPECT_EQ(every.names().size(), 31u);
  const std::vector<std::string_view> missing = every.missing_in(host_cpu_features());
  const std::set<std::string_view> absent(missing.begin(), missing.end());
  for (const std::string_view name : every.names()) {
    const auto it = kernel_names.find(name);
    const std::string kernel_name = it == kernel_names.end() ? std::string(name) : it->second;
    EXPECT_EQ(flags.count(kernel_name) == 1, absent.count(name) == 0) << name;
  }
}

TEST(CpuFeatures, AddingBringsWhatIsImplied) {
  CpuFeatureSet set;
  set.add(CpuFeature::kAvx512bw);
  for (const CpuFeature implied :
       {CpuFeature::kAvx512f, CpuFeature::kAvx2, CpuFeature::kFma, CpuFeature::kF16c,
        CpuFeature::kAvx, CpuFeature::kSse42, CpuFeature::kSse41, CpuFeature::kSsse3,
        CpuFeature::kSse3, CpuFeature::kSse2}) {
    EXPECT_TRUE(set.has(implied)) << cpu_feature_name(implied);
  }
  EXPECT_FALSE(set.has(CpuFeature::kAvx512vl));
  EXPECT_FALSE(set.has(CpuFeature::kPopcnt));
}

TEST(CpuFeatures, RemovingTakesWhatNeedsIt) {
  CpuFeatureSet set = parse_cpu_arch("x86_64,avx512fp16,amx-int8,popcnt");
  set.remove(CpuFeature::kAvx);
  EXPECT_EQ(to_string(set), "sse2,sse3,ssse3,sse4.1,sse4.2,popcnt,amx-tile,amx-int8");
  set.remove(CpuFeature::kAmxTile);
  EXPECT_EQ(to_string(set), "sse2,sse3,ssse3,sse4.1,sse4.2,popcnt");
}

TEST(CpuFeatures, ArchStrings) {
  EXPECT_EQ(to_string(parse_cpu_arch("x86_64")), "sse2");
  EXPECT_EQ(parse_cpu_arch(""), host_cpu_features());
  EXPECT_EQ(parse_cpu_arch("native"), host_cpu_features());
  EXPECT_EQ(parse_cpu_arch("x86_64,native"), host_cpu_features());
  EXPECT_EQ(to_string(parse_cpu_arch("x86_64,avx2,-avx512f")),
            "sse2,sse3,ssse3,sse4.1,sse4.2,avx,avx2");
  EXPECT_EQ(to_string(parse_cpu_arch("x86_64,avx512f,-avx2,+fma")),
            "sse2,sse3,ssse3,sse4.1,sse4.2,avx,f16c,fma");
  EXPECT_FALSE(parse_cpu_arch("native,-avx").has(CpuFeature::kAvx2));
}

TEST(CpuFeatures, ArchErrorsNameTheWordAndTheNearest) {
  EXPECT_ERROR(parse_cpu_arch("x86_64,avx521f"), ErrorCode::kInvalidArgument, "'avx521f'",
               "Did you mean 'avx512f'?");
  EXPECT_ERROR(parse_cpu_arch("x86_64,-amx_tile"), ErrorCode::kInvalidArgument, "'amx_tile'",
               "'amx-tile'");
  EXPECT_ERROR(parse_cpu_arch("x86_64,qqqqqqqq"), ErrorCode::kInvalidArgument, "Known: sse2");
  EXPECT_ERROR(parse_cpu_arch("x86_64,"), ErrorCode::kInvalidArgument, "unknown CPU feature ''");
  EXPECT_ERROR(parse_cpu_arch("x86_64,-sse2"), ErrorCode::kInvalidArgument, "sse2", "x86_64");
  EXPECT_ERROR(parse_cpu_arch("arm64,neon"), ErrorCode::kInvalidArgument, "'arm64'", "x86_64");
}

void write_cache(const std::string& folder, int index, const std::string& level,
                 const std::string& type, const std::string& size) {
  const std::string path = folder + "/index" + std::to_string(index);
  std::filesystem::create_directories(path);
  std::ofstream(path + "/level") << level << "\n";
  std::ofstream(path + "/type") << type << "\n";
  std::ofstream(path + "/size") << size << "\n";
  std::ofstream(path + "/coherency_line_size") << "128\n";
}

TEST(CpuFeatures, CacheSizesComeFromSysfs) {
  const tenon::testing::TempFolder folder;
  write_cache(folder.path(), 0, "1", "Data", "48K");
  write_cache(folder.path(), 1, "1", "Instruction", "16K");
  write_cache(folder.path(), 2, "2", "Unified", "2048K");
  {
    const CacheSizes sizes = read_cache_sizes(folder.path());
    EXPECT_EQ(sizes.l1_data_bytes, 48 * 1024);
    EXPECT_EQ(sizes.l2_bytes, 2048 * 1024);
    EXPECT_EQ(sizes.l3_bytes, 2048 * 1024);  // no third level
    EXPECT_EQ(sizes.line_bytes, 128);
  }
  write_cache(folder.path(), 3, "3", "Unified", "32M");
  EXPECT_EQ(read_cache_sizes(folder.path()).l3_bytes, 32 * 1024 * 1024);
  write_cache(folder.path(), 3, "3", "Unified", "lots");
  EXPECT_EQ(read_cache_sizes(folder.path()).l3_bytes, 2048 * 1024);
}

TEST(CpuFeatures, CacheSizesHaveDefaults) {
  const CacheSizes sizes = read_cache_sizes("/no/such/folder");
  EXPECT_EQ(sizes.l1_data_bytes, 32 * 1024);
  EXPECT_EQ(sizes.line_bytes, 64);
  EXPECT_GE(sizes.l3_bytes, sizes.l2_bytes);
}

TEST(CpuFeatures, CoresAreThoseOfTheAffinityMask) {
  EXPECT_GE(num_available_cores(), 1);
  std::thread([] {  // the mask of this thread only
    cpu_set_t now;
    ASSERT_EQ(sched_getaffinity(0, sizeof(now), &now), 0);
    int first = 0;
    while (!CPU_ISSET(first, &now))
      ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(num_available_cores(), 1);
  })
      .join();
}

}  // namespace
}  // namespace tenon::cpu
