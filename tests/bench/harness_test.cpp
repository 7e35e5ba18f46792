// Turns, checks and refusals of the harness, with peers that do what a test wants.
// SPDX-License-Identifier: MIT

#include "bench/harness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tenon/base/error.h"
#include "tenon/base/settings.h"

namespace tenon::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

const HarnessOptions kFast{.num_threads = 1, .windows = 3, .window_s = 1e-4, .pause_ms = 0};

/// Multiplies f32 matrices by three loops; the last element can be made wrong.
class ThreeLoops final : public Peer {
 public:
  explicit ThreeLoops(float error = 0, int error_from_call = 0)
      : error_(error), error_from_call_(error_from_call) {}
  int num_calls = 0;
  std::string name() const override { return "three loops"; }
  std::string description() const override { return "of the test"; }
  std::function<void()> prepare(const Job& job) override {
    if (job.kind != JobKind::kMatmul || job.dtype != DType::kF32 || job.a_is_transposed) return {};
    return [this, job] {
      const auto* const a = static_cast<const float*>(job.a);
      const auto* const b = static_cast<const float*>(job.b);
      auto* const out = static_cast<float*>(job.out);
      const int64_t b_column = job.b_is_transposed ? job.k : 1;
      const int64_t b_step = job.b_is_transposed ? 1 : job.n;
      for (int64_t i = 0; i < job.m; ++i) {
        for (int64_t j = 0; j < job.n; ++j) {
          float sum = 0;
          for (int64_t k = 0; k < job.k; ++k)
            sum += a[i * job.k + k] * b[j * b_column + k * b_step];
          out[i * job.n + j] = sum;
        }
      }
      if (num_calls++ >= error_from_call_) out[job.m * job.n - 1] += error_;
    };
  }

 private:
  const float error_;
  const int error_from_call_;
};

Workload workload_named(const std::string& name) {
  return chosen_workloads(all_workloads(true, {}), {name}).at(0);
}

TEST(Harness, MeasuresEverySide) {
  ThreeLoops peer;
  Harness harness(kFast, {&peer});
  const Row row = harness.measure(workload_named("matmul_f32_33"));
  EXPECT_FALSE(row.has_failed) << row.note;
  EXPECT_EQ(row.note, "");
  EXPECT_EQ(row.windows, 3);
  EXPECT_EQ(row.kernels, 1);
  ASSERT_TRUE(row.tenon && row.limit && row.ratio);
  EXPECT_GT(row.tenon->best, 0);
  EXPECT_GE(row.tenon->best, row.tenon->median);
  ASSERT_EQ(row.peers.size(), 1U);
  EXPECT_EQ(row.peers[0].name, "three loops");
  EXPECT_DOUBLE_EQ(*row.ratio, row.tenon->best / row.peers[0].best);
  EXPECT_GE(peer.num_calls, 5);  // a check, a trial, three windows
}

TEST(Harness, TenonUnderAnotherSettingIsAPeer) {
  Workload workload = workload_named("matmul_f32_33");
  std::vector<std::string> values;
  workload.variants = {{.name = "seeded", .variable = "TENON_SEED", .value = "77"},
                       {.name = "future", .variable = "TENON_FUTURE", .value = "1"}};
  workload.prepare = [prepare = workload.prepare, &values] {
    Case inputs = prepare();
    inputs.build = [build = inputs.build, &values] {
      values.push_back(setting_text(Setting::kSeed));
      return build();
    };
    return inputs;
  };
  Harness harness(kFast, {});
  const Row row = harness.measure(workload);
  ASSERT_EQ(row.peers.size(), 1U) << row.note;  // no setting, no variant
  EXPECT_EQ(row.peers[0].name, "seeded");
  EXPECT_TRUE(row.ratio);
  EXPECT_THAT(values, ::testing::Contains("77"));
  EXPECT_THAT(values, ::testing::Contains(setting_text(Setting::kSeed)));
}

TEST(Harness, APeerThatIsWrongTakesNoPart) {
  ThreeLoops peer(0.5F);
  Harness harness(kFast, {&peer});
  const Row row = harness.measure(workload_named("matmul_f32_33"));
  EXPECT_FALSE(row.has_failed);
  EXPECT_TRUE(row.peers.empty());
  EXPECT_FALSE(row.ratio);
  EXPECT_THAT(row.note, HasSubstr("three loops is wrong: element (0,32,32)"));
}

TEST(Harness, APeerThatGoesWrongLaterIsMarked) {
  ThreeLoops peer(0.5F, 3);
  Harness harness(kFast, {&peer});
  const Row row = harness.measure(workload_named("matmul_f32_33"));
  ASSERT_EQ(row.peers.size(), 1U);
  EXPECT_EQ(row.peers[0].invalid, "wrong result");
  EXPECT_FALSE(row.ratio);
}

TEST(Harness, AWrongResultOfTenonIsAFailure) {
  Workload workload = workload_named("matmul_f32_33");
  workload.prepare = [prepare = workload.prepare] {
    Case inputs = prepare();
    inputs.build = [build = inputs.build] { return build() * 1.01; };
    return inputs;
  };
  ThreeLoops peer;
  Harness harness(kFast, {&peer});
  const Row row = harness.measure(workload);
  EXPECT_TRUE(row.has_failed);
  EXPECT_FALSE(row.ratio);
  EXPECT_THAT(row.note, HasSubstr("tenon is wrong: element (0,0,0)"));
}

TEST(Harness, AValueThatIsThereAlreadyIsNoRun) {
  Workload workload = workload_named("matmul_f32_33");
  workload.prepare = [prepare = workload.prepare] {
    Case inputs = prepare();
    Tensor kept = inputs.build().realize();
    inputs.build = [kept] { return kept; };
    return inputs;
  };
  Harness harness(kFast, {});
  const Row row = harness.measure(workload);
  EXPECT_TRUE(row.has_failed);
  EXPECT_THAT(row.note, HasSubstr("launched no kernel"));
}

TEST(Harness, RowsAboveTheBudgetAreSkippedWithTheReason) {
  HarnessOptions options = kFast;
  options.budget_s = 1e-9;
  ThreeLoops peer;
  Harness harness(options, {&peer});
  const Row first = harness.measure(workload_named("matmul_f32_33"));
  EXPECT_THAT(first.note, ContainsRegex("skipped: a run takes .* s, budget 1e-09 s"));
  EXPECT_FALSE(first.tenon);
  EXPECT_FALSE(first.has_failed);
  EXPECT_EQ(peer.num_calls, 0);
}

TEST(Harness, TheRateOfAGroupTellsWhatNeedNotBeTried) {
  HarnessOptions options = kFast;
  options.budget_s = 0.015;
  Workload slow = workload_named("matmul_f32_33");
  slow.prepare = [prepare = slow.prepare] {
    Case inputs = prepare();
    inputs.build = [build = inputs.build] {
      pause_ms(20);
      return build();
    };
    return inputs;
  };
  Harness harness(options, {});
  EXPECT_THAT(harness.measure(slow).note, HasSubstr("skipped: a run takes 0."));
  Workload larger = workload_named("matmul_f32_64");
  larger.prepare = []() -> Case { throw Error(ErrorCode::kInternal, "was tried"); };
  EXPECT_THAT(harness.measure(larger).note,
              ContainsRegex("skipped: a run would take about .* s, budget 0.015 s"));
  larger.group = "another";
  EXPECT_THAT(harness.measure(larger).note, HasSubstr("was tried"));
}

TEST(Harness, ServesWindowsWhenItIsToldTo) {
  Workload workload = workload_named("matmul_f32_33");
  const Harness harness(kFast, {});
  std::vector<double> told;
  int asked = 0;
  const auto has_next = [&] {
    EXPECT_EQ(told.size(), static_cast<size_t>(asked));  // each is answered before the next
    return ++asked <= 3;
  };
  const auto tell = [&](double time_s) { told.push_back(time_s); };
  EXPECT_EQ(harness.serve(workload, has_next, tell).value_or("right"), "right");
  ASSERT_EQ(told.size(), 3U);
  EXPECT_GT(*std::ranges::min_element(told), 0);
  workload.prepare = [prepare = workload.prepare] {
    Case inputs = prepare();
    inputs.build = [build = inputs.build] { return build() + 1.0F; };
    return inputs;
  };
  EXPECT_THAT(harness
                  .serve(
                      workload, [] { return false; }, tell)
                  .value_or("right"),
              HasSubstr("expected"));
}

TEST(Harness, ErrorsMakeAFailedRow) {
  Workload workload = workload_named("gemv_128");
  workload.prepare = []() -> Case { throw Error(ErrorCode::kUnsupported, "no such luck\nwhile"); };
  Harness harness(kFast, {});
  const Row row = harness.measure(workload);
  EXPECT_TRUE(row.has_failed);
  EXPECT_EQ(row.note, "no such luck");
  workload.prepare = []() -> Case { throw Error(ErrorCode::kNotFound, "no data"); };
  EXPECT_FALSE(harness.measure(workload).has_failed);
}

TEST(Harness, APeerBelowItsShareOfThePeakIsNotComparedWith) {
  ThreeLoops peer;
  Harness harness(kFast, {&peer});
  EXPECT_THAT(harness.check_peers(48, 0.99),
              ContainsRegex("three loops: of the test; .* % of the FMA peak at 48.3, below 99 %"));
  const Row row = harness.measure(workload_named("matmul_f32_33"));
  ASSERT_EQ(row.peers.size(), 1U);
  EXPECT_THAT(row.peers[0].invalid, HasSubstr("of the FMA peak"));
  EXPECT_FALSE(row.ratio);

  Harness lenient(kFast, {&peer});
  EXPECT_THAT(lenient.check_peers(48, 1e-6), Not(HasSubstr("below")));
  EXPECT_TRUE(lenient.measure(workload_named("matmul_f32_33")).ratio);
}

}  // namespace
}  // namespace tenon::bench
