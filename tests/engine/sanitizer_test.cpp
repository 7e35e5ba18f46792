// Kernels that touch memory next to theirs: in builds with the address sanitizer each access is
// reported with the kernel's name, in others a guard zone shows the writes; with the thread
// sanitizer a race between launches is reported. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <thread>

#include "tenon/base/text.h"
#include "tenon/engine/program_store.h"
#include "tenon/ir/linear_text.h"
#include "tests/engine/engine_support.h"

#if defined(__SANITIZE_ADDRESS__)
#define TENON_TEST_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define TENON_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TENON_TEST_ASAN 1
#elif __has_feature(thread_sanitizer)
#define TENON_TEST_TSAN 1
#endif
#endif

namespace tenon {
namespace {

/// y[i + store_shift] = scratch[i] = x[i + load_shift] for all i; the scratch is shifted too. With
/// all shifts 0 it is right; the compiler cannot know.
constexpr std::string_view kShifted = R"(
tir 1 func shifted grid(1) lanes(1) scratch 20 {
  arg 0 y f32[5] write
  arg 1 x f32[5] read
  arg 2 load_shift i32 in -2..2
  arg 3 store_shift i32 in -2..2
  arg 4 scratch_shift i32 in -2..2
  %y = param 0
  %x = param 1
  %load_shift = param 2
  %store_shift = param 3
  %scratch_shift = param 4
  %p = alloc f32 5 group
  %zero = const i32 0
  %five = const i32 5
  for %i = %zero..%five {
    %from = add i32 %i, %load_shift
    %v = load f32 %x[%from]
    %middle = add i32 %i, %scratch_shift
    store %p[%middle], %v
    %w = load f32 %p[%middle]
    %to = add i32 %i, %store_shift
    store %y[%to], %w
    yield
  }
}
)";

/// y[2..4] = x[2..4], both ends shifted, through masked vectors.
constexpr std::string_view kMasked = R"(
tir 1 func masked grid(1) lanes(1) scratch 0 {
  arg 0 y f32[5] write
  arg 1 x f32[5] read
  arg 2 load_shift i32 in -2..2
  arg 3 store_shift i32 in -2..2
  arg 4 unused i32 in -2..2
  %y = param 0
  %x = param 1
  %load_shift = param 2
  %store_shift = param 3
  %three = const i32 3
  %none = const f32x4 0
  %mask = first_n i1x4 %three
  %v = load f32x4 %x[%load_shift + 2] gate %mask alt %none
  store %y[%store_shift + 2], %v gate %mask
}
)";

struct Shifts {
  int64_t load = 0;
  int64_t store = 0;
  int64_t scratch = 0;
};

/// The renderers of the default device's backend that are here.
std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const BackendDescriptor* backend : all_backends()) {
    if (backend->default_rank <= 0 || backend->why_absent()) continue;
    for (const RendererDescriptor& renderer : backend->renderers) {
      if (!renderer.why_absent()) names.push_back(concat(backend->name, ":", renderer.name));
    }
  }
  return names;
}

class Sanitizer : public testing::EngineTest, public ::testing::WithParamInterface<std::string> {
 protected:
  Sanitizer()
      : device_(engine_device(Device::get(GetParam()))),
        program_(device_.driver(), compile_linear(device_, parse_linear(kShifted))),
        masked_(device_.driver(), compile_linear(device_, parse_linear(kMasked))) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  }

  /// With or without the guard zones of memory_checks().
  void make_buffers(bool has_guards) {
    const ScopedMemoryChecks checks(
        MemoryChecks{.poison_outputs = true, .guard_bytes = has_guards ? 64 : 0});
    y_ = device_.allocate(20);
    x_ = device_.allocate(20);
    y_.fill(kPoisonByte);
    const float values[] = {1.5F, -2, 3, 4.25F, 5};
    x_.copy_in(std::as_bytes(std::span(values)));
  }

  void launch(const Shifts& shifts) { launch(program_, shifts); }
  void launch_masked(const Shifts& shifts) { launch(masked_, shifts); }

  void launch(const Program& program, const Shifts& shifts) {
    const auto buffer = [](const Buffer& of) {
      return ArgumentValue{.dtype = DType::kF32, .address = of.address(), .size_bytes = 20};
    };
    const auto scalar = [](int64_t value) {
      return ArgumentValue{
          .is_buffer = false, .dtype = DType::kI32, .bits = static_cast<uint64_t>(value)};
    };
    program.launch({buffer(y_), buffer(x_), scalar(shifts.load), scalar(shifts.store),
                    scalar(shifts.scratch)});
    device_.driver().synchronize();
  }

  EngineDevice& device_;
  Program program_;
  Program masked_;
  Buffer y_;
  Buffer x_;
};

TEST_P(Sanitizer, SaysNothingOfARightKernel) {
  for (const bool has_guards : {false, true}) {
    make_buffers(has_guards);
    launch({});
    float values[5] = {};
    y_.copy_out(std::as_writable_bytes(std::span(values)));
    EXPECT_EQ(values[0], 1.5F);
    EXPECT_EQ(values[4], 5.0F);
    y_.fill(kPoisonByte);
    launch_masked({});
    y_.copy_out(std::as_writable_bytes(std::span(values)));
    EXPECT_EQ(std::bit_cast<uint32_t>(values[1]),
              std::to_integer<uint32_t>(kPoisonByte) * 0x01010101U);
    EXPECT_EQ(values[2], 3.0F);
    EXPECT_EQ(values[4], 5.0F);
    EXPECT_EQ(y_.why_guard_broken(), std::nullopt);
    EXPECT_EQ(x_.why_guard_broken(), std::nullopt);
  }
}

#ifdef TENON_TEST_ASAN

TEST_P(Sanitizer, ReportsEachAccessOffByOne) {
  constexpr Shifts kFaults[] = {{.load = 1},   {.load = -1},   {.store = 1},
                                {.store = -1}, {.scratch = 1}, {.scratch = -1}};
  for (const bool has_guards : {false, true}) {
    make_buffers(has_guards);
    for (const Shifts& shifts : kFaults) {
      SCOPED_TRACE(::testing::Message()
                   << "load " << shifts.load << ", store " << shifts.store << ", scratch "
                   << shifts.scratch << ", guards " << has_guards);
      EXPECT_DEATH(launch(shifts), "tenon: in kernel '.*shifted.*AddressSanitizer");
      if (shifts.load + shifts.store != 1) continue;
      EXPECT_DEATH(launch_masked(shifts), "tenon: in kernel '.*masked.*AddressSanitizer");
    }
  }
}

TEST_P(Sanitizer, ReportsAReleasedBuffer) {
  make_buffers(false);
  const auto use_released = [&] {
    const ArgumentValue released{.dtype = DType::kF32, .address = x_.address(), .size_bytes = 20};
    x_ = Buffer();
    const ArgumentValue zero{.is_buffer = false, .dtype = DType::kI32};
    program_.launch({{.dtype = DType::kF32, .address = y_.address(), .size_bytes = 20},
                     released,
                     zero,
                     zero,
                     zero});
  };
  EXPECT_DEATH(use_released(), "tenon: in kernel '.*shifted.*AddressSanitizer");
}

#else

TEST_P(Sanitizer, GuardsShowWritesOffByOne) {
  make_buffers(true);
  launch({.store = 1});
  const std::optional<std::string> behind = y_.why_guard_broken();
  ASSERT_TRUE(behind);
  EXPECT_NE(behind->find("byte 20 of a buffer of 20 bytes"), std::string::npos) << *behind;
  make_buffers(true);
  launch({.store = -1});
  const std::optional<std::string> before = y_.why_guard_broken();
  ASSERT_TRUE(before);
  EXPECT_NE(before->find("before its start"), std::string::npos) << *before;
}

#endif

#ifdef TENON_TEST_TSAN

TEST_P(Sanitizer, ReportsARaceOfTwoLaunches) {
  make_buffers(false);
  const auto race = [&] {
    std::thread first([&] { launch({}); });
    std::thread second([&] { launch({}); });
    first.join();
    second.join();
    std::exit(0);  // the sanitizer's own status, if it saw something
  };
  EXPECT_EXIT(race(), ::testing::ExitedWithCode(66), "tenon: in kernel '.*shifted");
}

#endif

INSTANTIATE_TEST_SUITE_P(Renderers, Sanitizer, ::testing::ValuesIn(device_names()),
                         [](const auto& test) {
                           return test.param.substr(test.param.find(':') + 1);
                         });

}  // namespace
}  // namespace tenon
