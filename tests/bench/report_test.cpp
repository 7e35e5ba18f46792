// What a table and a JSON file say of rows. SPDX-License-Identifier: MIT

#include "bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tenon::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Figure figure(const std::string& name, double best) {
  return {.name = name, .best = best, .median = best / 2, .invalid = {}};
}

Row row_of(const std::string& name, double tenon, std::vector<Figure> peers) {
  Row row{.name = name, .group = "products", .unit = "GFLOP/s"};
  row.tenon = figure("tenon", tenon);
  row.peers = std::move(peers);
  row.windows = 21;
  row.kernels = 1;
  set_ratio(row, false);
  return row;
}

TEST(Report, ARateIsWorkOverTime) {
  const Figure figure = rate_figure("x", 6, {.best = 2, .median = 3, .windows = 5});
  EXPECT_EQ(figure.best, 3);
  EXPECT_EQ(figure.median, 2);
}

TEST(Report, RatioIsToTheBestValidPeer) {
  EXPECT_DOUBLE_EQ(*row_of("a", 90, {figure("p", 60), figure("q", 120)}).ratio, 0.75);
  Figure wrong = figure("q", 120);
  wrong.invalid = "wrong result";
  EXPECT_DOUBLE_EQ(*row_of("a", 90, {figure("p", 60), wrong}).ratio, 1.5);
  EXPECT_FALSE(row_of("a", 90, {wrong}).ratio);
  EXPECT_FALSE(row_of("a", 90, {}).ratio);
}

TEST(Report, RatioToTheLimitWhereNoPeerIsMeant) {
  Row row = row_of("a", 90, {});
  row.limit = figure("copy", 120);
  set_ratio(row, false);
  EXPECT_FALSE(row.ratio);
  set_ratio(row, true);
  EXPECT_DOUBLE_EQ(*row.ratio, 0.75);
}

TEST(Report, GoalsGoUpForRatesAndDownForTimes) {
  Row row = row_of("a", 90, {figure("p", 100)});
  EXPECT_FALSE(is_goal_met(row));  // there is none
  row.goal = 0.9;
  EXPECT_TRUE(*is_goal_met(row));
  row.goal = 0.91;
  EXPECT_FALSE(*is_goal_met(row));
  row.is_lower_better = true;
  row.tenon = Figure{.name = "tenon", .best = 60, .median = 90, .invalid = {}};
  row.goal = 90;
  EXPECT_TRUE(*is_goal_met(row));
  row.goal = 89;
  EXPECT_FALSE(*is_goal_met(row));
}

std::vector<Row> some_rows() {
  std::vector<Row> rows = {row_of("small", 50, {figure("p", 100), figure("q", 20)}),
                           row_of("large", 300, {figure("p", 150)})};
  rows[0].goal = 0.7;
  rows[1].goal = 0.7;
  rows[1].limit = figure("FMA peak", 400);
  Row skipped{.name = "huge", .group = "products", .unit = "GFLOP/s"};
  skipped.note = "skipped: a run takes 7.00 s, budget 1 s";
  rows.push_back(skipped);
  return rows;
}

TEST(Report, TableHasAColumnForEachPeerAndTheMeanBelow) {
  const std::string text = table_text(some_rows());
  EXPECT_THAT(
      text, ::testing::ContainsRegex(
                "name +unit +tenon best .median. +p +q +limit +ratio +of limit +kernels +remarks"));
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "small +GFLOP/s +50.00 .25.00. +100.0 .50.00. +20.00 .10.00. +- +0.500"));
  EXPECT_THAT(text, ::testing::ContainsRegex("large .* +- +400.0 +2.000 +75.0 % +1 "));
  EXPECT_THAT(text, HasSubstr("skipped: a run takes 7.00 s"));
  EXPECT_THAT(text, HasSubstr("products: geometric mean 1.000, worst 0.500 (small) of 2\n"));
  EXPECT_THAT(text, HasSubstr("missed: small 0.500, goal 0.700\n"));
  EXPECT_THAT(text, Not(HasSubstr("missed: large")));
}

TEST(Report, AGroupMayHaveAGoalForItsMean) {
  std::vector<Row> rows = some_rows();
  rows[0].mean_goal = rows[1].mean_goal = 1.01;
  EXPECT_THAT(table_text(rows), HasSubstr("missed: products geometric mean 1.000, goal 1.010\n"));
  rows[0].mean_goal = rows[1].mean_goal = 0.99;
  EXPECT_THAT(table_text(rows), Not(HasSubstr("missed: products")));
}

TEST(Report, InvalidPeersAreMarked) {
  Row row = row_of("a", 90, {figure("p", 60)});
  row.peers[0].invalid = "slow";
  EXPECT_THAT(table_text({row}), HasSubstr("60.00 (30.00)!"));
}

TEST(Report, JsonIsAListOfObjects) {
  const nlohmann::json list = nlohmann::json::parse(json_text(some_rows()));
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[1]["name"], "large");
  EXPECT_EQ(list[1]["unit"], "GFLOP/s");
  EXPECT_EQ(list[1]["tenon"], 300);
  EXPECT_EQ(list[1]["tenon_median"], 150);
  EXPECT_EQ(list[1]["peers"]["p"]["best"], 150);
  EXPECT_EQ(list[1]["peers"]["p"]["median"], 75);
  EXPECT_EQ(list[1]["limit"], 400);
  EXPECT_EQ(list[1]["limit_name"], "FMA peak");
  EXPECT_EQ(list[1]["ratio"], 2);
  EXPECT_EQ(list[1]["goal"], 0.7);
  EXPECT_EQ(list[1]["windows"], 21);
  EXPECT_EQ(list[1]["failed"], false);
  // Every row has every name; what is not there is null.
  for (const auto& [key, value] : list[1].items())
    EXPECT_TRUE(list[2].contains(key)) << key;
  EXPECT_TRUE(list[2]["tenon"].is_null());
  EXPECT_TRUE(list[2]["ratio"].is_null());
  EXPECT_THAT(list[2]["note"].get<std::string>(), HasSubstr("skipped"));
}

}  // namespace
}  // namespace tenon::bench
