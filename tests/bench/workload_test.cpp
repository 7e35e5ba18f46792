// Each workload gives a right result, and its check sees a wrong one. SPDX-License-Identifier: MIT

#include "bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/support/expect_error.h"

namespace tenon::bench {
namespace {

using ::testing::HasSubstr;

TEST(Workload, ChecksSeeOneWrongElement) {
  for (const Workload& workload : all_workloads(true, 0xdeadbeef)) {
    const Case inputs = workload.prepare();
    Tensor result = inputs.build();
    std::vector<std::byte> bytes = result.realize().to_bytes();
    ASSERT_EQ(result.size(), inputs.out_size) << workload.name;
    ASSERT_EQ(result.dtype(), inputs.out_dtype) << workload.name;
    EXPECT_EQ(inputs.why_wrong(bytes.data()).value_or("right"), "right") << workload.name;
    // The last element is always looked at; an element of the top byte changed is far off.
    const std::byte before = bytes.back();
    bytes.back() ^= std::byte{0x41};
    EXPECT_THAT(inputs.why_wrong(bytes.data()).value_or("right"), HasSubstr("expected"))
        << workload.name;
    bytes.back() = before;
    const size_t size = static_cast<size_t>(dtype_size_bytes(inputs.out_dtype));
    std::fill_n(bytes.begin(), size, std::byte{0xa5});  // not written
    EXPECT_THAT(inputs.why_wrong(bytes.data()).value_or("right"), HasSubstr("expected"))
        << workload.name;
  }
}

TEST(Workload, NamesAreUniqueAndRowsAreComplete) {
  for (const bool is_quick : {true, false}) {
    std::set<std::string> names;
    for (const Workload& workload : all_workloads(is_quick, std::nullopt)) {
      EXPECT_TRUE(names.insert(workload.name).second) << workload.name;
      EXPECT_FALSE(workload.unit.empty()) << workload.name;
      EXPECT_GT(workload.work, 0) << workload.name;
      EXPECT_TRUE(workload.name.starts_with(workload.group) || workload.group == "elementwise")
          << workload.name;
    }
  }
}

TEST(Workload, DrawnShapesBecomeRows) {
  const std::vector<Workload> without = matmul_workloads(false, std::nullopt);
  const std::vector<Workload> with = matmul_workloads(false, draw_seed("deadbeef"));
  EXPECT_EQ(with.size(), without.size() + kNumDrawn);
  const auto is_there = [&](const std::string& name, double work) {
    return std::any_of(with.begin(), with.end(), [&](const Workload& workload) {
      return workload.name == name && std::abs(workload.work - work) < 1e-12;
    });
  };
  EXPECT_TRUE(is_there("matmul_f32_draw_11x1372x1", 2e-9 * 11 * 1372));
  EXPECT_TRUE(is_there("matmul_f32_draw_74x673x2602", 2e-9 * 74 * 673 * 2602));
}

TEST(Workload, NamesAndGroupsChoose) {
  const auto names_of = [](const std::vector<std::string>& words) {
    std::vector<std::string> names;
    for (const Workload& workload : chosen_workloads(all_workloads(false, {}), words))
      names.push_back(workload.name);
    return names;
  };
  EXPECT_THAT(names_of({"gemv"}), ::testing::ElementsAre("gemv_4096"));
  EXPECT_THAT(names_of({"matmul_bf16", "sum_64m", "matmul_bf16_1024"}),
              ::testing::ElementsAre("matmul_bf16_1024", "matmul_bf16_2048", "sum_64m"));
  EXPECT_EQ(names_of({}).size(), all_workloads(false, {}).size());
}

TEST(Workload, UnknownNamesAreRefused) {
  EXPECT_TRUE(testing::throws_error([] { chosen_workloads(all_workloads(true, {}), {"gemw"}); },
                                    ErrorCode::kInvalidArgument,
                                    {"'gemw'", "did you mean 'gemv'", "--list"}));
}

TEST(Workload, SamplesHoldBothEnds) {
  for (const int64_t size : {1, 2, 7, 100000}) {
    const std::vector<int64_t> positions = sampled(size, 5, 9);
    EXPECT_EQ(positions.front(), 0);
    EXPECT_EQ(positions.back(), size - 1);
    EXPECT_TRUE(std::is_sorted(positions.begin(), positions.end()));
    EXPECT_EQ(std::adjacent_find(positions.begin(), positions.end()), positions.end());
  }
}

}  // namespace
}  // namespace tenon::bench
