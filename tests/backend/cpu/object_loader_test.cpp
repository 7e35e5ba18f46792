// The loader on what clang really writes, and on the same bytes damaged in every place.
// SPDX-License-Identifier: MIT

#include "tenon/backend/cpu/object_loader.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenon/backend/cpu/sanitizer.h"
#include "tenon/base/error.h"
#include "tests/backend/cpu/compile_for_test.h"
#include "tests/backend/cpu/elf_writer.h"
#include "tests/support/expect_error.h"

namespace tenon::cpu {
namespace {

constexpr std::string_view kSource = R"(
typedef float f32x4 __attribute__((ext_vector_type(4)));
static const unsigned char kTable[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__attribute__((noinline)) static float local_part(float x) { return x * 1.5f + 0.3125f; }
__attribute__((noinline)) float shared_part(float x) { return local_part(x) - 7.25f; }
long add(long a, long b) { return a + b; }
unsigned look_up(unsigned i) { return kTable[i & 7]; }
void apply(float* out, const float* in, long count) {
  for (long i = 0; i < count; ++i) out[i] = shared_part(in[i]);
}
void add_constants(f32x4* x) { *x += (f32x4){0.5f, 1.25f, -2.0f, 1024.0f}; }
)";

template <typename Function>
Function* get(const LoadedObject& object, std::string_view name) {
  void* const address = object.find(name);
  EXPECT_NE(address, nullptr) << name;
  return reinterpret_cast<Function*>(address);
}

TEST(ObjectLoader, RunsArithmeticConstantsTablesAndCalls) {
  const LoadedObject object = load_object(compile_for_test(kSource), "kernels");
  EXPECT_EQ(get<long(long, long)>(object, "add")(40, -2), 38);
  const std::array<unsigned, 8> table = {3, 1, 4, 1, 5, 9, 2, 6};
  for (unsigned i = 0; i < 16; ++i) {
    EXPECT_EQ(get<unsigned(unsigned)>(object, "look_up")(i), table[i % 8]) << i;
  }
  const std::array<float, 5> in = {0.0f, 1.0f, -2.5f, 1e10f, 0.1f};
  std::array<float, 5> out;
  out.fill(-99.0f);
  get<void(float*, const float*, long)>(object, "apply")(out.data(), in.data(), 4);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(out[i], in[i] * 1.5f + 0.3125f - 7.25f) << i;
  EXPECT_EQ(out[4], -99.0f);
  alignas(16) std::array<float, 4> vector = {1, 2, 3, 4};
  get<void(float*)>(object, "add_constants")(vector.data());
  EXPECT_EQ(vector, (std::array<float, 4>{1.5f, 3.25f, 1.0f, 1028.0f}));
}

TEST(ObjectLoader, FindsOnlyGlobalFunctions) {
  const LoadedObject object = load_object(compile_for_test(kSource), "kernels");
  EXPECT_NE(object.find("shared_part"), nullptr);
  EXPECT_EQ(object.find("local_part"), nullptr);
  EXPECT_EQ(object.find("kTable"), nullptr);
  EXPECT_EQ(object.find("ad"), nullptr);
  EXPECT_EQ(object.find(""), nullptr);
}

TEST(ObjectLoader, AbsoluteRelocationsPointIntoTheImage) {
  // 8 data bytes hold the address of `f` (mov eax, 42; ret), which `g` loads and jumps to.
  ElfWriter elf;
  const std::vector<uint8_t> code = {0x48, 0x8b, 0x05, 0,    0,    0,    0,    0xff,  // g
                                     0xe0, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
                                     0xb8, 42,   0,    0,    0,    0xc3};  // f, at 16
  const uint16_t text = elf.add_section(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, code, 64);
  const uint16_t data =
      elf.add_section(".rodata", SHT_PROGBITS, SHF_ALLOC, std::vector<uint8_t>(8), 32);
  const uint32_t data_symbol = elf.add_symbol("", STB_LOCAL, STT_SECTION, data, 0, 0);
  const uint32_t f = elf.add_symbol("f", STB_GLOBAL, STT_FUNC, text, 16, 6);
  elf.add_symbol("g", STB_GLOBAL, STT_FUNC, text, 0, 9);
  elf.add_relocation(data, 0, f, R_X86_64_64, 0);
  elf.add_relocation(text, 3, data_symbol, R_X86_64_PC32, -4);
  const LoadedObject object = load_object(elf.write(), "absolute");
  EXPECT_EQ(get<int()>(object, "g")(), 42);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(object.find("g")) % 64, 0u);
}

TEST(ObjectLoader, AddressSanitizerSeesInsideKernels) {
  if (!kAddressSanitizer) GTEST_SKIP() << "only in a build with AddressSanitizer";
  const LoadedObject object = load_object(compile_for_test(kSource), "kernels");
  const std::vector<float> in(4, 1.0f);
  std::vector<float> out(4);
  auto* const apply = get<void(float*, const float*, long)>(object, "apply");
  apply(out.data(), in.data(), 4);
  EXPECT_DEATH(apply(out.data(), in.data(), 5), "heap-buffer-overflow");
}

TEST(ObjectLoader, ThreadSanitizerSeesInsideKernels) {
  if (!kThreadSanitizer) GTEST_SKIP() << "only in a build with ThreadSanitizer";
  const LoadedObject object = load_object(compile_for_test(kSource), "kernels");
  auto* const apply = get<void(float*, const float*, long)>(object, "apply");
  const auto race = [&] {
    const std::vector<float> in(4, 1.0f);
    std::vector<float> out(4);
    std::thread other([&] { apply(out.data(), in.data(), 4); });
    apply(out.data(), in.data(), 4);
    other.join();
    std::exit(0);  // the sanitizer turns this into its own code
  };
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(race(), ::testing::ExitedWithCode(66), "data race");
}

/// The permissions in /proc/self/maps of the mapping that holds `address`.
std::string permissions_of(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream fields(line);
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char dash = 0;
    std::string permissions;
    fields >> std::hex >> begin >> dash >> end >> permissions;
    const auto value = reinterpret_cast<uintptr_t>(address);
    if (value >= begin && value < end) return permissions;
  }
  return "unmapped";
}

TEST(ObjectLoader, NoPageIsWritableOnceLoaded) {
  const LoadedObject object = load_object(compile_for_test(kSource), "kernels");
  const auto* code = static_cast<const char*>(object.find("add"));
  EXPECT_EQ(permissions_of(code), "r-xp");
  // The image is code pages, then data pages, without a gap.
  const auto base = reinterpret_cast<uintptr_t>(code) / 4096 * 4096;
  const auto* last = reinterpret_cast<const char*>(base + object.size_bytes() - 1);
  EXPECT_EQ(permissions_of(last), "r--p");
}

TEST(ObjectLoader, SymbolAtNamesLoadedCodeOnly) {
  const char* address = nullptr;
  {
    LoadedObject first = load_object(compile_for_test(kSource), "first");
    const LoadedObject second = load_object(compile_for_test(kSource), "second");
    address = static_cast<const char*>(first.find("add"));
    EXPECT_EQ(symbol_at(address), "first:add+0x0");
    EXPECT_EQ(symbol_at(address + 2), "first:add+0x2");
    EXPECT_EQ(symbol_at(second.find("apply")), "second:apply+0x0");
    const LoadedObject moved = std::move(first);
    EXPECT_EQ(symbol_at(address), "first:add+0x0");
    EXPECT_EQ(moved.find("add"), address);
  }
  EXPECT_EQ(symbol_at(address), std::nullopt);
  EXPECT_EQ(symbol_at(nullptr), std::nullopt);
  EXPECT_EQ(symbol_at(&address), std::nullopt);
}

TEST(ObjectLoader, LoadsFromSeveralThreadsAtOnce) {
  const std::vector<std::byte> bytes = compile_for_test(kSource);
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        const LoadedObject object = load_object(bytes, "shared");
        void* const add = object.find("add");
        if (reinterpret_cast<long (*)(long, long)>(add)(round, 1) == round + 1 &&
            symbol_at(add) == "shared:add+0x0") {
          ++right;
        }
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  EXPECT_EQ(right, 200);
}

/// Loads or throws Error; anything else ends the test (or the process, under a sanitizer).
bool try_load(std::span<const std::byte> bytes) {
  try {
    const LoadedObject object = load_object(bytes, "damaged");
    static_cast<void>(object.find("add"));
    return true;
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::kInternal) << error.what();
    return false;
  }
}

TEST(ObjectLoader, EveryTruncationIsRefused) {
  const std::vector<std::byte> whole = compile_for_test(kSource);
  ASSERT_TRUE(try_load(whole));
  // The section table is at the end: no shorter file is a valid object.
  for (size_t size = 0; size < whole.size(); ++size) {
    const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(try_load(part)) << size;
  }
}

TEST(ObjectLoader, EveryDamagedByteIsRefusedOrHarmless) {
  const std::vector<std::byte> whole = compile_for_test(kSource);
  std::vector<std::byte> damaged = whole;
  int refused = 0;
  for (size_t index = 0; index < whole.size(); ++index) {
    for (const unsigned mask : {0x01u, 0x80u, 0xffu}) {
      damaged[index] = whole[index] ^ static_cast<std::byte>(mask);
      refused += try_load(damaged) ? 0 : 1;
    }
    damaged[index] = whole[index];
  }
  EXPECT_GT(refused, 300);  // headers, section table, relocations
}

}  // namespace
}  // namespace tenon::cpu
