// The loops that stand for the machine's limits do the work they are counted for, with each
// instruction set that this CPU has. SPDX-License-Identifier: MIT

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "bench/host_array.h"
#include "bench/limits.h"
#include "bench/probe_kernels.h"
#include "bench/probe_units.h"

namespace tenon::bench {
namespace {

std::vector<const ProbeKernels*> usable_kernels() {
  std::vector<const ProbeKernels*> usable{&kBaselineProbes};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    usable.push_back(&kAvx2Probes);
  }
  if (__builtin_cpu_supports("avx512f")) usable.push_back(&kAvx512Probes);
  return usable;
}

const float* floats(const HostArray& array) {
  return reinterpret_cast<const float*>(array.data());
}

TEST(Probe, ReadsAddEveryElement) {
  const HostArray x(DType::kF32, {5 * kProbeFloats}, Fill::kSixteenths, 3);
  double sum = 0;  // exact, in any order
  for (int64_t i = 0; i < x.size(); ++i)
    sum += x.at(i);
  ASSERT_NE(sum, 0);
  for (const ProbeKernels* kernels : usable_kernels()) {
    EXPECT_EQ(kernels->read(floats(x), x.size()), sum) << kernels->isa;
    EXPECT_EQ(kernels->read_streams(floats(x), x.size()), sum) << kernels->isa;
  }
}

TEST(Probe, CopiesWriteEveryElement) {
  const HostArray x(DType::kF32, {3 * kProbeFloats}, Fill::kUniform, 4);
  for (const ProbeKernels* kernels : usable_kernels()) {
    for (const auto copy : {kernels->copy, kernels->copy_streamed}) {
      HostArray y(DType::kF32, {3 * kProbeFloats}, Fill::kPoison);
      copy(floats(x), reinterpret_cast<float*>(y.data()), y.size());
      for (int64_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(x.at(i), y.at(i)) << kernels->isa << " " << i;
    }
    HostArray y(DType::kF32, {kProbeFloats}, Fill::kPoison);
    kernels->store_streamed(reinterpret_cast<float*>(y.data()), y.size());
    for (int64_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y.at(i), 0.5) << kernels->isa << " " << i;
  }
}

TEST(Probe, MultiplyAddsAreDone) {
  // x -> x/2 + 1 from 1: 12 chains in every lane reach 2 - 2^-steps.
  for (const ProbeKernels* kernels : usable_kernels()) {
    const double chains = static_cast<double>(kernels->flops_per_step) / 2;
    EXPECT_EQ(kernels->multiply_add(1), 1.5 * chains) << kernels->isa;
    EXPECT_EQ(kernels->multiply_add(4), 1.9375 * chains) << kernels->isa;
  }
}

TEST(Probe, UnitsRun) {
  for (const UnitProbe& unit : {bf16_unit_probe(), i8_unit_probe()}) {
    if (unit.unit == nullptr) continue;
    EXPECT_GT(unit.ops_per_step, 0) << unit.unit;
    unit.run(100);
  }
}

TEST(Limits, EveryKindHasProbesThatTakeTime) {
  for (const LimitKind kind : {LimitKind::kFmaF32, LimitKind::kDotBf16, LimitKind::kDotI8,
                               LimitKind::kRead, LimitKind::kCopy}) {
    for (const int num_threads : {1, 2, 3}) {
      for (const Probe& probe : make_probes(kind, num_threads, 1 << 16)) {
        EXPECT_FALSE(probe.name.empty());
        EXPECT_GT(probe.work, 0) << probe.name;
        EXPECT_GT(probe.run(), 0) << probe.name;
      }
    }
  }
  EXPECT_EQ(make_probes(LimitKind::kRead, 2, 1 << 16).size(), 2U);
  EXPECT_EQ(make_probes(LimitKind::kRead, 2, 1 << 16)[0].work, 1 << 16);
  EXPECT_EQ(make_probes(LimitKind::kCopy, 2, 1 << 16)[0].work, 2 << 16);
  EXPECT_TRUE(make_probes(LimitKind::kNone, 2, 1 << 16).empty());
}

TEST(Limits, EveryThreadIsCalledOnce) {
  std::vector<std::atomic<int>> calls(3);
  EXPECT_GT(time_on_threads(3, [&](int thread) { ++calls[static_cast<size_t>(thread)]; }), 0);
  for (const std::atomic<int>& count : calls)
    EXPECT_EQ(count, 1);
}

TEST(HostArray, ValuesDifferAndAreFixed) {
  const HostArray a(DType::kF32, {1000}, Fill::kUniform, 1);
  const HostArray same(DType::kF32, {1000}, Fill::kUniform, 1);
  const HostArray other(DType::kF32, {1000}, Fill::kUniform, 2);
  int num_equal = 0;
  double sum = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a.at(i), same.at(i));
    ASSERT_GE(a.at(i), -1);
    ASSERT_LT(a.at(i), 1);
    num_equal += a.at(i) == other.at(i) ? 1 : 0;
    sum += a.at(i);
  }
  EXPECT_LT(num_equal, 10);
  EXPECT_NEAR(sum / 1000, 0, 0.1);
  const HostArray poisoned(DType::kI32, {2}, Fill::kPoison);
  EXPECT_EQ(poisoned.at(1), static_cast<int32_t>(0xa5a5a5a5U));
}

}  // namespace
}  // namespace tenon::bench
