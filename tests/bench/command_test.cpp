// `tenon bench` as a process: a quick run of everything, and what it refuses.
// SPDX-License-Identifier: MIT

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "bench/workload.h"
#include "tenon/base/file.h"
#include "tests/cli/run_tenon.h"

namespace tenon::bench {
namespace {

using ::testing::HasSubstr;
using testing::run_tenon;
using testing::TempFolder;
using testing::TenonResult;

TEST(BenchCommand, AQuickRunFillsEveryRow) {
  const TempFolder folder;
  const TenonResult result =
      run_tenon({"bench", "--quick", "--threads", "1", "--json", folder / "rows.json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const char* word : {"cpu: ", "features: ", "caches: ", "a line there and back",
                           "threads:   1", "peer: ", "geometric mean", "wrote "})
    EXPECT_THAT(result.out, HasSubstr(word));
  const std::vector<Workload> all = all_workloads(true, {});
  nlohmann::json rows = nlohmann::json::parse(read_file(folder / "rows.json"));
  // The machine's own figures come first.
  std::set<std::string> limits;
  while (!rows.empty() && rows[0]["group"] == "limits") {
    EXPECT_GT(rows[0]["limit"].get<double>(), 0) << rows[0];
    limits.insert(rows[0]["limit_name"].get<std::string>());
    rows.erase(0);
  }
  for (const char* name : {"read", "copy", "copy NT"})
    EXPECT_TRUE(limits.contains(name)) << name;
  ASSERT_EQ(rows.size(), all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(rows[i]["name"], all[i].name);
    EXPECT_FALSE(rows[i]["failed"].get<bool>()) << rows[i];
    EXPECT_GT(rows[i]["tenon"].get<double>(), 0) << rows[i];
    EXPECT_GE(rows[i]["kernels"].get<int>(), 1) << rows[i];
  }
  EXPECT_GT(rows.back()["tenon"].get<double>(), 0);
}

TEST(BenchCommand, TheInterpreterIsTimed) {
  const TempFolder folder;
  const TenonResult result =
      run_tenon({"bench", "--quick", "--interp", "--json", folder / "rows.json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  const auto rows = nlohmann::json::parse(read_file(folder / "rows.json"));
  EXPECT_EQ(rows.size(), 15U);
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row["unit"], "Mlane-op/s");
    EXPECT_GT(row["tenon"].get<double>(), 0) << row["name"];
  }
}

TEST(BenchCommand, CompileAndLaunchInOneRun) {
  const TempFolder folder;
  const TenonResult result =
      run_tenon({"bench", "--quick", "--compile", "--launch", "--json", folder / "rows.json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  std::map<std::string, nlohmann::json> by_name;
  for (const nlohmann::json& row : nlohmann::json::parse(read_file(folder / "rows.json")))
    by_name[row["name"]] = row;
  for (const char* name :
       {"matmul_64_nest_nodes", "matmul_64_graph_to_source", "matmul_64_lower", "chain_100",
        "chain_1000", "start_up_warm", "start_up_cold", "launch_steady"}) {
    ASSERT_TRUE(by_name.contains(name)) << name;
    EXPECT_GT(by_name[name]["tenon"].get<double>(), 0) << name;
    EXPECT_TRUE(by_name[name]["lower_is_better"].get<bool>()) << name;
  }
  EXPECT_GE(by_name["start_up_warm"]["kernels"].get<int>(), 1);
  EXPECT_GE(by_name["start_up_cold"]["kernels"].get<int>(), 1);
  EXPECT_EQ(by_name["launch_steady"]["kernels"].get<int>(), 1);
}

TEST(BenchCommand, PlansAreTimedBesideEachOther) {
  const TempFolder folder;
  const TenonResult result = run_tenon({"bench", "--plans", "--quick", "gemv_4096", "conv_3x3",
                                        "--num-plans", "3", "--json", folder / "rows.json"});
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  for (const char* words : {"chosen/fastest", "gemv_4096", "conv_3x3", "worst: ", "wrote "})
    EXPECT_THAT(result.out, HasSubstr(words));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("softmax")));
  const nlohmann::json rows = nlohmann::json::parse(read_file(folder / "rows.json"));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["name"], "gemv_4096");
  EXPECT_EQ(rows[1]["name"], "conv_3x3");
  for (const nlohmann::json& row : rows) {
    EXPECT_EQ(row["group"], "plans");
    EXPECT_EQ(row["unit"], "us");
    EXPECT_TRUE(row["lower_is_better"].get<bool>());
    EXPECT_FALSE(row["failed"].get<bool>());
    EXPECT_EQ(row["peers"].size(), 2U) << row;
    double fastest = row["tenon"].get<double>();
    EXPECT_GT(fastest, 0);
    for (const auto& [name, peer] : row["peers"].items()) {
      EXPECT_TRUE(name.starts_with("1 ") || name.starts_with("2 ")) << row;
      fastest = std::min(fastest, peer["best"].get<double>());
    }
    EXPECT_DOUBLE_EQ(row["ratio"].get<double>(), row["tenon"].get<double>() / fastest) << row;
    EXPECT_GT(row["limit"].get<double>(), 0) << row;
    EXPECT_GE(row["windows"].get<int>(), 5) << row;
    EXPECT_GE(row["kernels"].get<int>(), 1) << row;
  }
  const TenonResult wrong = run_tenon({"bench", "--plans", "--quick", "gemw_4096"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean 'gemv_4096'"));
}

TEST(BenchCommand, ListNamesAllAndMeasuresNothing) {
  const TenonResult result = run_tenon({"bench", "--list", "--draw", "deadbeef00"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const Workload& workload : all_workloads(false, 0xdeadbeef))
    EXPECT_THAT(result.out, HasSubstr("\n" + workload.name + " "));
}

TEST(BenchCommand, WrongUsageIsTwo) {
  const auto expect = [](const std::vector<std::string>& words, const char* text) {
    std::vector<std::string> arguments{"bench"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const TenonResult result = run_tenon(arguments);
    EXPECT_EQ(result.exit_code, 2) << text << result.out << result.err;
    EXPECT_THAT(result.err, ::testing::StartsWith("tenon: ")) << text;
    EXPECT_THAT(result.err, HasSubstr(text));
  };
  expect({"gemw"}, "did you mean 'gemv'");
  expect({"--draw", "12345"}, "at least 8 hex digits");
  expect({"--draw", "12345xyz"}, "'12345xyz'");
  expect({"--threads", "0"}, "--threads must be 1 to");
  expect({"--threads", "two"}, "two");
  expect({"--budget", "0"}, "--budget");
  expect({"--budget", "nan"}, "--budget");
  expect({"--serve"}, "--serve takes one workload");
  expect({"--serve", "matmul_f32"}, "--serve takes one workload");
  expect({"--compile", "gemv"}, "take no workloads");
  expect({"--frobnicate"}, "--frobnicate");
}

TEST(BenchCommand, AFileThatCannotBeWrittenIsOne) {
  const TenonResult result =
      run_tenon({"bench", "--quick", "gemv", "--json", "/nonexistent/rows.json"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("/nonexistent"));
  const TenonResult plans =
      run_tenon({"bench", "--plans", "--quick", "--json", "/nonexistent/rows.json"});
  EXPECT_EQ(plans.exit_code, 1);
  EXPECT_THAT(plans.err, HasSubstr("/nonexistent"));
  EXPECT_THAT(plans.err, ::testing::Not(HasSubstr("chosen: "))) << "before anything is measured";
}

}  // namespace
}  // namespace tenon::bench
