// SPDX-License-Identifier: MIT

#include "bench/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tenon/base/text.h"
#include "tenon/cli/console.h"

namespace tenon::bench {
namespace {

/// Three or four digits that count.
std::string number_text(double value) {
  if (value >= 1000) return fmt::format("{:.0f}", value);
  if (value >= 100) return fmt::format("{:.1f}", value);
  return value >= 1 ? fmt::format("{:.2f}", value) : fmt::format("{:.3f}", value);
}

/// "94.1 (88.0)": best and median.
std::string figure_text(const Figure& figure) {
  return concat(number_text(figure.best), " (", number_text(figure.median), ")",
                figure.invalid.empty() ? "" : "!");
}

const Figure* find_peer(const Row& row, const std::string& name) {
  for (const Figure& peer : row.peers)
    if (peer.name == name) return &peer;
  return nullptr;
}

/// All peers of all rows, in order of their first row.
std::vector<std::string> peer_names(const std::vector<Row>& rows) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    for (const Figure& peer : row.peers) {
      const bool is_new = std::find(names.begin(), names.end(), peer.name) == names.end();
      if (is_new) names.push_back(peer.name);
    }
  }
  return names;
}

std::string remarks(const Row& row) {
  std::vector<std::string> words;
  if (row.has_failed) words.emplace_back("FAILED");
  if (!row.note.empty()) words.push_back(row.note);
  if (row.limit) words.push_back(concat("limit: ", row.limit->name));
  return join(words, "; ");
}

/// "matmul_f32: geometric mean 1.02, worst 0.81 (matmul_f32_64) of 3", for groups with two ratios
/// or more.
std::string groups_text(const std::vector<Row>& rows) {
  std::vector<std::string> groups;
  for (const Row& row : rows) {
    const bool is_new = std::find(groups.begin(), groups.end(), row.group) == groups.end();
    if (row.ratio && is_new) groups.push_back(row.group);
  }
  std::string text;
  const auto add = [&](std::string_view title, const auto& is_meant) {
    std::vector<double> ratios;
    const Row* worst = nullptr;
    for (const Row& row : rows) {
      if (!row.ratio || !is_meant(row)) continue;
      ratios.push_back(*row.ratio);
      if (worst == nullptr || *row.ratio < *worst->ratio) worst = &row;
    }
    if (worst == nullptr || ratios.size() < 2) return;
    const double mean = geometric_mean(ratios);
    append(text, fmt::format("{}: geometric mean {:.3f}, worst {:.3f} ({}) of {}\n", title, mean,
                             *worst->ratio, worst->name, ratios.size()));
    if (title == worst->group && mean < worst->mean_goal) {
      append(text, fmt::format("missed: {} geometric mean {:.3f}, goal {:.3f}\n", title, mean,
                               worst->mean_goal));
    }
  };
  for (const std::string& group : groups)
    add(group, [&](const Row& row) { return row.group == group; });
  if (groups.size() > 1) add("all", [](const Row&) { return true; });
  return text;
}

std::string goals_text(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    if (is_goal_met(row).value_or(true)) continue;
    const double reached = row.is_lower_better ? row.tenon->median : *row.ratio;
    append(text, "missed: ", row.name, " ", number_text(reached), row.is_lower_better ? " " : "",
           row.is_lower_better ? row.unit : "", ", goal ", number_text(row.goal), "\n");
  }
  return text;
}

nlohmann::ordered_json json_of(const Row& row) {
  const auto number_or_null = [](const std::optional<double>& value) -> nlohmann::ordered_json {
    if (!value) return nullptr;
    return *value;
  };
  nlohmann::ordered_json object;
  object["name"] = row.name;
  object["group"] = row.group;
  object["unit"] = row.unit;
  object["lower_is_better"] = row.is_lower_better;
  object["tenon"] = nullptr;
  object["tenon_median"] = nullptr;
  if (row.tenon) {
    object["tenon"] = row.tenon->best;
    object["tenon_median"] = row.tenon->median;
  }
  object["peers"] = nlohmann::ordered_json::object();
  for (const Figure& peer : row.peers) {
    object["peers"][peer.name] = {{"best", peer.best}, {"median", peer.median}};
    if (!peer.invalid.empty()) object["peers"][peer.name]["invalid"] = peer.invalid;
  }
  object["limit"] = nullptr;
  object["limit_name"] = nullptr;
  if (row.limit) {
    object["limit"] = row.limit->best;
    object["limit_name"] = row.limit->name;
  }
  object["ratio"] = number_or_null(row.ratio);
  object["goal"] = row.goal > 0 ? nlohmann::ordered_json(row.goal) : nullptr;
  object["windows"] = row.windows;
  object["kernels"] = row.kernels;
  object["note"] = row.note;
  object["failed"] = row.has_failed;
  return object;
}

}  // namespace

Figure rate_figure(std::string name, double work, const Summary& times_s) {
  return {.name = std::move(name),
          .best = work / times_s.best,
          .median = work / times_s.median,
          .invalid = {}};
}

void set_ratio(Row& row, bool is_against_limit) {
  double best = 0;
  if (is_against_limit) {
    best = row.limit ? row.limit->best : 0;
  } else {
    for (const Figure& peer : row.peers)
      if (peer.invalid.empty()) best = std::max(best, peer.best);
  }
  if (row.tenon && best > 0) row.ratio = row.tenon->best / best;
}

std::optional<bool> is_goal_met(const Row& row) {
  if (row.goal <= 0 || !row.tenon) return std::nullopt;
  if (row.is_lower_better) return row.tenon->median <= row.goal;
  if (!row.ratio) return std::nullopt;
  return *row.ratio >= row.goal;
}

std::string table_text(const std::vector<Row>& rows) {
  const std::vector<std::string> peers = peer_names(rows);
  cli::Table table;
  std::vector<std::string> head{"name", "unit", "tenon best (median)"};
  head.insert(head.end(), peers.begin(), peers.end());
  head.insert(head.end(), {"limit", "ratio", "of limit", "kernels", "remarks"});
  table.add(head);
  for (const Row& row : rows) {
    std::vector<std::string> cells{row.name, row.unit, row.tenon ? figure_text(*row.tenon) : "-"};
    for (const std::string& name : peers) {
      const Figure* const peer = find_peer(row, name);
      cells.push_back(peer != nullptr ? figure_text(*peer) : "-");
    }
    cells.push_back(row.limit ? number_text(row.limit->best) : "-");
    cells.push_back(row.ratio ? fmt::format("{:.3f}", *row.ratio) : "-");
    cells.push_back(row.limit && row.tenon
                        ? fmt::format("{:.1f} %", 100 * row.tenon->best / row.limit->best)
                        : "-");
    cells.push_back(row.kernels > 0 ? concat(row.kernels) : "-");
    cells.push_back(remarks(row));
    table.add(cells);
  }
  return concat(table.text(), groups_text(rows), goals_text(rows));
}

std::string json_text(const std::vector<Row>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Row& row : rows)
    list.push_back(json_of(row));
  return list.dump(1) + "\n";
}

}  // namespace tenon::bench
