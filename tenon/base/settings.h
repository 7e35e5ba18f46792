// Settings: the only reader of the environment. A table (settings.def) of variables with kind,
// default and help; typed getters; overrides for tests and for the command line.
// A variable is read once, at the first use of its setting. SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// The rows of settings.def.
enum class Setting : uint8_t {
#define TENON_SETTING(id, variable, kind, default_text, help) id,
#include "tenon/base/settings.def"
#undef TENON_SETTING
};

enum class SettingKind : uint8_t { kBool, kInt, kCount, kString };

/// One row, for `tenon settings`.
struct SettingInfo {
  Setting setting;
  std::string_view variable;
  SettingKind kind;
  std::string default_text;
  std::string_view help;
};

/// All rows in the order of settings.def.
std::span<const SettingInfo> settings_table();

/// The value of a setting of that kind (setting_int: kInt and kCount). An empty variable counts
/// as not set. Safe from any thread; setting_bool and setting_int cost two atomic loads.
/// Throws kInvalidArgument, naming the variable, if its text is not of the kind.
bool setting_bool(Setting setting);
int64_t setting_int(Setting setting);
std::string setting_string(Setting setting);

/// The value as text, whatever the kind, as `tenon settings` prints it.
std::string setting_text(Setting setting);

/// A setting has this value while the object lives, in all threads; then the one before. Objects
/// for the same setting must end in reverse order. Throws as the getters do if `text` is bad.
class ScopedSetting {
 public:
  ScopedSetting(Setting setting, std::string_view text);
  ~ScopedSetting();
  ScopedSetting(const ScopedSetting&) = delete;
  ScopedSetting& operator=(const ScopedSetting&) = delete;

 private:
  Setting setting_;
  std::optional<std::string> before_;  // empty: had not been read yet
};

/// Variables in the environment that start with TENON_ and are no setting: misspelt, perhaps.
std::vector<std::string> unknown_variables();

/// The user's folders, from HOME, XDG_CACHE_HOME and TMPDIR. Empty if the environment has none
/// (temporary_folder: "/tmp"). Not created.
std::string home_folder();
std::string user_cache_folder();
std::string temporary_folder();

/// The folders of PATH, in order, without empty ones.
std::vector<std::string> program_folders();

}  // namespace tenon
