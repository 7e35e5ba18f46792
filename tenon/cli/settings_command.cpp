// `tenon settings`. SPDX-License-Identifier: MIT

#include "tenon/base/error.h"
#include "tenon/base/settings.h"
#include "tenon/base/text.h"
#include "tenon/cli/commands.h"
#include "tenon/cli/console.h"

namespace tenon::cli {
namespace {

std::string_view kind_name(SettingKind kind) {
  switch (kind) {
    case SettingKind::kBool: return "switch";
    case SettingKind::kInt: return "number";
    case SettingKind::kCount: return "count";
    case SettingKind::kString: return "text";
  }
  return "";
}

std::string shown(std::string_view text) {
  return text.empty() ? "(empty)" : std::string(text);
}

}  // namespace

int settings_command() {
  Table table;
  table.add({"NAME", "TYPE", "DEFAULT", "NOW", "MEANING"});
  std::string faults;
  std::vector<std::string> names;
  for (const SettingInfo& info : settings_table()) {
    names.emplace_back(info.variable);
    std::string now;
    try {
      now = shown(setting_text(info.setting));
    } catch (const Error& error) {
      now = "(bad)";
      append(faults, error.what(), "\n");
    }
    table.add({std::string(info.variable), std::string(kind_name(info.kind)),
               shown(info.default_text), now, std::string(info.help)});
  }
  print(table.text());
  for (const std::string& variable : unknown_variables()) {
    const std::optional<std::string> nearest = nearest_name(variable, names);
    print(concat("\n", variable, " is set and is no setting",
                 nearest ? concat("; did you mean ", *nearest, "?") : ".", "\n"));
  }
  if (faults.empty()) return kExitOk;
  print_note(faults);
  return kExitFailed;
}

}  // namespace tenon::cli
